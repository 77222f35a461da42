"""Keys and values that all layers of a DFlash drafter keep of committed tokens, in one call.

A round commits a few tokens. What they are read with (`fc`, a norm, and keys and values of each layer) is little work,
but many small operations of a library.
"""

from typing import NamedTuple

from decoding.kernels import compiled
from decoding.kernels.crew import Marks, finish, goes_on, take
from decoding.kernels.decoder import K, V, Weights, keep, normalise, settle_head
from decoding.kernels.linear import project, unit_of, units_of
from decoding.kernels.tiles import product
from decoding.types import Floats

READING_STEPS = 4


class Reading(NamedTuple):
    """Committed tokens that are read."""

    features: Floats
    """`[rows, taps * hidden]`."""
    fc: int
    """Address of the matrix `[hidden, taps * hidden]`."""
    norm: Floats
    """`[hidden]`."""
    cos: Floats
    sin: Floats
    """`[rows, head_dim]` of the rotary embedding; the first half of `sin` is negated."""
    keys: Floats
    values: Floats
    """`[layers, kv_heads, capacity, head_dim]`; the rows are written behind `past`."""
    past: int
    context: Floats
    """`[rows, hidden]`: scratch, as is the next one."""
    kv: Floats
    """`[rows, layers * 2 * kv]`: each layer's keys, then its values."""
    marks: Marks


@compiled
def read_context(weights: Weights, run: Reading, thread: int) -> None:
    """Every thread of a crew calls it with the same arguments but its number."""
    project(run.features, run.fc, weights.size, run.context, run.marks, 0, thread)
    _norm_rows(weights, run, 1, thread)
    _project_in(weights, run, 2, thread)
    _keep(weights, run, 3, thread)


@compiled
def _norm_rows(weights: Weights, run: Reading, step: int, thread: int) -> None:
    own = 0
    while True:
        row = take(run.marks, step, len(run.context), thread)
        if row == len(run.context):
            break
        own += 1
        normalise(run.context[row], run.norm, weights.epsilon, run.context[row])
    finish(run.marks, step, len(run.context), own)


@compiled
def _project_in(weights: Weights, run: Reading, step: int, thread: int) -> None:
    """Keys and values of all layers: they read the same rows."""
    rows, hidden = run.context.shape
    width = run.kv.shape[1]
    outs = run.keys.shape[1] * run.keys.shape[3]
    each = units_of(outs)
    units = 2 * len(run.keys) * each
    own = 0
    while True:
        unit = take(run.marks, step, units, thread)
        if unit == units:
            break
        own += 1
        place, start = unit // each, unit % each * unit_of(outs)
        w = weights.address[place // 2, K if place % 2 == 0 else V] + weights.size * start * hidden
        y = run.kv.ctypes.data + 4 * (place * outs + start)
        count = min(unit_of(outs), outs - start)
        then = w + weights.size * count * hidden if goes_on(run.marks, units, unit, thread) else w
        product(run.context.ctypes.data, rows, hidden, w, weights.size, count, hidden, y, width, then)
    finish(run.marks, step, units, own)


@compiled
def _keep(weights: Weights, run: Reading, step: int, thread: int) -> None:
    """Biases, norms and rotary embeddings, and into the cache."""
    rows, (layers, kv_heads, _, head_dim) = len(run.context), run.keys.shape
    outs = kv_heads * head_dim
    behind = weights.bias.shape[1] - 2 * outs
    own = 0
    while True:
        row = take(run.marks, step, rows, thread)
        if row == rows:
            break
        own += 1
        for layer in range(layers):
            kv = run.kv[row, 2 * layer * outs : 2 * (layer + 1) * outs]
            for i in range(2 * outs):
                kv[i] += weights.bias[layer, behind + i]
            for start in range(0, outs, head_dim):
                settle_head(weights, layer, 1, kv[start : start + head_dim], run.cos[row], run.sin[row])
            keep(run.keys[layer], run.values[layer], run.past + row, kv)
    finish(run.marks, step, rows, own)

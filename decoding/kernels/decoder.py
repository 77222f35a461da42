"""All layers of a Llama-like decoder over a few rows, in one call: what a round on a CPU waits for.

Between two matrix products a library does a dozen small operations, each of them a call, a new array and a start of
threads: over 30 layers they cost more than the products. Here the threads go from one product to the next by
themselves. A row's numbers do not depend on what other rows there are (see `tiles`), and entries of the cache that it
does not see count for exactly nothing: a node of a tree gets the very bits that it gets when its path is decoded alone.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled, compiled_with
from decoding.kernels.crew import Marks, finish, goes_on, take
from decoding.kernels.linear import project, unit_of, units_of
from decoding.kernels.rows import largest, silu, split_exponentials
from decoding.kernels.tiles import FLOAT32, mixtures, number_at, product
from decoding.types import Floats, Ints

Addresses = NDArray[np.int64]
STEPS = 8
"""Of a layer; one more comes at the end."""
ROWS = 8
"""Rows of a head that one thread takes at a time."""
Q, K, V, OUT, GATE, UP, DOWN = range(7)
FIXED = 2.0**40
"""What the weight 1 counts for in the sum of a softmax: 2^22 entries have room in 64 bits, and 2^-40 still counts."""


class Weights(NamedTuple):
    """Of all layers."""

    address: Addresses
    """`[layers, 7]` where each matrix `[outs, ins]` stands: q, k, v, o, gate, up, down."""
    size: int
    """Bytes of their numbers (see `tiles`)."""
    norm: Floats
    """`[layers + 1, 2, hidden]` before attention and before the MLP; the last row's first is the final one."""
    bias: Floats
    """`[layers, q + k + v]` added to queries, keys and values."""
    head_norm: Floats
    """`[layers, 2, head_dim]` of queries and keys (Qwen3); `[0, 2, head_dim]` where there is none."""
    epsilon: float
    scale: float
    """Factor of the attention scores."""


class Pass(NamedTuple):
    """One forward pass."""

    x: Floats
    """`[rows, hidden]` embeddings; on return the last layer's output."""
    cos: Floats
    sin: Floats
    """`[rows, head_dim]` of the rotary embedding; the first half of `sin` is negated."""
    mask: int
    """Address of the additive mask `[rows, past + rows]`; 0 where every row sees all before it."""
    mask_width: int
    """How far its rows are apart, in numbers."""
    keys: Floats
    values: Floats
    """`[layers, kv_heads, capacity, head_dim]`; the rows are written behind `past`."""
    past: int
    slot: Ints
    """`[layers + 1]` place among `features` of each layer's input, of the output last; -1 where it is not kept."""
    features: Floats
    """`[rows, taps * hidden]`."""
    final: Floats
    """`[rows, hidden]` result: the normed output."""
    normed: Floats
    added: Floats
    """`[rows, hidden]` each: scratch, as are the next ones."""
    read: Floats
    """`[rows, ins]` what queries, keys and values are made of: `normed` itself but in EAGLE-3's layer."""
    qkv: Floats
    """`[rows, q + k + v]`."""
    mixed: Floats
    """`[rows, q]`."""
    gate: Floats
    up: Floats
    """`[rows, intermediate]`."""
    marks: Marks


class Scratch(NamedTuple):
    """What a thread writes on beside the pass itself."""

    scores: Floats
    """`[ROWS, widest]` of attention."""
    negated: Floats
    """`[unit of the MLP]`."""
    rest: Floats
    exponent: Ints
    """As long as the longer of the two."""


@compiled
def new_scratch(run: Pass) -> Scratch:
    """A thread's own."""
    widest, unit = run.past + len(run.x), unit_of(run.gate.shape[1])
    longer = max(widest, unit)
    return Scratch(
        np.empty((ROWS, widest), np.float32),
        np.empty(unit, np.float32),
        np.empty(longer, np.float32),
        np.empty(longer, np.int32),
    )


@compiled
def decoder_pass(weights: Weights, run: Pass, thread: int) -> None:
    """Runs all layers; every thread of a crew calls it with the same arguments but its number."""
    layers, scratch = len(weights.address), new_scratch(run)
    for layer in range(layers):
        norm_rows(weights, run, 2 * layer, STEPS * layer, thread)
        run_layer(weights, run, layer, STEPS * layer + 1, thread, scratch)
    norm_rows(weights, run, 2 * layers, STEPS * layers, thread)


@compiled
def run_layer(weights: Weights, run: Pass, layer: int, step: int, thread: int, scratch: Scratch) -> None:
    """All steps of a layer from `step` on but its first norm."""
    _project_in(weights, run, layer, step, thread)
    _rotate(weights, run, layer, step + 1, thread)
    _attend(weights, run, layer, step + 2, thread, scratch)
    project(run.mixed, weights.address[layer, OUT], weights.size, run.added, run.marks, step + 3, thread)
    norm_rows(weights, run, 2 * layer + 1, step + 4, thread)
    _gate_and_up(weights, run, layer, step + 5, thread, scratch)
    project(run.gate, weights.address[layer, DOWN], weights.size, run.added, run.marks, step + 6, thread)


@compiled
def norm_rows(weights: Weights, run: Pass, place: int, step: int, thread: int) -> None:
    """Adds what the last product left to the rows, keeps them where they are asked for, and norms them.

    `place` is twice the layer, plus one for the second norm.
    """
    rows, hidden = run.x.shape
    layer, last = place // 2, place == 2 * len(weights.address)
    weight = weights.norm[layer, place % 2]
    own = 0
    while True:
        row = take(run.marks, step, rows, thread)
        if row == rows:
            break
        own += 1
        x = run.x[row]
        if place > 0:
            for i in range(hidden):
                x[i] += run.added[row, i]
        normed = run.final[row] if last else run.normed[row]
        normalise(x, weight, weights.epsilon, normed)
        slot = run.slot[layer] if place % 2 == 0 else -1
        if slot >= 0:
            kept = normed if last else x
            for i in range(hidden):
                run.features[row, slot * hidden + i] = kept[i]
    finish(run.marks, step, rows, own)


@compiled_with({"contract", "reassoc"})
def normalise(x: Floats, weight: Floats, epsilon: float, out: Floats) -> None:
    """RMSNorm of one row."""
    total = np.float32(0.0)
    for i in range(len(x)):
        total += x[i] * x[i]
    factor = np.float32(1.0) / np.sqrt(total / np.float32(len(x)) + np.float32(epsilon))
    for i in range(len(x)):
        out[i] = x[i] * factor * weight[i]


@compiled
def _project_in(weights: Weights, run: Pass, layer: int, step: int, thread: int) -> None:
    """Queries, keys and values of the rows, side by side."""
    rows, ins = run.read.shape
    width = run.qkv.shape[1]
    outs_q, outs_k = run.mixed.shape[1], (width - run.mixed.shape[1]) // 2
    units_q, units_k = units_of(outs_q), units_of(outs_k)
    units = units_q + 2 * units_k
    own = 0
    while True:
        unit = take(run.marks, step, units, thread)
        if unit == units:
            break
        own += 1
        if unit < units_q:
            matrix, place, outs, offset = Q, unit, outs_q, 0
        elif unit < units_q + units_k:
            matrix, place, outs, offset = K, unit - units_q, outs_k, outs_q
        else:
            matrix, place, outs, offset = V, unit - units_q - units_k, outs_k, outs_q + outs_k
        start = place * unit_of(outs)
        w = weights.address[layer, matrix] + weights.size * start * ins
        y = run.qkv.ctypes.data + 4 * (offset + start)
        count = min(unit_of(outs), outs - start)
        then = w + weights.size * count * ins if goes_on(run.marks, units, unit, thread) else w
        product(run.read.ctypes.data, rows, ins, w, weights.size, count, ins, y, width, then)
    finish(run.marks, step, units, own)


@compiled
def _rotate(weights: Weights, run: Pass, layer: int, step: int, thread: int) -> None:
    """Biases, norms and rotary embeddings of queries and keys; keys and values go into the cache."""
    rows = len(run.x)
    kv_heads, head_dim = run.keys.shape[1], run.keys.shape[3]
    outs_q, outs_k = run.mixed.shape[1], kv_heads * head_dim
    own = 0
    while True:
        row = take(run.marks, step, rows, thread)
        if row == rows:
            break
        own += 1
        qkv = run.qkv[row]
        for i in range(len(qkv)):
            qkv[i] += weights.bias[layer, i]
        for start in range(0, outs_q + outs_k, head_dim):
            norm = 0 if start < outs_q else 1
            settle_head(weights, layer, norm, qkv[start : start + head_dim], run.cos[row], run.sin[row])
        keep(run.keys[layer], run.values[layer], run.past + row, qkv[outs_q:])
    finish(run.marks, step, rows, own)


@compiled
def settle_head(weights: Weights, layer: int, norm: int, part: Floats, cos: Floats, sin: Floats) -> None:
    """Norm (0 of queries, 1 of keys) and rotary embedding of one head of one row."""
    if len(weights.head_norm) > 0:
        normalise(part, weights.head_norm[layer, norm], weights.epsilon, part)
    _turn(part, cos, sin)


@compiled
def keep(keys: Floats, values: Floats, place: int, kv: Floats) -> None:
    """Puts a row's keys and values, which stand side by side in `kv`, at `place` of a layer's cache."""
    kv_heads, _, head_dim = keys.shape
    outs = kv_heads * head_dim
    for head in range(kv_heads):
        for i in range(head_dim):
            keys[head, place, i] = kv[head * head_dim + i]
            values[head, place, i] = kv[outs + head * head_dim + i]


@compiled
def _turn(part: Floats, cos: Floats, sin: Floats) -> None:
    half = len(part) // 2
    for i in range(half):
        low, high = part[i], part[i + half]
        part[i] = low * cos[i] + high * sin[i]
        part[i + half] = high * cos[i + half] + low * sin[i + half]


@compiled
def _attend(weights: Weights, run: Pass, layer: int, step: int, thread: int, scratch: Scratch) -> None:
    """Attention of every head over the cache; a unit is some rows of one head."""
    scores = scratch.scores
    rows, (kv_heads, head_dim) = len(run.x), (run.keys.shape[1], run.keys.shape[3])
    heads = run.mixed.shape[1] // head_dim
    width, columns = run.qkv.shape[1], run.past + rows
    chunks = (rows + ROWS - 1) // ROWS
    units = heads * chunks
    own = 0
    while True:
        unit = take(run.marks, step, units, thread)
        if unit == units:
            break
        own += 1
        head, chunk = unit // chunks, unit % chunks
        first, last = chunk * rows // chunks, (chunk + 1) * rows // chunks
        kv_head = head * kv_heads // heads
        keys, values = run.keys[layer, kv_head], run.values[layer, kv_head]
        queries = run.qkv.ctypes.data + 4 * (first * width + head * head_dim)
        share, apart = scores.ctypes.data, scores.shape[1]
        from_k, then = keys.ctypes.data, values.ctypes.data
        product(queries, last - first, width, from_k, FLOAT32, columns, head_dim, share, apart, then)
        for row in range(first, last):
            seen = columns if run.mask != 0 else run.past + row + 1
            mask = run.mask + 4 * row * run.mask_width if run.mask != 0 else 0
            _soften(scores[row - first, :columns], seen, weights.scale, mask, scratch.rest, scratch.exponent)
        to = run.mixed.ctypes.data + 4 * (first * run.mixed.shape[1] + head * head_dim)
        mixtures(share, last - first, apart, columns, values.ctypes.data, head_dim, to, run.mixed.shape[1])
    finish(run.marks, step, units, own)


@compiled
def _soften(scores: Floats, seen: int, scale: float, mask: int, rest: Floats, exponent: Ints) -> None:
    """Scores of the first `seen` entries to weights that add up to one: softmax, the mask added; 0 for all others.

    The sum is one of integers, which has no rounding: where entries stand that are not seen leaves no trace in it.
    """
    factor, found = np.float32(scale), scores[:seen]
    for i in range(seen):
        found[i] *= factor
    if mask != 0:
        for i in range(seen):
            found[i] += number_at(mask + 4 * i)
    split_exponentials(found, largest(found), exponent, rest)
    power = exponent.view(np.float32)
    total = np.int64(0)
    for i in range(seen):
        found[i] = power[i] * rest[i]
        total += np.int64(np.float64(found[i]) * FIXED)
    share = np.float32(FIXED / np.float64(total))
    for i in range(seen):
        found[i] *= share
    scores[seen:] = np.float32(0.0)


@compiled
def _gate_and_up(weights: Weights, run: Pass, layer: int, step: int, thread: int, scratch: Scratch) -> None:
    """SwiGLU: `gate = silu(gate) * up`."""
    rows, hidden = run.normed.shape
    outs = run.gate.shape[1]
    units = units_of(outs)
    own = 0
    while True:
        unit = take(run.marks, step, units, thread)
        if unit == units:
            break
        own += 1
        start = unit * unit_of(outs)
        count = min(unit_of(outs), outs - start)
        x, to_gate, to_up = run.normed.ctypes.data, run.gate.ctypes.data + 4 * start, run.up.ctypes.data + 4 * start
        size, offset = weights.size, weights.size * start * hidden
        gate, up = weights.address[layer, GATE] + offset, weights.address[layer, UP] + offset
        then = gate + size * count * hidden if goes_on(run.marks, units, unit, thread) else up
        product(x, rows, hidden, gate, size, count, hidden, to_gate, outs, up)
        product(x, rows, hidden, up, size, count, hidden, to_up, outs, then)
        for row in range(rows):
            columns = slice(start, start + count)
            _swish(run.gate[row, columns], run.up[row, columns], scratch)
    finish(run.marks, step, units, own)


@compiled
def _swish(gate: Floats, up: Floats, scratch: Scratch) -> None:
    count = len(gate)
    negated, rest, exponent = scratch.negated[:count], scratch.rest[:count], scratch.exponent[:count]
    silu(gate, negated, exponent, rest)
    for i in range(count):
        gate[i] *= up[i]

"""EAGLE-3's layer over a few rows, in one call: a Llama layer whose attention reads two normed rows side by side."""

from typing import NamedTuple

from decoding.kernels import compiled
from decoding.kernels.crew import finish, take
from decoding.kernels.decoder import STEPS, Pass, Weights, new_scratch, norm_rows, normalise, run_layer
from decoding.types import Floats


class Pairs(NamedTuple):
    """What the layer reads beside the states before it, which are the pass's `x`."""

    embedded: Floats
    """`[rows, hidden]` embeddings of the tokens."""
    hidden_norm: Floats
    """`[hidden]` weights of the norm of the states."""
    from_normed: bool
    """Whether the residual path begins with the normed states."""


@compiled
def eagle_pass(weights: Weights, run: Pass, pairs: Pairs, thread: int) -> None:
    """Every thread of a crew calls it with the same arguments but its number; `x` is left as the recurrent states."""
    scratch = new_scratch(run)
    _norm_pairs(weights, run, pairs, 0, thread)
    run_layer(weights, run, 0, 1, thread, scratch)
    norm_rows(weights, run, 2, STEPS, thread)


@compiled
def _norm_pairs(weights: Weights, run: Pass, pairs: Pairs, step: int, thread: int) -> None:
    rows, hidden = run.x.shape
    own = 0
    while True:
        row = take(run.marks, step, rows, thread)
        if row == rows:
            break
        own += 1
        token, state = run.read[row, :hidden], run.read[row, hidden:]
        normalise(pairs.embedded[row], weights.norm[0, 0], weights.epsilon, token)
        normalise(run.x[row], pairs.hidden_norm, weights.epsilon, state)
        if pairs.from_normed:
            for i in range(hidden):
                run.x[row, i] = state[i]
    finish(run.marks, step, rows, own)

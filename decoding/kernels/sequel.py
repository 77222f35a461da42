"""What a drafted token changes in the candidates after it: a sequential head's step, for one node of a plan."""

from typing import NamedTuple

import numpy as np

from decoding.kernels import compiled, compiled_with
from decoding.kernels.rows import ZERO, multiply, silu, split_exponentials
from decoding.types import Floats, Ints

TAIL = 4
"""What lies beyond the candidates that are asked about changes as the last of so many parts of them."""


class Sequel(NamedTuple):
    """A sequential head in a round (see `decoding.drafters.sequential_head`), `width` wide."""

    states: Floats
    """`[positions, hidden]` the drafter's final states; no positions where there is no head."""
    state: Floats
    """`[width, hidden]` what they add."""
    place: Floats
    """`[positions, width]` what a position adds."""
    word: Floats
    """`[vocab, width]` what the token before adds."""
    carry: Floats
    """`[width, width]` how it goes on from the step before."""
    column: Floats
    """`[vocab, width]` what a step adds to every token's logit."""


NO_SEQUEL = Sequel(*[np.empty((0, 0), np.float32)] * 6)


@compiled_with({"contract", "reassoc"})
def dot(one: Floats, other: Floats) -> float:
    """Of two rows of like length."""
    total = np.float32(0.0)
    for i in range(len(one)):
        total += one[i] * other[i]
    return total


@compiled
def look_ahead(sequel: Sequel) -> Floats:
    """`[positions, width]` what does not depend on any token."""
    ahead = sequel.place.copy()
    for position in range(len(ahead)):
        for i in range(ahead.shape[1]):
            ahead[position, i] += dot(sequel.state[i], sequel.states[position])
    return ahead


@compiled
def take_step(sequel: Sequel, ahead: Floats, token: int, before: Floats, step: Floats) -> None:
    """Writes the step `[width]` that speaks of a node's children: silu of what lies `ahead` at their position, the
    node's `token` and the step `before`, that of the node itself, add up to. The root has none before it: no number."""
    width = len(step)
    for i in range(width):
        step[i] = ahead[i] + sequel.word[token, i]
    if len(before) > 0:
        for i in range(width):
            step[i] += dot(sequel.carry[i], before)
    silu(step, np.empty(width, np.float32), np.empty(width, np.int32), np.empty(width, np.float32))


@compiled
def _exponentials(values: Floats, peak: float) -> Floats:
    """`exp(values - peak)`."""
    exponent, rest = np.empty(len(values), np.int32), np.empty(len(values), np.float32)
    split_exponentials(values, peak, exponent, rest)
    multiply(exponent.view(np.float32), rest, rest)
    return rest


@compiled
def corrected(sequel: Sequel, step: Floats, token: Ints, logprob: Floats, out: Floats) -> None:
    """Writes the log-probabilities (nats) that a `step` makes of those of the first of the candidates `token` and
    `logprob` `[k]`, which fall: as many as there is room for in `out`.

    They are normalised over the vocabulary, of which only these are asked about: the mass of all others is taken to
    change as that of the last part of them does.
    """
    count, peak = len(out), np.float32(-np.inf)
    for place in range(count):
        out[place] = logprob[place] + dot(sequel.column[token[place]], step)
        peak = max(peak, out[place])
    if peak == -np.inf:
        return
    chance, raised = _exponentials(logprob[:count], ZERO), _exponentials(out, peak)
    mass, total, before, after, last = 0.0, 0.0, 0.0, 0.0, count - max(count // TAIL, 1)
    for place in range(count):
        mass, total = mass + chance[place], total + raised[place]
        if place >= last:
            before, after = before + chance[place], after + raised[place]
    if before > 0.0:
        total += max(1.0 - mass, 0.0) * after / before
    normaliser = peak + np.float32(np.log(total))
    for place in range(count):
        out[place] = min(out[place] - normaliser, np.float32(0.0))

"""What a drafted token changes in the candidates after it: a sequential head's step, for one node of a plan."""

from typing import NamedTuple

import numpy as np

from decoding.kernels import compiled, compiled_with
from decoding.types import Floats, Ints

ONE = np.float32(1.0)
TAIL = 4
"""What lies beyond the kept candidates changes on the mean as the last of so many parts of them."""


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
    for i in range(len(step)):
        total = ahead[i] + sequel.word[token, i]
        if len(before) > 0:
            total += dot(sequel.carry[i], before)
        step[i] = total / (ONE + np.exp(-total))


@compiled
def corrected(sequel: Sequel, step: Floats, token: Ints, logprob: Floats, out: Floats) -> None:
    """Writes the log-probabilities (nats) that a `step` makes of those of the candidates `token` and `logprob`, `[k]`.

    They are normalised over the vocabulary, of which only the candidates are known: the mass of the others is taken
    to change as that of the least likely of them do on the mean.
    """
    count = len(token)
    peak, mass = np.float32(-np.inf), 0.0
    for place in range(count):
        mass += np.exp(np.float64(logprob[place]))
        out[place] = logprob[place] + dot(sequel.column[token[place]], step)
        peak = max(peak, out[place])
    if peak == -np.inf:
        return
    total = _rest(mass, logprob, out, peak)
    for place in range(count):
        total += np.exp(np.float64(out[place] - peak))
    normaliser = np.float32(np.float64(peak) + np.log(total))
    for place in range(count):
        out[place] = min(out[place] - normaliser, np.float32(0.0))


@compiled
def _rest(mass: float, logprob: Floats, raised: Floats, peak: float) -> float:
    """What the candidates leave of the whole `mass`, changed as the last part of them are; divided by exp(`peak`)."""
    count, before, after = len(logprob), 0.0, 0.0
    for place in range(count - max(count // TAIL, 1), count):
        before += np.exp(np.float64(logprob[place]))
        after += np.exp(np.float64(raised[place] - peak))
    return max(1.0 - mass, 0.0) * after / before if before > 0.0 else 0.0

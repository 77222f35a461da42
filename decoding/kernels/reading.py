"""Tables of logits read, or turned into probabilities, by a crew of threads: a unit is a row."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled
from decoding.kernels.crew import Marks, finish, take
from decoding.kernels.pieces import piece_sums
from decoding.kernels.rows import candidates, rank_of, soften, sums
from decoding.types import Floats, Ints

Numbers = NDArray[np.int64]


class Asked(NamedTuple):
    """Tokens of whom the rows are asked what they think."""

    start: Numbers
    """`[rows + 1]` where each row's own begin in `place`."""
    place: Numbers
    """`[asked]` in `token` and in what is found of it."""
    token: Ints
    """Columns."""


class Found(NamedTuple):
    """What was read of rows of logits."""

    value: Floats
    """`[rows, k]` the largest, in falling order."""
    column: Ints
    """`[rows, k]` their columns; equal values keep the lowest columns and stand in rising order of them."""
    logprob: Floats
    """`[rows, k]` their log-probabilities (nats), 0 at most."""
    normaliser: NDArray[np.float64]
    """`[rows]` log of the sum of `exp(logit - the row's largest)` (nats); NaN, with nothing in the three above, where
    the row has fewer than k numbers."""
    entropy: Floats
    """`[rows]` entropy (nats) of the softmax; not finite where the row is not."""
    rank: Ints
    """Of every token that was asked about: 1 + how many entries of its row are larger."""
    asked_logprob: Floats
    """As long: its log-probability (nats), 0 at most."""


class Table(NamedTuple):
    """Some rows that are read."""

    logits: Floats
    """`[rows, vocab]`."""
    first: int
    """The number of the first of them in `asked` and `found`."""
    asked: Asked
    found: Found
    maxima: Floats
    keys: Numbers
    """`[threads, vocab]` each: scratch."""
    marks: Marks


@compiled
def read_table(run: Table, thread: int) -> None:
    """Every thread of a crew calls it with the same arguments but its number."""
    rows, own = len(run.logits), 0
    while True:
        row = take(run.marks, 0, rows, thread)
        if row == rows:
            break
        own += 1
        _read_row(run.logits[row], run.first + row, run.asked, run.found, run.maxima[thread], run.keys[thread])
    finish(run.marks, 0, rows, own)


@compiled
def _read_row(logits: Floats, row: int, asked: Asked, found: Found, maxima: Floats, keys: Numbers) -> None:
    k = found.column.shape[1]
    count = candidates(logits, k, maxima, keys)
    if count < k:
        found.normaliser[row] = np.nan
        found.entropy[row] = np.nan
        return
    best = keys[:count]
    best.sort()
    for place in range(k):
        column = best[place] & 0xFFFFFFFF
        found.column[row, place] = column
        found.value[row, place] = logits[column] + np.float32(0.0)  # no minus zero
    top = found.value[row, 0]
    over = sums(logits, top)
    normaliser = np.log(over.mass)
    found.normaliser[row] = normaliser
    entropy = normaliser - over.dot / over.mass
    found.entropy[row] = 0.0 if entropy < 0.0 else entropy  # NaN stays
    for place in range(k):
        found.logprob[row, place] = _logprob(found.value[row, place], top, normaliser)
    for place in asked.place[asked.start[row] : asked.start[row + 1]]:
        token = asked.token[place]
        found.rank[place] = rank_of(logits, token)
        found.asked_logprob[place] = _logprob(logits[token], top, normaliser)


@compiled
def _logprob(value: float, top: float, normaliser: float) -> float:
    """The largest is subtracted first because the two are close; rounding must give no probability above 1."""
    logprob = np.float64(value - top) - normaliser
    return 0.0 if logprob > 0.0 else logprob  # NaN stays


class Softening(NamedTuple):
    """What logits come to at a temperature."""

    temperature: float
    """Nothing is done where it is 0."""
    probs: Floats
    """`[rows, vocab]` the softmax of each row of `logits / temperature`."""
    mass: NDArray[np.float64]
    """`[rows, pieces]` its sums (see `pieces`): the thread that made a row has it at hand. No rows: not wanted."""
    marks: Marks


@compiled
def soften_table(logits: Floats, softening: Softening, thread: int) -> None:
    """Writes what `logits` `[rows, vocab]` come to; threads as above."""
    rows, own = len(logits), 0
    if softening.temperature == 0.0:
        return
    while True:
        row = take(softening.marks, 0, rows, thread)
        if row == rows:
            break
        own += 1
        soften(logits[row], softening.temperature, softening.probs[row])
        if len(softening.mass) > 0:
            piece_sums(softening.probs[row], softening.mass[row])
    finish(softening.marks, 0, rows, own)

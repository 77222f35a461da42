"""Tables of logits read, or turned into probabilities, by a crew of threads: a unit is a row."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled
from decoding.kernels.crew import Marks, finish, take
from decoding.kernels.rows import candidates, ranks, soften, sums
from decoding.types import Floats

Numbers = NDArray[np.int64]


class Table(NamedTuple):
    """What is read of rows of logits."""

    table: Floats
    """`[rows, vocab]`."""
    column: Numbers
    """`[rows, k]` of the largest, in falling order; equal values in rising order of their columns."""
    value: Floats
    """`[rows, k]` the largest."""
    normaliser: NDArray[np.float64]
    """`[rows]` log of the sum of `exp(logit - the row's largest)` (nats); NaN, with no columns and values, where the
    row has fewer than k numbers."""
    entropy: NDArray[np.float64]
    """`[rows]` nats; not finite where the row is not."""
    start: Numbers
    """`[rows + 1]` where each row's own begin among the tokens that are ranked."""
    token: Numbers
    """`[ranked]` columns."""
    rank: Numbers
    """`[ranked]` 1 + how many entries of its row are larger."""
    maxima: Floats
    keys: Numbers
    """`[threads, vocab]` each: scratch."""
    marks: Marks


@compiled
def read_table(run: Table, thread: int) -> None:
    """Every thread of a crew calls it with the same arguments but its number."""
    rows, own = len(run.table), 0
    while True:
        row = take(run.marks, 0, rows, thread)
        if row == rows:
            break
        own += 1
        _read_row(run, row, run.maxima[thread], run.keys[thread])
        ranked = slice(run.start[row], run.start[row + 1])
        ranks(run.table[row], run.token[ranked], run.rank[ranked])
    finish(run.marks, 0, rows, own)


@compiled
def _read_row(run: Table, row: int, maxima: Floats, keys: Numbers) -> None:
    logits, k = run.table[row], run.column.shape[1]
    count = candidates(logits, k, maxima, keys)
    if count < k:
        run.normaliser[row] = run.entropy[row] = np.nan
        return
    best = keys[:count]
    best.sort()
    for place in range(k):
        column = best[place] & 0xFFFFFFFF
        run.column[row, place] = column
        run.value[row, place] = logits[column] + np.float32(0.0)  # no minus zero
    found = sums(logits, run.value[row, 0])
    normaliser = np.log(found.mass)
    run.normaliser[row] = normaliser
    entropy = normaliser - found.dot / found.mass
    run.entropy[row] = 0.0 if entropy < 0.0 else entropy  # NaN stays


@compiled
def soften_table(table: Floats, temperature: float, out: Floats, marks: Marks, thread: int) -> None:
    """Writes the softmax of each row of `table / temperature` `[rows, vocab]`; threads as above."""
    rows, own = len(table), 0
    while True:
        row = take(marks, 0, rows, thread)
        if row == rows:
            break
        own += 1
        soften(table[row], temperature, out[row])
    finish(marks, 0, rows, own)

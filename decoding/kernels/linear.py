"""One matrix product of a few rows by a crew of threads."""

import numpy as np

from decoding.kernels import compiled
from decoding.kernels.crew import Marks, done, new_marks, run_together, take, wait
from decoding.kernels.tiles import product
from decoding.types import Floats

SHARES = 16
"""Into about so many units the outputs are cut."""
LEAST = 24
"""Outputs of the smallest unit; the others are multiples of it."""


@compiled
def unit_of(outs: int) -> int:
    """Outputs that one thread takes at a time: large enough to go straight through memory, small enough to share."""
    return max(LEAST, outs // SHARES // LEAST * LEAST)


@compiled
def units_of(outs: int) -> int:
    """How many units that makes."""
    return -(-outs // unit_of(outs))


@compiled
def project(x: Floats, w: int, y: Floats, marks: Marks, step: int) -> None:
    """`y` `[rows, outs]` `= x W^T` for `x` `[rows, ins]` and the address `w` of a matrix `[outs, ins]`; a step of a
    kernel that all threads go through."""
    rows, ins = x.shape
    outs = y.shape[1]
    unit, units = unit_of(outs), units_of(outs)
    while True:
        place = take(marks, step)
        if place >= units:
            break
        start = place * unit
        to = y.ctypes.data + 4 * start
        product(x.ctypes.data, rows, ins, w + 4 * start * ins, min(unit, outs - start), ins, to, outs)
        done(marks, step)
    wait(marks, step, units)


@compiled
def _linear(x: Floats, w: int, y: Floats, marks: Marks) -> None:
    project(x, w, y, marks, 0)


def linear(x: Floats, w: Floats) -> Floats:
    """`x W^T` `[rows, outs]` of contiguous float32 `x` `[rows, ins]` and `w` `[outs, ins]`."""
    y = np.empty((len(x), len(w)), np.float32)
    run_together(_linear, x, w.ctypes.data, y, new_marks(1))
    return y

"""One matrix product of a few rows by a crew of threads."""

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled
from decoding.kernels.crew import Marks, finish, goes_on, new_marks, run_together, take
from decoding.kernels.tiles import product
from decoding.types import Floats

Bits = NDArray[np.int16]

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
def project(x: Floats, w: int, size: int, y: Floats, marks: Marks, step: int, thread: int) -> None:
    """`y` `[rows, outs]` `= x W^T` for `x` `[rows, ins]` and the address `w` of a matrix `[outs, ins]` whose numbers
    have `size` bytes; a step of a kernel that all threads go through."""
    rows, ins = x.shape
    outs = y.shape[1]
    unit, units = unit_of(outs), units_of(outs)
    own = 0
    while True:
        place = take(marks, step, units, thread)
        if place == units:
            break
        own += 1
        start = place * unit
        to, from_w = y.ctypes.data + 4 * start, w + size * start * ins
        then = from_w + size * unit * ins if goes_on(marks, units, place, thread) else from_w
        product(x.ctypes.data, rows, ins, from_w, size, min(unit, outs - start), ins, to, outs, then)
    finish(marks, step, units, own)


@compiled
def _linear(x: Floats, w: int, size: int, y: Floats, marks: Marks, thread: int) -> None:
    project(x, w, size, y, marks, 0, thread)


def linear(x: Floats, w: Floats | Bits) -> Floats:
    """`x W^T` `[rows, outs]` of contiguous float32 `x` `[rows, ins]` and `w` `[outs, ins]`, float32 or the bits of
    bfloat16."""
    y = np.empty((len(x), len(w)), np.float32)
    run_together(_linear, x, w.ctypes.data, w.itemsize, y, new_marks(1))
    return y

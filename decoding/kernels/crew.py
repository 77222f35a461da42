"""Some threads that go through one kernel together, as its steps allow.

Every thread calls the same kernel. A step of it is cut into units; whoever is free takes the next one, and nobody goes
on before all units of the step are done. A thread that comes late, or is held up by other programs, finds the units
taken and walks past: the others do not wait for it, only for what it has begun.
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from decoding.kernels import compiled

Marks = NDArray[np.int64]
LINE = 8
"""Numbers of a cache line: counters of different steps must not share one."""
PATIENCE = 4000
"""How often a waiting thread looks before it lets other programs have its core."""
AVAILABLE = sys.platform != "win32"
"""Windows has no sched_yield."""

_SIZE = ir.IntType(64)
_let_others = types.ExternalFunction("sched_yield", types.int32())


@intrinsic  # type: ignore[untyped-decorator]
def _add_one(_: Any, address: Any) -> Any:
    """Adds one to the int64 at `address`, as one indivisible operation; what it was before."""

    def codegen(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _SIZE.as_pointer())
        return builder.atomic_rmw("add", place, ir.Constant(_SIZE, 1), "seq_cst")

    return types.int64(types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _read(_: Any, address: Any) -> Any:
    """The int64 at `address`, which other threads may be changing."""

    def codegen(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _SIZE.as_pointer())
        return builder.load_atomic(place, "seq_cst", 8)

    return types.int64(types.intp), codegen


def new_marks(steps: int) -> Marks:
    """The counters of a kernel with so many steps: `[steps, 2, LINE]`, units taken and units done."""
    return np.zeros((steps, 2, LINE), np.int64)


@compiled
def take(marks: Marks, step: int) -> int:
    """The next unit of a step, from 0; larger than the last one where all are taken."""
    return _add_one(marks.ctypes.data + 16 * LINE * step)


@compiled
def done(marks: Marks, step: int) -> None:
    """One unit of the step is done."""
    _add_one(marks.ctypes.data + 16 * LINE * step + 8 * LINE)


@compiled
def wait(marks: Marks, step: int, units: int) -> None:
    """Returns when all units of the step are done."""
    address, looks = marks.ctypes.data + 16 * LINE * step + 8 * LINE, 0
    while _read(address) < units:
        looks += 1
        if looks > PATIENCE:
            _let_others()


class _Helpers:
    """The threads beside the caller's; new ones after a fork, which they do not survive."""

    def __init__(self) -> None:
        self.process, self.count = 0, 0
        self.pool: ThreadPoolExecutor | None = None

    def get(self, count: int) -> ThreadPoolExecutor | None:
        if (self.process, self.count) != (os.getpid(), count):
            self.process, self.count = os.getpid(), count
            self.pool = ThreadPoolExecutor(count, "kernel") if count else None
        return self.pool


_helpers = _Helpers()


def run_together(kernel: Callable[..., None], *arguments: Any) -> None:
    """Calls a kernel on as many threads as torch uses; returns when the caller's own call does.

    Then all units are done, but other threads may still be on their way out: they only look at the counters.
    """
    count = torch.get_num_threads() - 1
    pool = _helpers.get(count)
    for _ in range(count if pool is not None else 0):
        pool.submit(kernel, *arguments)  # type: ignore[union-attr]
    kernel(*arguments)

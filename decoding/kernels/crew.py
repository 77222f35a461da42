"""Some threads that go through one kernel together, as its steps allow.

Every thread calls the same kernel. A step of it is cut into units, and each thread has a row of neighbouring ones for
its own, so that it goes straight on through memory. Who is through with these takes what others have left, and nobody
goes on before all units of the step are done. A thread that comes late, or is held up by other programs, finds its
units taken and walks past: the others do not wait for it, only for what it has begun.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from decoding.kernels import compiled

Marks = NDArray[np.int64]
_Job = tuple[Callable[..., None], tuple[Any, ...]]
LINE = 8
"""Numbers of a cache line: counters of different steps must not share one."""
PATIENCE = 4000
"""How often a waiting thread looks before it lets other programs have its core."""
AVAILABLE = sys.platform != "win32"
"""Windows has no sched_yield: a thread that waits there keeps its core, which only short kernels can afford."""

_SIZE = ir.IntType(64)
if AVAILABLE:
    _let_others = types.ExternalFunction("sched_yield", types.int32())
else:

    @compiled
    def _let_others() -> int:
        return 0


@intrinsic  # type: ignore[untyped-decorator]
def _add(_: Any, address: Any, number: Any) -> Any:
    """Adds to the int64 at `address`, as one indivisible operation; what it was before."""

    def codegen(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _SIZE.as_pointer())
        return builder.atomic_rmw("add", place, arguments[1], "seq_cst")

    return types.int64(types.intp, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _read(_: Any, address: Any) -> Any:
    """The int64 at `address`, which other threads may be changing."""

    def codegen(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _SIZE.as_pointer())
        return builder.load_atomic(place, "seq_cst", 8)

    return types.int64(types.intp), codegen


def new_marks(steps: int) -> Marks:
    """The counters of a kernel with so many steps: `[steps, threads + 1, LINE]`, units taken of each thread's own, and
    units done."""
    return np.zeros((steps, torch.get_num_threads() + 1, LINE), np.int64)


@compiled
def take(marks: Marks, step: int, units: int, thread: int) -> int:
    """One of the step's `units` that nobody has taken, `thread`'s own first; `units` where all are taken."""
    threads = marks.shape[1] - 1
    for ahead in range(threads):
        owner = (thread + ahead) % threads
        first, last, taken = owner * units // threads, (owner + 1) * units // threads, _counter(marks, step, owner)
        if first + _read(taken) < last:
            unit = first + _add(taken, 1)
            if unit < last:
                return unit
    return units


@compiled
def goes_on(marks: Marks, units: int, unit: int, thread: int) -> bool:
    """Whether the unit behind `unit` is to be the caller's next one."""
    threads = marks.shape[1] - 1
    return thread * units // threads <= unit < (thread + 1) * units // threads - 1


@compiled
def finish(marks: Marks, step: int, units: int, own: int) -> None:
    """Tells that the caller has done `own` of the step's `units`; returns when all are done."""
    ready, looks = _counter(marks, step, marks.shape[1] - 1), 0
    if own > 0:
        _add(ready, own)
    while _read(ready) < units:
        looks += 1
        if looks > PATIENCE:
            _let_others()


@compiled
def _counter(marks: Marks, step: int, place: int) -> int:
    return marks.ctypes.data + 8 * LINE * (step * marks.shape[1] + place)


class _Helpers:
    """The threads beside the caller's; new ones after a fork, which they do not survive.

    Between two kernels they hold nothing and wait in C: an executor's threads would write down what became of each
    call, and the caller would wait for the interpreter's lock meanwhile.
    """

    def __init__(self) -> None:
        self.process = 0
        self.inboxes: list[SimpleQueue[_Job | None]] = []

    def get(self, count: int) -> "list[SimpleQueue[_Job | None]]":
        if (self.process, len(self.inboxes)) != (os.getpid(), count):
            for inbox in self.inboxes:
                inbox.put(None)
            self.process, self.inboxes = os.getpid(), [SimpleQueue() for _ in range(count)]
            for thread, inbox in enumerate(self.inboxes, start=1):
                Thread(target=_serve, args=(inbox, thread), name=f"kernel-{thread}", daemon=True).start()
        return self.inboxes


def _serve(inbox: "SimpleQueue[_Job | None]", thread: int) -> None:
    while (job := inbox.get()) is not None:
        kernel, arguments = job
        with suppress(Exception):  # which the caller's own call raises, too
            kernel(*arguments, thread)
        job = kernel = arguments = None  # nothing is held while it waits


_helpers = _Helpers()


def run_together(kernel: Callable[..., None], *arguments: Any) -> None:
    """Calls a kernel on as many threads as torch uses, with a thread's number behind `arguments`; returns when the
    caller's own call does.

    Then all units are done, but other threads may still be on their way out: they only look at the counters.
    """
    for inbox in _helpers.get(torch.get_num_threads() - 1):
        inbox.put((kernel, arguments))
    kernel(*arguments, 0)

"""Seconds by stage, device work included: host clock on a CPU, events on CUDA."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


class StageClock:
    """Exclusive time by stage: a stage entered inside another pauses the outer one.

    On CUDA the marks are events on the stream, so that timing never makes the host wait; `take` waits once, at the
    end of a round, when the host has waited for the device anyway.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._open: list[str] = []
        self._marks: list[tuple[str | None, Any]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Charges the time of the block to `name`."""
        self._open.append(name)
        self._mark()
        try:
            yield
        finally:
            self._open.pop()
            self._mark()

    def charge(self, name: str, function: Callable[P, T]) -> Callable[P, T]:
        """`function`, with the time of every call charged to `name`."""

        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            with self.stage(name):
                return function(*args, **kwargs)

        return timed

    def _mark(self) -> None:
        if self._cuda:
            now: Any = torch.cuda.Event(enable_timing=True)
            now.record()
        else:
            now = time.perf_counter()
        self._marks.append((self._open[-1] if self._open else None, now))

    def take(self) -> dict[str, float]:
        """Seconds of each stage since the last call, and starts anew."""
        if self._cuda and self._marks:
            self._marks[-1][1].synchronize()
        seconds: dict[str, float] = defaultdict(float)
        for (name, start), (_, end) in zip(self._marks, self._marks[1:], strict=False):
            if name is not None:
                seconds[name] += start.elapsed_time(end) / 1000 if self._cuda else end - start
        self._marks = []
        return dict(seconds)

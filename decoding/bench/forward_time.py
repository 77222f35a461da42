"""Seconds spent inside models' forward passes, by hooks: what is left of a round is our own work."""

import time
from types import TracebackType
from typing import Any, Self

import torch
from torch import nn


class ForwardTime:
    """While open, adds up the time of every outermost call of the given modules; the device is synchronised."""

    def __init__(self, modules: list[nn.Module], device: torch.device) -> None:
        self.seconds = 0.0
        self._modules = modules
        self._cuda = device.type == "cuda"
        self._depth = 0
        self._start = 0.0
        self._handles: list[Any] = []

    def __enter__(self) -> Self:
        for module in self._modules:
            self._handles.append(module.register_forward_pre_hook(self._enter))
            self._handles.append(module.register_forward_hook(self._leave))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()

    def _now(self) -> float:
        if self._cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    def _enter(self, *_: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._start = self._now()

    def _leave(self, *_: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += self._now() - self._start

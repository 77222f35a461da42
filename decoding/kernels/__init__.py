"""Loops that numpy and torch have no quick operator for, compiled by numba when they are first called.

Each lets go of the interpreter's lock and runs on the thread that calls it: numba's own threads do not survive a fork.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compiles `function` at its first call with each sort of arguments, or loads what an earlier process compiled."""
    return compiled_with(set())(function)


def compiled_with(fastmath: set[str]) -> Callable[[Function], Function]:
    """As `compiled`; `fastmath` names the LLVM flags under which floating-point operations may be regrouped."""

    def decorate(function: Function) -> Function:
        options = {"nogil": True, "fastmath": fastmath, "error_model": "numpy"}
        try:
            kernel: Function = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no folder that the cache could be written to
            kernel = numba.njit(**options)(function)
        return kernel

    return decorate

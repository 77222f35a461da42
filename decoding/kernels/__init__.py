"""Loops that numpy and torch have no quick operator for, compiled by numba when they are first called.

Each lets go of the interpreter's lock and runs on the thread that calls it: numba's own threads do not survive a fork.
Where several threads are worth it, each of them calls the kernel (see `crew`).
"""

import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numba
from numba import types


def _keep_compiled_together() -> bool:
    """What is compiled goes into a folder named after all kernels' sources: numba looks for changes in the file of a
    function alone, and would go on with old copies of what that function calls in other files.

    Returns whether the folder is there already."""
    here = Path(__file__).parent
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(here.glob("*.py")))).hexdigest()
    folder = here / "__pycache__" / f"compiled-{sources[:16]}"
    known = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False  # numba looks for a folder of its own
    if os.access(folder, os.W_OK) and not numba.config.CACHE_DIR:
        numba.config.CACHE_DIR = str(folder)
    return known


compiled_before = _keep_compiled_together()
"""Whether an earlier process has compiled kernels; without it, the first use takes up to a minute."""

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compiles `function` at its first call with each sort of arguments, or loads what an earlier process compiled."""
    return compiled_with(set())(function)


def inlined(function: Function) -> Function:
    """As `compiled`, put into each kernel that calls it. A call hands every array of its arguments over, counted: where
    tuples of many are passed for little work, that takes longer than the work."""
    kernel: Function = _cached(partial(numba.njit, nogil=True, forceinline=True), function)
    return kernel


def compiled_with(fastmath: set[str]) -> Callable[[Function], Function]:
    """As `compiled`; `fastmath` names the LLVM flags under which floating-point operations may be regrouped."""

    def decorate(function: Function) -> Function:
        kernel: Function = _cached(partial(numba.njit, nogil=True, fastmath=fastmath), function)
        return kernel

    return decorate


def _cached(compiler: Callable[..., Any], function: Callable[..., Any]) -> Any:
    try:
        return compiler(cache=True, error_model="numpy")(function)
    except RuntimeError:  # no folder that the cache could be written to
        return compiler(error_model="numpy")(function)


_kept_alive: list[Any] = []


def compiled_apart(name: str, arguments: int) -> Callable[[Function], Function]:
    """Compiles a function of so many addresses and whole numbers, which returns nothing, for other kernels to call.

    They hold a call of the symbol `name` in the place of a copy, which would be optimised again in each of them.
    """
    signature = types.void(*[types.intp] * arguments)

    def decorate(function: Function) -> Function:
        native = _cached(partial(numba.cfunc, signature), function)
        _kept_alive.append(native)
        llvm.add_symbol(name, native.address)
        call: Any = types.ExternalFunction(name, signature)
        return call

    return decorate

"""Peak memory of a run (the device's on CUDA, the process's resident set on a CPU), and what objects hold."""

import contextlib
import resource
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import CellType, FunctionType, MethodType

import numpy as np
import torch
from numpy.lib.array_utils import byte_bounds
from torch import nn


def as_size(count: int) -> str:
    """Bytes for a person to read: `1.5 GB`, `12 MB`."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{-(-count // 10**6)} MB"


def reset_peak(device: torch.device) -> None:
    """Starts a new measurement (on a CPU only Linux can)."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes(device: torch.device) -> int:
    """Bytes at the highest point since `reset_peak` (since the start of the process where it cannot be reset)."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident_bytes(device: torch.device) -> int:
    """Bytes held now."""
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])


def tensor_bytes(*roots: object, besides: tuple[object, ...] = ()) -> int:
    """Bytes of the tensors and arrays that `roots` hold, whatever holds them in turn; what `besides` holds too is left
    out. Memory that several share counts once."""
    own, others = _places(roots), _places(besides)
    return _covered(own + others) - _covered(others)


_Place = tuple[str, int, int]
"""Device, first byte, first byte behind."""


def _places(roots: Iterable[object]) -> list[_Place]:
    found: list[_Place] = []
    seen: dict[int, object] = {}  # the objects too: an id is only theirs while they live
    waiting = list(roots)
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        if isinstance(item, torch.Tensor):
            if item.device.type != "meta":
                storage = item.untyped_storage()
                found.append((str(item.device), storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
        elif isinstance(item, np.ndarray):
            found.append(("cpu", *byte_bounds(item)))
        else:
            waiting.extend(_inside(item))
    return found


def _inside(item: object) -> Iterable[object]:
    """What an object of this project, a module or a container of Python holds."""
    if isinstance(item, Mapping):
        return list(item.values())
    if isinstance(item, list | tuple | set | frozenset | deque):
        return list(item)
    if isinstance(item, FunctionType):
        return [cell.cell_contents for cell in item.__closure__ or () if cell != CellType()]
    if isinstance(item, MethodType):
        return [item.__self__]
    if isinstance(item, nn.Module) or type(item).__module__.partition(".")[0] == "decoding":
        slots = [getattr(item, name, None) for name in getattr(type(item), "__slots__", ())]
        return [*getattr(item, "__dict__", {}).values(), *slots]
    return ()


def _covered(places: Iterable[_Place]) -> int:
    total, device, reached = 0, "", 0
    for where, first, behind in sorted(places):
        if where != device:
            device, reached = where, 0
        total += max(0, behind - max(first, reached))
        reached = max(reached, behind)
    return total

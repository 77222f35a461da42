"""Peak memory of a run: the device's on CUDA, the process's resident set on a CPU."""

import contextlib
import resource
import sys
from pathlib import Path

import torch


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

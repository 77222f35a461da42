"""Where a model runs and in which dtype, chosen by measuring, and said in one sentence."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from decoding.errors import BadRequest, UnknownName
from decoding.memory import as_size
from decoding.zero_gpu import on_zero_gpu

DEVICES = ("auto", "cpu", "cuda")
DTYPES = {"auto": None, "float32": torch.float32, "bfloat16": torch.bfloat16}
WORTH_IT = 2.0
"""How many times faster bfloat16 must be on a CPU to make up for near-ties that flip (5 of 14 prompts identical)."""
ROWS = (1, 16)
"""A plain decoding step, and a small tree."""
TINY_PARAMETERS = 5_000_000
PROBE_WEIGHTS = 8_000_000
"""Weights that the measurement reads: 32 MB in float32."""
PROBE_PASSES = 8
PROBE_SECONDS = 0.3
"""After this the measurement ends at the next pass: on a busy machine with the first that settles it."""


class DtypeChoice(NamedTuple):
    """A dtype and why."""

    dtype: torch.dtype
    reason: str


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def pick_device(name: str) -> torch.device:
    """The device for `auto`, `cpu` or `cuda`; raises BadRequest for a GPU that is not there."""
    if name not in DEVICES:
        raise UnknownName("device", name, DEVICES)
    present = torch.cuda.is_available()
    if name == "cuda" and not present:
        raise BadRequest("The device is cuda, and PyTorch finds no CUDA GPU here.", "Use --device auto or cpu.")
    return torch.device("cuda" if present and name != "cpu" else "cpu")


def staging(device: torch.device) -> torch.device:
    """Where weights are read to before they are moved to `device`: there at once, but for a GPU that is only lent."""
    return torch.device("cpu") if on_zero_gpu() else device


def exact_float32() -> None:
    """Keeps float32 products in float32: TF32 has 10 bits of mantissa and would flip near-ties."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False


def first_choice(asked: str, device: torch.device, parameters: int) -> DtypeChoice:
    """The dtype to load in. On a CPU `auto` starts in float32 where that fits; `measured_choice` may then change it."""
    if asked not in DTYPES:
        raise UnknownName("dtype", asked, DTYPES)
    fixed = DTYPES[asked]
    if fixed is not None:
        return DtypeChoice(fixed, f"{asked}, as asked")
    if device.type == "cuda":
        if _gpu_has_bfloat16():
            return DtypeChoice(torch.bfloat16, "bfloat16: the GPU computes in it")
        return DtypeChoice(torch.float16, "float16: this GPU does not compute in bfloat16")
    free = free_bytes(device)
    if free is not None and parameters * 4 > free:
        return DtypeChoice(
            torch.bfloat16,
            f"bfloat16: in float32 the weights are {as_size(parameters * 4)} and {as_size(free)} are free",
        )
    return DtypeChoice(torch.float32, "float32: exact on a CPU")


def _gpu_has_bfloat16() -> bool:
    try:
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    except RuntimeError:  # ZeroGPU: no device outside its decorated function; its GPUs have bfloat16
        return True


def measured_choice(model: nn.Module, parameters: int) -> DtypeChoice:
    """float32 or bfloat16 for a float32 model on a CPU, after timing its own matrices in both.

    bfloat16 must be WORTH_IT times faster for 1 row and for 16, in every pass, because there it changes the output:
    on a busy machine single timings are off by ten times, and the dtype must not be a matter of luck.
    """
    if parameters < TINY_PARAMETERS:
        return DtypeChoice(torch.float32, "float32: the model is too small for the dtype to matter")
    weights = probe_weights(model)
    halved = [weight.to(torch.bfloat16) for weight in weights]
    passes: list[list[tuple[float, float]]] = []
    worth_it, begun = True, time.perf_counter()
    for one_pass in _probe_passes(weights, halved):
        passes.append(one_pass)
        worth_it = worth_it and all(exact >= WORTH_IT * short for exact, short in one_pass)
        if time.perf_counter() - begun > PROBE_SECONDS and (len(passes) > 1 or not worth_it):
            break
    figures = []
    for place, rows in enumerate(ROWS):
        exact, short = (min(one_pass[place][dtype] for one_pass in passes) for dtype in (0, 1))
        unit = "row" if rows == 1 else "rows"
        figures.append(f"{rows} {unit} {exact * 1e3:.1f} ms against {short * 1e3:.1f} ms ({exact / short:.1f}x)")
    measured = f"measured on a sample of its matrices, float32 against bfloat16: {', '.join(figures)}"
    if worth_it:
        return DtypeChoice(torch.bfloat16, f"bfloat16: at least {WORTH_IT:g}x faster; near-ties may flip; {measured}")
    return DtypeChoice(torch.float32, f"float32: exact, and bfloat16 is not steadily {WORTH_IT:g}x faster; {measured}")


def _probe_passes(exact: list[Tensor], short: list[Tensor]) -> Iterator[list[tuple[float, float]]]:
    """Up to PROBE_PASSES passes of, for each of ROWS, the seconds in float32 and in bfloat16.

    A first pass is run and not given: it pays for reading the weights and for starting threads.
    """
    for number in range(PROBE_PASSES + 1):
        with torch.inference_mode():
            one_pass = [(_seconds(exact, rows), _seconds(short, rows)) for rows in ROWS]
        if number > 0:
            yield one_pass


def probe_weights(model: nn.Module) -> list[Tensor]:
    """Matrices of the model up to PROBE_WEIGHTS numbers: a third from the head, the rest layer by layer."""
    output = getattr(model, "get_output_embeddings", lambda: None)()
    chosen: list[Tensor] = []
    room = PROBE_WEIGHTS
    for weight in _matrices(model, output):
        limit = PROBE_WEIGHTS // 3 if output is not None and weight is output.weight else room
        rows = min(len(weight), max(1, limit // weight.shape[1]))
        chosen.append(weight.detach()[:rows])
        room -= chosen[-1].numel()
        if room <= 0:
            break
    return chosen


def _matrices(model: nn.Module, output: nn.Module | None) -> Iterator[Tensor]:
    if output is not None:
        yield output.weight  # type: ignore[misc]
    for module in model.modules():
        if isinstance(module, nn.Linear) and module is not output:
            yield module.weight


def _seconds(weights: list[Tensor], rows: int) -> float:
    """Seconds of one pass of `rows` inputs through every matrix."""
    inputs = [torch.ones(rows, weight.shape[1], dtype=weight.dtype) for weight in weights]
    start = time.perf_counter()
    for value, weight in zip(inputs, weights, strict=True):
        nn.functional.linear(value, weight)
    return time.perf_counter() - start


def free_bytes(device: torch.device) -> int | None:
    """Memory that a program may still take there; None where the system does not say."""
    if device.type == "cuda":
        try:
            return int(torch.cuda.mem_get_info(device)[0])
        except RuntimeError:
            return None
    found = [value for value in (_proc_available(), _cgroup_available()) if value is not None]
    return min(found, default=None)


def _proc_available() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        return None
    return None


def _cgroup_available(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What is left of a container's own limit (cgroup v2), page cache counted as free."""
    try:
        limit = int((folder / "memory.max").read_text())
        used = int((folder / "memory.current").read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return max(0, limit - used + int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0)))
    except (OSError, ValueError):  # no limit reads as "max"
        return None

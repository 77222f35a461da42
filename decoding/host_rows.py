"""The top-k, the softmax sums and the softmax of wide rows on a CPU, the rows shared between threads where it pays."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from decoding.kernels.crew import new_marks, run_together
from decoding.kernels.reading import Asked, Found, Numbers, Softening, Table, read_table, soften_table
from decoding.types import Floats

WORTH_HELPERS = 150_000
"""Numbers for which other threads are woken: fewer are read while they wake up."""


def read_rows(logits: Tensor, k: int) -> Found:
    """Reads float32 `logits` `[rows, vocab]` on a CPU; `1 <= k <= vocab`. A row that holds NaN or +inf shows it first
    among its largest, and has no log-probabilities."""
    found = new_found(len(logits), k)
    read_into(found, nothing_asked(len(logits)), logits)
    show_odd(found, logits)
    return found


def new_found(rows: int, k: int, asked: int = 0) -> Found:
    """Room for what is found of so many rows and of so many tokens that they are asked about; what nobody asks about
    has rank and log-probability 0."""
    return Found(
        value=np.empty((rows, k), np.float32),
        column=np.empty((rows, k), np.int32),
        logprob=np.empty((rows, k), np.float32),
        normaliser=np.empty(rows),
        entropy=np.empty(rows, np.float32),
        rank=np.zeros(asked, np.int32),
        asked_logprob=np.zeros(asked, np.float32),
    )


def nothing_asked(rows: int) -> Asked:
    """Where only the rows themselves are read."""
    return Asked(np.zeros(rows + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))


def read_into(found: Found, asked: Asked, logits: Tensor, first: int = 0) -> None:
    """Reads float32 `logits` `[rows, vocab]` on a CPU into `found`, from its row `first` on."""
    if logits.stride(1) != 1:
        logits = logits.contiguous()
    share_rows(read_table, logits.numel(), new_table(found, asked, logits.detach().numpy(), first))


def new_table(found: Found, asked: Asked, logits: Floats, first: int = 0) -> Table:
    """The arguments of `read_table`. Of one calling thread only one such table may be read at a time."""
    marks = new_marks(1)
    maxima, keys = _scratch(marks.shape[1] - 1, logits.shape[1])
    return Table(logits, first, asked, found, maxima, keys, marks)


def show_odd(found: Found, logits: Tensor) -> None:
    """Puts NaN and infinity first in rows that hold them, as torch has it."""
    odd = np.isnan(found.normaliser).nonzero()[0]
    if len(odd):
        best = logits[odd].topk(found.column.shape[1])
        found.value[odd], found.column[odd] = best.values.numpy(), best.indices.numpy()


def soft_rows(logits: Tensor, temperature: float) -> Tensor:
    """The softmax `[rows, vocab]` of float32 `logits / temperature` on a CPU; the temperature is above 0."""
    table: Floats = logits.detach().numpy()
    out = torch.empty(logits.shape)
    probs: Floats = out.numpy()
    share_rows(soften_table, table.size, table, Softening(temperature, probs, np.empty((0, 0)), new_marks(1)))
    return out


def share_rows(kernel: Callable[..., None], numbers: int, *arguments: Any) -> None:
    """Calls a kernel that reads so many `numbers`."""
    if numbers < WORTH_HELPERS:
        kernel(*arguments, 0)
    else:
        run_together(kernel, *arguments)


_kept = threading.local()


def _scratch(threads: int, vocab: int) -> tuple[Floats, Numbers]:
    """Two arrays `[threads, vocab]` to write on. Each caller keeps its own: fresh memory costs a fault per 4 kB."""
    kept: dict[tuple[int, int], tuple[Floats, Numbers]] = _kept.__dict__.setdefault("by_shape", {})
    shape = threads, vocab
    if shape not in kept:
        kept[shape] = np.empty(shape, np.float32), np.empty(shape, np.int64)
    return kept[shape]

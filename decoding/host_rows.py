"""The top-k, the softmax sums and the softmax of wide rows on a CPU, the rows shared between threads where it pays."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoding.kernels.crew import new_marks, run_together
from decoding.kernels.reading import Numbers, Table, read_table, soften_table
from decoding.types import Floats

WORTH_HELPERS = 150_000
"""Numbers for which other threads are woken: fewer are read while they wake up."""


class HostRows(NamedTuple):
    """What was read of rows of logits `[rows, vocab]`."""

    value: Floats
    """`[rows, k]` the largest, in falling order; a row that holds NaN starts with it."""
    column: Numbers
    """`[rows, k]` their columns; equal values keep the lowest columns and stand in rising order of them."""
    normaliser: NDArray[np.float64]
    """`[rows]` log of the sum of `exp(logit - the row's largest)` (nats); NaN where the row holds NaN or +inf."""
    entropy: NDArray[np.float64]
    """`[rows]` entropy (nats) of the softmax; not finite where the row is not."""
    rank: Numbers
    """`[ranked]` of every token that was asked for: 1 + how many entries of its row are larger."""


class Ranked(NamedTuple):
    """Tokens whose ranks are wanted."""

    row: NDArray[np.int64]
    """`[ranked]` in rising order."""
    token: Numbers
    """`[ranked]`."""


NONE = Ranked(np.empty(0, np.int64), np.empty(0, np.int64))


def read_rows(logits: Tensor, k: int, ranked: Ranked = NONE) -> HostRows:
    """Reads float32 `logits` `[rows, vocab]` on a CPU; `1 <= k <= vocab`."""
    if logits.stride(1) != 1:
        logits = logits.contiguous()
    table: Floats = logits.detach().numpy()
    count, vocab = table.shape
    marks = new_marks(1)
    maxima, keys = _scratch(marks.shape[1] - 1, vocab)
    run = Table(
        table=table,
        column=np.empty((count, k), np.int64),
        value=np.empty((count, k), np.float32),
        normaliser=np.empty(count),
        entropy=np.empty(count),
        start=np.searchsorted(ranked.row, np.arange(count + 1)),
        token=ranked.token,
        rank=np.empty(len(ranked.token), np.int64),
        maxima=maxima,
        keys=keys,
        marks=marks,
    )
    _share(read_table, table.size, run)
    odd = np.isnan(run.normaliser).nonzero()[0]
    if len(odd):  # NaN and infinity first, as torch has it
        best = logits[odd].topk(k)
        run.value[odd], run.column[odd] = best.values.numpy(), best.indices.numpy()
    return HostRows(run.value, run.column, run.normaliser, run.entropy, run.rank)


def soft_rows(logits: Tensor, temperature: float) -> Tensor:
    """The softmax `[rows, vocab]` of float32 `logits / temperature` on a CPU; the temperature is above 0."""
    table: Floats = logits.detach().numpy()
    out = torch.empty(logits.shape)
    probs: Floats = out.numpy()
    _share(soften_table, table.size, table, temperature, probs, new_marks(1))
    return out


def _share(kernel: Callable[..., None], numbers: int, *arguments: Any) -> None:
    """Calls a kernel that reads so many `numbers`."""
    if numbers < WORTH_HELPERS:
        kernel(*arguments, 0)
    else:
        run_together(kernel, *arguments)


_kept = threading.local()


def _scratch(threads: int, vocab: int) -> tuple[Floats, Numbers]:
    """Two arrays `[threads, vocab]` to write on. Each caller keeps its own: fresh memory costs a fault per 4 kB."""
    if getattr(_kept, "shape", None) != (threads, vocab):
        _kept.shape = threads, vocab
        _kept.maxima, _kept.keys = np.empty((threads, vocab), np.float32), np.empty((threads, vocab), np.int64)
    return _kept.maxima, _kept.keys

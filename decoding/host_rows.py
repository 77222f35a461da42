"""The top-k, the softmax sums and the softmax of wide rows on a CPU, the rows shared between a few threads."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoding.kernels.rows import candidates, soften, sums
from decoding.types import Floats

MOST_HELPERS = 3
"""Threads beside the caller; more would wait for the memory."""
WORTH_A_HELPER = 400_000
"""Numbers for which another thread is woken: fewer are read while it wakes up."""


class HostRows(NamedTuple):
    """What was read of rows of logits `[rows, vocab]`."""

    value: Floats
    """`[rows, k]` the largest, in falling order; a row that holds NaN starts with it."""
    column: NDArray[np.int64]
    """`[rows, k]` their columns; equal values keep the lowest columns and stand in rising order of them."""
    normaliser: NDArray[np.float64]
    """`[rows]` log of the sum of `exp(logit - the row's largest)` (nats); NaN where the row holds NaN or +inf."""
    entropy: NDArray[np.float64]
    """`[rows]` entropy (nats) of the softmax; not finite where the row is not."""


def read_rows(logits: Tensor, k: int, also: Callable[[int, Floats], None] | None = None) -> HostRows:
    """Reads float32 `logits` `[rows, vocab]` on a CPU; `1 <= k <= vocab`.

    `also` is called with the index of every row and the row, while it is near the core, on any of the threads.
    """
    if logits.stride(1) != 1:
        logits = logits.contiguous()
    table: Floats = logits.detach().numpy()
    count = len(table)
    keys, mass, dot = np.empty((count, k), np.int64), np.empty(count), np.empty(count)

    def read(index: int) -> None:
        row = table[index]
        maxima, found = _scratch(len(row))
        best = found[: candidates(row, k, maxima, found)]
        if len(best) >= k:
            best.sort()
            keys[index] = best[:k]
            mass[index], dot[index] = sums(row, row[keys[index, 0] & 0xFFFFFFFF])
        else:
            mass[index] = dot[index] = np.nan
        if also is not None:
            also(index, row)

    each_row(count, read, logits.numel())
    column = keys & 0xFFFFFFFF
    odd = np.isnan(mass).nonzero()[0]
    if len(odd):
        column[odd] = logits[odd].topk(k).indices.numpy()  # NaN and infinity first, as torch has it
    value = np.take_along_axis(table, column, 1) + np.float32(0.0)
    with np.errstate(invalid="ignore"):
        normaliser = np.log(mass)
        return HostRows(value, column, normaliser, np.maximum(normaliser - dot / mass, 0.0))


def soft_rows(logits: Tensor, temperature: float) -> Tensor:
    """The softmax `[rows, vocab]` of float32 `logits / temperature` on a CPU; the temperature is above 0."""
    table: Floats = logits.detach().numpy()
    out = torch.empty(logits.shape)
    probs: Floats = out.numpy()
    each_row(len(table), lambda index: soften(table[index], temperature, probs[index]), logits.numel())
    return out


def each_row(count: int, work: Callable[[int], None], numbers: int) -> None:
    """Calls `work` with every index below `count`, on this thread and, where there are `numbers` enough, on helpers.

    Each takes the next index when it is done with one, so a thread that is held up holds up one row only.
    """
    rows = iter(range(count))  # its steps are atomic
    helpers = min(torch.get_num_threads() - 1, MOST_HELPERS, count - 1, numbers // WORTH_A_HELPER)

    def take() -> None:
        for index in rows:
            work(index)

    waiting = [_pool().submit(take) for _ in range(helpers)]
    try:
        take()
    finally:
        for helper in waiting:
            if not helper.cancel():  # one that has not begun would find nothing to do
                helper.result()


_kept = threading.local()
_pools: list[ThreadPoolExecutor] = []


def _pool() -> ThreadPoolExecutor:
    if not _pools:
        _pools.append(ThreadPoolExecutor(MOST_HELPERS, "rows"))
    return _pools[0]


os.register_at_fork(after_in_child=_pools.clear)  # threads stay behind in the parent


def _scratch(vocab: int) -> tuple[Floats, NDArray[np.int64]]:
    """Two arrays `[vocab]` to write on; each thread keeps its own, since fresh memory costs a page fault per 4 kB."""
    if getattr(_kept, "vocab", 0) != vocab:
        _kept.vocab, _kept.maxima, _kept.keys = vocab, np.empty(vocab, np.float32), np.empty(vocab, np.int64)
    return _kept.maxima, _kept.keys

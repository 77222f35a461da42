"""Logits of a one-pass drafter to `Marginals`: exact top-k and exact normaliser, one copy to the host."""

import functools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoding.errors import NonFiniteLogits
from decoding.types import Floats, Ints, Marginals

BLOCK = 64
"""Entries per block; 64 rows of a strided view are enough for the maxima to run at the speed of memory."""
LOG2_E = np.float32(1.4426950408889634)
CHUNK = 65_536
"""Entries whose exponentials are held at a time: 256 KiB, which stays in a core's own cache."""


def top_marginals(logits: Tensor, k: int) -> Marginals:
    """The top-k of each row of `logits` `[positions, vocab]` (DDTree, Lemma 1), normalised over the whole vocabulary.

    `k` is clipped to the vocabulary. Entries of -inf (masked tokens) are allowed and have probability zero. On the
    CPU equal logits come in the order of their token ids, whatever the number of threads; on another device in the
    order of its own `topk`, and everything comes to the host in one copy.

    Raises:
        NonFiniteLogits: a row holds NaN or +inf, or nothing but -inf.
    """
    if logits.ndim != 2 or logits.shape[1] == 0 or k < 1:
        raise ValueError(f"logits must be [positions, vocab] and k at least 1, not {tuple(logits.shape)} and {k}")
    k = min(k, logits.shape[1])
    logits = logits.detach().to(torch.float32)
    token, value, log_mass = _on_host(logits, k) if logits.device.type == "cpu" else _on_device(logits, k)
    peak = value[:, :1]
    bad = np.flatnonzero(~(np.isfinite(peak[:, 0]) & np.isfinite(log_mass)))
    if len(bad):
        row = logits[int(bad[0])]
        wrong = "NaN" if row.isnan().any() else "+inf" if row.isposinf().any() else "nothing but -inf"
        raise NonFiniteLogits(
            f"The drafter's logits at position {bad[0] + 1} of the block hold {wrong}.",
            "Load the drafter in float32 (or bfloat16 instead of float16), and check that its weights fit the target.",
        )
    # The peak is subtracted first because the two sides are close; rounding must not give a probability above 1.
    return Marginals(token, np.minimum(value - peak - log_mass[:, None], 0.0, dtype=np.float32))


def _on_device(logits: Tensor, k: int) -> tuple[Ints, Floats, Floats]:
    """Token ids and logits of the top-k, and log-mass relative to the best one (NaN where a row is not finite)."""
    value, token = logits.topk(k, dim=-1)
    log_mass = (logits - value[:, :1]).exp_().sum(-1, keepdim=True).log_()
    # One copy: the ids travel as bits among the floats.
    packed = torch.cat((value, log_mass, token.to(torch.int32).view(torch.float32)), dim=1).cpu().numpy()
    return packed[:, k + 1 :].view(np.int32), packed[:, :k], packed[:, k]


def _on_host(logits: Tensor, k: int) -> tuple[Ints, Floats, Floats]:
    """The same as `_on_device`, faster on a CPU than `topk` and `logsumexp`: every row is read in cache-sized steps.

    The threads take the rows as they get to them, so that a core busy with something else does not hold up the rest.
    """
    rows = logits.numpy()
    token = np.empty((len(rows), k), np.int32)
    value = np.empty((len(rows), k), np.float32)
    log_mass = np.empty(len(rows), np.float32)
    pending = iter(range(len(rows)))

    def work(pending: Iterator[int]) -> None:
        buffer = np.empty(min(CHUNK, rows.shape[1]), np.float32)
        for row in pending:
            token[row] = _top_tokens(rows[row], k)
            value[row] = rows[row][token[row]]
            log_mass[row] = _log_mass(rows[row], value[row, 0], buffer)

    helpers = [_pool().submit(work, pending) for _ in range(min(torch.get_num_threads(), 4, len(rows)) - 1)]
    work(pending)
    for helper in helpers:
        helper.result()
    return token, value, log_mass


def _top_tokens(row: Floats, k: int) -> Ints:
    """Ids of the `k` largest entries of one row `[vocab]`, largest first, then lowest id first.

    The k-th largest of the block maxima is reached by at least k entries, so that whatever lies below it is out.
    Blocks are strided (entries i, i + blocks, i + 2 * blocks ...), which makes their maxima one pass over memory; the
    tail that fills no block needs none.
    """
    blocks = len(row) // BLOCK
    if blocks < 2 * k:  # too few to tell much
        return _descending(row)[:k].astype(np.int32)
    maxima = row[: blocks * BLOCK].reshape(BLOCK, blocks).max(axis=0)
    ordered = np.partition(maxima, blocks - k)
    floor = ordered[blocks - k]
    if np.isnan(ordered[blocks - k :]).any():
        return np.arange(k, dtype=np.int32)  # the row will be refused: its mass is NaN
    candidates = _at_least(row, floor, np.flatnonzero(maxima >= floor), blocks)
    return candidates[_descending(row[candidates])[:k]].astype(np.int32)


def _at_least(row: Floats, floor: np.float32, good_blocks: NDArray[np.int64], blocks: int) -> NDArray[np.int64]:
    """Ids of the entries of one row that reach `floor`, ascending; `good_blocks` are those that hold any."""
    if len(good_blocks) > 128:  # gathering them would cost more than looking at every entry
        return np.flatnonzero(row >= floor)
    whole = blocks * BLOCK
    grid = row[:whole].reshape(BLOCK, blocks)[:, good_blocks]
    line, column = np.divmod(np.flatnonzero(grid >= floor), len(good_blocks))
    return np.concatenate((line * blocks + good_blocks[column], np.flatnonzero(row[whole:] >= floor) + whole))


def _descending(values: Floats) -> NDArray[np.int64]:
    """Indices from the largest value to the smallest, equal values in their given order.

    The bits of a float, with those of negative numbers turned over, sort like integers; with the index in the other
    half of a 64-bit key a plain sort does all.
    """
    bits = (values + np.float32(0.0)).view(np.int32)  # -0.0 becomes 0.0: they are equal
    bits ^= (bits >> 31) & np.int32(0x7FFFFFFF)
    key = (~bits).astype(np.int64) << 32 | np.arange(len(values))
    key.sort()
    return key & 0xFFFFFFFF


def _log_mass(row: Floats, peak: np.float32, buffer: Floats) -> float:
    """log of the sum of exp(entry - peak) over one row `[vocab]`, a chunk at a time.

    In powers of two, which numpy takes in two thirds of the time of `exp`. Near a peak of ordinary size the rounding of
    entry * log2(e) is at most 1.3e-6, below that of a float32 logit of 32, and that of the best entry cancels.
    """
    # Between these bounds nothing that counts over- or underflows, and the subtraction can be left out.
    shift = np.float32(0.0 if -32.0 < peak < 32.0 else peak)
    if not np.isfinite(shift):
        return float("nan")
    mass = 0.0
    for start in range(0, len(row), CHUNK):
        chunk = row[start : start + CHUNK]
        held = buffer[: len(chunk)]
        if shift:
            chunk = np.subtract(chunk, shift, out=held)
        np.exp2(np.multiply(chunk, LOG2_E, out=held), out=held)
        whole = len(held) // BLOCK * BLOCK  # summed down a block first, which numpy does with vector instructions
        mass += float(held[:whole].reshape(BLOCK, -1).sum(axis=0).sum()) + float(held[whole:].sum())
    # Against the best entry's own rounded exponential: one certain token comes out as exactly 0.
    return float(np.log(mass / np.exp2((peak - shift) * LOG2_E)))


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(3, thread_name_prefix="marginals")


# Threads do not survive a fork, and a Space with ZeroGPU decodes in a forked process.
os.register_at_fork(after_in_child=_pool.cache_clear)

"""Top-k and log-normaliser of wide rows; on a CPU those of `host_rows`.

On a device, two stages read the row once: the maxima of interleaved blocks, then a selection among the elements of
the k best blocks alone. That is exact: an element of the top k is beaten by fewer than k elements, so its block's
maximum is beaten by fewer than k others.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decoding.host_rows import read_rows
from decoding.kernels.reading import Found
from decoding.types import Floats, Ints

ROW_BLOCK_BYTES = 128 << 20  # large enough to fill a GPU, small beside its memory


class TopK(NamedTuple):
    values: Tensor
    """`[rows, k]`, largest first."""
    indices: Tensor
    """`[rows, k]` int64 columns; equal values stand in rising order of their columns."""


class Moments(NamedTuple):
    normaliser: Tensor
    """`[rows]` log of the sum of the exponentials (nats)."""
    entropy: Tensor
    """`[rows]` entropy (nats) of the softmax."""


def top_k(logits: Tensor, k: int) -> TopK:
    """The `min(k, vocab)` largest of every row of float32 `logits` `[rows, vocab]`; exact.

    The first column is what `argmax` gives: the lowest index on ties. Of several values equal to the last one,
    the first are kept on a CPU, any on a device. NaN counts as the largest, as in torch. Never makes the host wait
    for a device.

    With vocab 8, k = 2 and 2 rows of width 4, [3 1 4 1 | 5 9 2 6] has the block maxima [5 9 4 6] (columns 0 and 4
    make block 0, and so on); the best two blocks, 1 and 3, hold columns 1, 3, 5, 7, and the answer is 9, 6.
    """
    k = min(k, logits.shape[1])
    if logits.device.type == "cpu":
        found = read_rows(logits, k)
        return TopK(torch.from_numpy(found.value), torch.from_numpy(found.column).long())
    return _top_k_on_device(logits, k)


class Likeliest(NamedTuple):
    """On the host."""

    token: Ints
    """`[rows, k]` columns, most likely first."""
    logprob: Floats
    """`[rows, k]` log-probabilities (nats), 0 at most."""
    peak: Floats
    """`[rows]` largest logits."""


def likeliest(logits: Tensor, k: int) -> Likeliest:
    """The `min(k, vocab)` most likely of every row of float32 `logits` `[rows, vocab]`; one copy to the host.

    A row whose peak is not finite has no log-probabilities.
    """
    k = min(k, logits.shape[1])
    if logits.device.type == "cpu":
        return likeliest_of(read_rows(logits, k))
    values, columns = _top_k_on_device(logits, k)
    masses = log_mass(logits, values[:, 0])
    # The ids travel as bits among the floats.
    packed = torch.cat((values, masses[:, None], columns.to(torch.int32).view(torch.float32)), dim=1).cpu().numpy()
    value, mass, token = packed[:, :k], packed[:, k : k + 1], packed[:, k + 1 :].view(np.int32)
    with np.errstate(invalid="ignore"):
        # The largest is subtracted first because the two sides are close; rounding must give no probability above 1.
        logprob = np.minimum(value - value[:, :1] - mass, 0.0, dtype=np.float32)
    return Likeliest(token, logprob, value[:, 0])


def likeliest_of(found: Found) -> Likeliest:
    """The same of rows that were read already."""
    return Likeliest(found.column, found.logprob, found.value[:, 0])


def _top_k_on_device(logits: Tensor, k: int) -> TopK:
    columns = _largest(logits, k).sort(1).values
    values, order = logits.gather(1, columns).sort(dim=1, descending=True, stable=True)
    indices = columns.gather(1, order)
    indices[:, 0] = logits.argmax(1)  # where all k values are equal, the lowest may have been left out
    return TopK(values, indices)


def _largest(logits: Tensor, k: int) -> Tensor:
    """Columns `[rows, k]` of the k largest, in any order: the best blocks first, by the same method."""
    rows, vocab = logits.shape
    # Blocks of 16 were the fastest measured from vocab 49,152 to 151,936 and k from 8 to 1,024.
    height = next((height for height in (16, 8) if vocab // height >= 4 * k), 0)
    if not height or vocab < 4096:
        return logits.topk(k, sorted=False).indices
    width = vocab // height
    body = logits[:, : height * width].view(rows, height, width)
    blocks = _largest(body.amax(1), k)
    inside = body.gather(2, blocks[:, None].expand(rows, height, k)).flatten(1)
    place = torch.cat([inside, logits[:, height * width :]], 1).topk(k, sorted=False).indices
    tail = place - height * k
    return torch.where(tail < 0, place // k * width + blocks.gather(1, place % k), tail + height * width)


def log_mass(logits: Tensor, peak: Tensor) -> Tensor:
    """Log of the sum of `exp(logit - peak)` of every row `[rows]` (nats) of float32 `logits` `[rows, vocab]`.

    `peak` `[rows]` is the largest value of each row: with it, this is the normaliser.
    """
    return torch.cat([weights.sum(1) for _, weights in _weights(logits, peak)]).log_()


def moments(logits: Tensor, peak: Tensor) -> Moments:
    """Log-normaliser and entropy of every row of float32 `logits` `[rows, vocab]`; `peak` `[rows]` as above.

    H = log Z - sum(p * logit). Any NaN or infinity in a row makes its entropy NaN or infinite.
    """
    masses, dots = [], []
    for rows, weights in _weights(logits, peak):
        masses.append(weights.sum(1))
        dots.append(torch.linalg.vecdot(weights, logits[rows]))
    mass = torch.cat(masses)
    normaliser = peak + mass.log()
    return Moments(normaliser, (normaliser - torch.cat(dots).div_(mass)).clamp_min_(0.0))


def _weights(logits: Tensor, peak: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Row blocks of `exp(logits - peak)`, all in one reused buffer."""
    count, vocab = logits.shape
    step = max(1, ROW_BLOCK_BYTES // (4 * vocab))
    buffer = torch.empty(min(step, count), vocab, device=logits.device)
    for start in range(0, count, step):
        rows = slice(start, min(start + step, count))
        weights = buffer[: rows.stop - start]
        torch.sub(logits[rows], peak[rows, None], out=weights).exp_()
        yield rows, weights

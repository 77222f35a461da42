"""Logits to probabilities and tokens. The generator is always an argument."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoding.errors import BadRequest
from decoding.host_rows import share_rows, soft_rows
from decoding.kernels import drawing
from decoding.kernels.crew import new_marks
from decoding.kernels.pieces import Doubles, room_for_sums
from decoding.topk import top_k
from decoding.types import Ints

_NUCLEUS_SIZES = (256, 4096)
"""How many of the most likely tokens are tried for top-p before whole rows are sorted."""

LEAST_TEMPERATURE = torch.finfo(torch.float32).tiny
"""What a float32 can still be divided by."""
LEAST_LEFT = 1e-6
"""Part of a row's mass from which on a difference of sums is exact enough to draw from."""


@dataclass(frozen=True)
class Sampling:
    """How the target chooses: temperature 0 is greedy; top_p 1 and top_k 0 keep everything."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature <= 100.0:
            raise BadRequest(f"The temperature is {self.temperature}.", "It must be from 0 (greedy) to 100.")
        if not 0.0 < self.top_p <= 1.0:
            raise BadRequest(f"top_p is {self.top_p}.", "It must be above 0 and at most 1 (1 keeps every token).")
        if self.top_k < 0:
            raise BadRequest(f"top_k is {self.top_k}.", "It must be 0 (keep every token) or a positive number.")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def whole(self) -> bool:
        """Whether no token is left out."""
        return self.top_p == 1.0 and self.top_k == 0 and not self.greedy


def probabilities(logits: Tensor, sampling: Sampling) -> Tensor:
    """The distribution that the target samples from, `[rows, vocab]` for float32 logits `[rows, vocab]`.

    In the order of Hugging Face's `generate`: temperature, then top-k (ties at the k-th value are kept), then
    top-p (the smallest set of most likely tokens whose mass reaches top_p), then renormalised. At least one token
    is always kept, and no temperature above 0 is small enough to overflow.
    """
    if sampling.greedy:
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(torch.float32)
    if 0 < sampling.top_k < logits.shape[-1]:
        kth = top_k(logits, sampling.top_k).values[:, -1:]
        logits = logits.masked_fill(logits < kth, float("-inf"))
    probs = _softmax(logits, max(sampling.temperature, LEAST_TEMPERATURE))
    return _nucleus(probs, sampling.top_p) if sampling.top_p < 1.0 else probs


def _softmax(logits: Tensor, temperature: float) -> Tensor:
    if logits.device.type == "cpu":
        return soft_rows(logits, temperature)
    # Peak first: a small temperature then sends the rest to minus infinity, and never the peak to infinity.
    return (logits - logits.amax(-1, keepdim=True)).div_(temperature).softmax(-1)


def _nucleus(probs: Tensor, top_p: float) -> Tensor:
    """Keeps the smallest set of most likely tokens whose mass reaches `top_p`, renormalised.

    A nucleus mostly has a handful of tokens, so the most likely ones are tried before every row is sorted.
    """
    ordered, order = _most_likely(probs, top_p)
    mass_before = ordered.cumsum(-1) - ordered
    kept = ordered.masked_fill(mass_before >= top_p, 0.0)
    return torch.zeros_like(probs).scatter_(-1, order, kept / kept.sum(-1, keepdim=True))


def _most_likely(probs: Tensor, mass: float) -> tuple[Tensor, Tensor]:
    """Probabilities and tokens, best first, as many as are needed for every row to reach `mass`."""
    for size in _NUCLEUS_SIZES:
        best = top_k(probs, size)
        if bool((best.values.sum(-1) >= mass).all()):
            return best
    ordered, order = probs.sort(dim=-1, descending=True, stable=True)
    return ordered, order


def draw(probs: Tensor, rng: torch.Generator) -> Tensor:
    """One token `[rows]` int64 from each row of `probs` `[rows, vocab]`, by inversion.

    One float64 uniform number per row, on the device of `probs` and `rng`, and no host synchronisation. A token of
    probability 0 is never drawn.
    """
    return draw_with_replacement(probs, 1, rng)[:, 0]


def draw_with_replacement(probs: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """`count` independent tokens `[rows, count]` int64 from each row of `probs` `[rows, vocab]`, as `draw` draws."""
    distinct, uniform = _distinct(probs), _uniform(probs, count, rng)
    if probs.device.type == "cpu":
        return torch.from_numpy(drawing.draw_independent(distinct.contiguous().numpy(), uniform.numpy()))
    return _inverted(distinct, uniform.reshape(len(distinct), -1)).view(uniform.shape)


def draw_without_replacement(probs: Tensor, count: int, rng: torch.Generator) -> Tensor:
    """`count` different tokens `[rows, count]` int64 from each row, one after the other.

    Each comes from what the ones before it have left of the row, renormalised; -1 where nothing is left. What all
    rows share (`expand`) is summed once.
    """
    distinct, uniform = _distinct(probs), _uniform(probs, count, rng)
    if probs.device.type == "cpu":
        return torch.from_numpy(drawing.draw_distinct(distinct.contiguous().numpy(), uniform.numpy(), LEAST_LEFT))
    return draw_distinct_on_device(distinct, uniform)


class UniformNumbers:
    """The random numbers of a run that draws again and again."""

    AHEAD = 1024

    def __init__(self, rng: torch.Generator) -> None:
        self.rng = rng
        self._uniform = np.empty(0)

    def take(self, count: int) -> Doubles:
        """`count` numbers from [0, 1), on the host. Some are made ahead: torch takes about as long for a thousand as
        for one, and in a round, where its code has left the caches, longer than all draws do."""
        if count > len(self._uniform):
            self._uniform = np.empty(count + self.AHEAD)
            torch.from_numpy(self._uniform).uniform_(generator=self.rng)
        taken, self._uniform = self._uniform[:count], self._uniform[count:]
        return taken


def draw_each(
    probs: Tensor, shapes: NDArray[np.int64], distinct: bool, numbers: UniformNumbers, mass: Doubles | None = None
) -> Tensor:
    """Draws from the first rows of `probs` `[rows, vocab]`, from each on its own: (n, count) in `shapes` `[drawn rows,
    2]`, int64, asks for `count` tokens n times. All tokens one after the other, int64; with and without replacement as
    above, -1 included. `mass` `[rows, pieces]` are the sums of the rows, where they are known (see `kernels.pieces`).

    The same as a call for each row; on a CPU it takes the time of one.
    """
    if probs.device.type != "cpu":
        draw_one = draw_without_replacement if distinct else draw_with_replacement
        parts = zip(probs.split(1), shapes.tolist(), strict=False)
        return torch.cat([draw_one(row.expand(n, -1), count, numbers.rng).flatten() for row, (n, count) in parts])
    uniform = numbers.take(sum(n * count for n, count in shapes.tolist()))
    drawn = np.empty(len(uniform), np.int64)
    table = probs.contiguous().numpy()
    sums, are_known = (room_for_sums(*table.shape), False) if mass is None else (mass, True)
    wanted = drawing.Wanted(table, sums, are_known, shapes, uniform, distinct, LEAST_LEFT, new_marks(1))
    share_rows(drawing.draw_each, 0 if are_known else table.size, wanted, drawn)
    return torch.from_numpy(drawn)


def over_vocabulary(numbers: Tensor, ids: Ints, vocab: int, other: float) -> Tensor:
    """Float32 `numbers` `[rows, kept]` of the tokens `ids` as `[rows, vocab]`, with `other` for all other tokens."""
    if numbers.device.type == "cpu":  # numpy keeps to this thread
        table = np.full((len(numbers), vocab), other, np.float32)
        table[:, ids] = numbers.numpy()
        return torch.from_numpy(table)
    place = torch.from_numpy(ids.astype(np.int64)).to(numbers.device)
    return numbers.new_full((len(numbers), vocab), other).index_copy_(1, place, numbers)


def _distinct(probs: Tensor) -> Tensor:
    """One row where all are the same."""
    return probs[:1] if probs.stride(0) == 0 else probs


def _uniform(probs: Tensor, count: int, rng: torch.Generator) -> Tensor:
    return torch.rand(len(probs), count, generator=rng, dtype=torch.float64, device=probs.device)


def draw_distinct_on_device(distinct: Tensor, uniform: Tensor) -> Tensor:
    """What the kernel `draw_distinct` draws, for rows anywhere."""
    count = uniform.shape[1]
    likeliest = top_k(distinct, count - 1).values.to(torch.float64).sum(-1) if count > 1 else distinct.new_zeros(1)
    # Which way it goes must not depend on what is drawn: the less likely outcomes would be drawn too often.
    if bool((likeliest >= (1 - LEAST_LEFT) * distinct.sum(-1, dtype=torch.float64)).any()):
        return _draw_from_the_rest(distinct, uniform)
    return _draw_around_gaps(distinct, uniform)


def _draw_from_the_rest(distinct: Tensor, uniform: Tensor) -> Tensor:
    left = distinct.to(torch.float64).expand(len(uniform), -1).clone()
    drawn = []
    for number in uniform.split(1, dim=1):
        token = _inverted(left, number)[:, 0]
        drawn.append(token.masked_fill_(token == left.shape[1], -1))  # a row without mass is searched to its end
        left.scatter_(1, token.clamp_min(0)[:, None], 0.0)
    return torch.stack(drawn, dim=1)


def _draw_around_gaps(distinct: Tensor, uniform: Tensor) -> Tensor:
    rows = len(uniform)
    mass = distinct.to(torch.float64).cumsum(-1)
    left = mass[:, -1].expand(rows)
    drawn = torch.empty(rows, 0, dtype=torch.int64, device=distinct.device)
    start = end = drawn.to(torch.float64)
    for number in uniform.T:
        point = torch.minimum(number * left, torch.nextafter(left, torch.zeros_like(left)))
        order = start.argsort(1)
        for first, last in zip(start.gather(1, order).T, end.gather(1, order).T, strict=True):
            behind = torch.maximum(point + (last - first), last)  # no rounding may leave it inside
            point = torch.where(point >= first, behind, point)
        token = torch.searchsorted(mass, point.view(len(mass), -1), right=True).clamp_max_(mass.shape[1] - 1)
        before = mass.gather(1, (token - 1).clamp_min(0)).masked_fill_(token == 0, 0.0).view(rows, 1)
        after = mass.gather(1, token).view(rows, 1)
        start, end = torch.cat([start, before], dim=1), torch.cat([end, after], dim=1)
        drawn = torch.cat([drawn, token.view(rows, 1)], dim=1)
        left = left - (after - before)[:, 0]
    return drawn


def _inverted(probs: Tensor, uniform: Tensor) -> Tensor:
    """The tokens `[rows, count]` at which the sums of `probs` `[rows, vocab]` pass `uniform` `[rows, count]` of all."""
    mass = probs.to(torch.float64).cumsum(-1)
    total = mass[:, -1:]
    # Rounding must not bring the point up to the total: there, the search would run off the end.
    point = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(mass, point, right=True)

"""Which first part of a plan pays best, and from where on no more nodes can pay."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled

Numbers64 = NDArray[np.float64]


class Prices(NamedTuple):
    """What nodes of a plan bring and cost; no numbers where that does not matter."""

    share: Numbers64
    """`[bins]` what a path weight of each bin (see `bin_of`) is worth."""
    milliseconds: Numbers64
    """`[nodes + 1]` of a round with 0, 1, ... nodes."""
    slope: Numbers64
    """`[nodes + 1]` milliseconds a node for which more of them can be had at best (see `least_slopes`)."""


NO_PRICES = Prices(np.empty(0), np.empty(0), np.empty(0))


@compiled
def bin_of(score: float, bins: int) -> int:
    """The bin of a log-weight (nats): bin b holds weights from 2^-(b + 1) to 2^-b, the last one smaller ones."""
    return int(min(max(np.floor(-score / np.log(2.0)), 0.0), bins - 1.0))


@compiled
def acceptance_chance(score: float, share: Numbers64) -> float:
    """How likely a path of this log-weight is taken, at most 1."""
    return min(np.exp(score) * share[bin_of(score, len(share))], 1.0)


@compiled
def chances(score: Numbers64, share: Numbers64) -> Numbers64:
    """`[nodes]` the chance of each log-weight."""
    found = np.empty(len(score))
    for node in range(len(score)):
        found[node] = acceptance_chance(score[node], share)
    return found


@compiled
def count_nodes(
    promised: Numbers64, accepted: Numbers64, score: Numbers64, path: NDArray[np.int32], memory: float
) -> None:
    """Adds the weights of nodes `[nodes]` to what their bins `promised`, and those on the accepted `path`, in which the
    root is 0 and the first node 1, to what was `accepted`; both `[bins]`. What a bin held before counts 1/e once so
    much weight as its `memory` has come to it."""
    bins = len(promised)
    seen = np.zeros(bins, np.float64)
    for node in range(len(score)):
        seen[bin_of(score[node], bins)] += np.exp(score[node])
    for place in range(bins):
        keep = np.exp(-seen[place] / memory)
        promised[place] = keep * promised[place] + seen[place]
        accepted[place] *= keep
    for node in path[1:]:
        accepted[bin_of(score[node - 1], bins)] += 1.0


@compiled
def least_slopes(milliseconds: Numbers64) -> Numbers64:
    """`[nodes + 1]` the least of `(milliseconds[m] - milliseconds[n]) / (m - n)` over all m > n, at each n; beyond the
    last there is no more to be had, at any price."""
    count = len(milliseconds)
    slope = np.full(count, np.inf)
    for n in range(count):
        for m in range(n + 1, count):
            slope[n] = min(slope[n], (milliseconds[m] - milliseconds[n]) / (m - n))
    return slope


@compiled
def pays_no_more(prices: Prices, count: int, rate: float, score: float) -> bool:
    """Whether no plan of more than `count` nodes can bring more tokens a millisecond than the best first part so far
    does, its `rate`, when none of the nodes to come weighs more than `score` (nats).

    A longer plan adds nodes of this chance at most, for the least slope at least; so what it adds has a rate below the
    best, and so has the whole.
    """
    share, most = prices.share, 0.0
    for place in range(bin_of(score, len(share)), len(share)):
        most = max(most, share[place])
    return min(np.exp(score) * most, 1.0) < rate * prices.slope[count]


@compiled
def best_part(chance: Numbers64, milliseconds: Numbers64) -> tuple[int, float]:
    """The number of nodes with the most expected tokens a millisecond, the smaller among equals, and those tokens."""
    best, tokens, expected = 0, 1.0, 1.0
    rate = 1.0 / milliseconds[0]
    for node in range(len(chance)):
        tokens += chance[node]
        if tokens / milliseconds[node + 1] > rate:
            best, expected, rate = node + 1, tokens, tokens / milliseconds[node + 1]
    return best, expected

"""The most probable prefixes of independent positions (DDTree, Proposition 2), without a heap."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.types import Floats, Ints

Scores = NDArray[np.float64]
Index = NDArray[np.int64]

DENSE_LIMIT = 65_536
"""Up to this many (rank, parent) pairs, adding them all up costs less than asking which ones can survive."""
HISTOGRAM_BUDGET = 200
"""From this budget on, the tighter limit of `_histogram_limit` saves more time than it costs."""
HISTOGRAM_BINS = 56


class Prefixes(NamedTuple):
    """Prefixes in pop order, each field `[prefixes]`; the first b of them are the answer for a budget of b."""

    parent: Ints
    """Place of the parent in this very order, -1 for prefixes of length one; always smaller than the own place."""
    position: Ints
    """Position of the last token, from 0: the length of the prefix minus one."""
    rank: Ints
    """Rank of the last token at its position, from 0."""
    score: Scores
    """Log-probability (nats) of the whole prefix: its float32 entries added up in float64, the first one first."""


class Level(NamedTuple):
    """The prefixes of one length that may still be among the best: by rank, then in the order of their parents."""

    pair: Index
    """`rank * parents + parent`, ascending; parent is an index into the level before."""
    parents: int
    cost: Scores


def best_prefixes(logprob: Floats, budget: int) -> Prefixes:
    """The `budget` prefixes of highest probability (DDTree, Proposition 2: what Algorithm 1 pops, in that order).

    `logprob` `[positions, k]` holds the log-probabilities (nats) of each position's tokens, best first; by Lemma 1
    `k = min(budget, vocab)` is enough. Entries of -inf are impossible tokens and are never taken, so fewer than
    `budget` prefixes come back when no more of them have a probability above zero.

    Order: score descending; then the shorter first, so that a parent always precedes its children; then the ranks
    compared from the last position back, so that siblings follow their rank.

    Instead of popping one prefix at a time, every length is expanded at once. With costs for minus the scores:

    - A limit is kept: at least `budget` prefixes are known to cost no more, so nothing above it can be among the
      best. Costs only grow along a path, so a prefix above the limit takes all that follows it along.
    - Under ties the limit alone may cut nothing. But rank r of the i-th best parent (both from 1) has i * r - 1 others
      of its own length that cost no more, so only i * r <= budget needs a look: budget * ln(budget) pairs a length.

    Example: rows log [.6, .4] and log [.9, .1] with budget 3 give .6, .54 = .6 * .9 and .4, with parents -1, 0, -1.
    """
    costs = np.subtract(0.0, logprob[:, : max(budget, 0)], dtype=np.float64)
    levels: list[Level] = []
    if costs.size:
        if costs[:, 0].min() < 0.0:
            costs = np.maximum(costs, 0.0)  # it can only be rounding, and would put a child before its parent
        greedy = np.concatenate(([0.0], costs[:, 0].cumsum()))
        limit = _first_limit(costs, greedy, budget)
        frontier = np.zeros(1)
        known = 0
        for position, row in enumerate(costs):
            # The best parent is the greedy one, so no parent needs more ranks than it.
            width = int(row.searchsorted(_above(limit) - greedy[position], side="right"))
            level = _expand(frontier, row[:width], limit, budget)
            if len(level.cost) == 0:
                break
            known += len(level.cost)
            levels.append(level)
            if known > 4 * budget:
                limit = min(limit, _nth_smallest(np.concatenate([level.cost for level in levels]), budget))
                keep = (level.cost <= limit).nonzero()[0]
                levels[-1] = Level(level.pair[keep], level.parents, level.cost[keep])
            frontier = levels[-1].cost
    return _in_pop_order(levels, budget)


def _expand(frontier: Scores, row: Scores, limit: float, budget: int) -> Level:
    """The children of `frontier` `[parents]` within `limit`, with the leading costs of one `row`."""
    parents, width = len(frontier), len(row)
    if parents * width <= DENSE_LIMIT:
        dense = (row[:, None] + frontier).ravel()
        pair = (dense <= limit).nonzero()[0]
        return Level(pair, parents, dense[pair])
    best_first = np.argsort(frontier, kind="stable")
    count = frontier[best_first].searchsorted(_above(limit) - row, side="right")
    count = np.minimum(count, budget // np.arange(1, width + 1))
    rank = np.repeat(np.arange(width), count)
    place = np.arange(len(rank)) - np.repeat(count.cumsum() - count, count)
    rank, parent = np.divmod(np.sort(rank * parents + best_first[place]), parents)
    cost = row[rank] + frontier[parent]
    keep = (cost <= limit).nonzero()[0]
    return Level(rank[keep] * parents + parent[keep], parents, cost[keep])


def _first_limit(costs: Scores, greedy: Scores, budget: int) -> float:
    """A cost that at least `budget` prefixes stay within, or the largest finite number where none is known.

    Counts the prefixes that leave the greedy path only in their last token; a fraction of the ranks is enough.
    """
    known = (greedy[:-1, None] + costs[:, : max(16, budget // 8)]).ravel()
    largest = float(np.finfo(np.float64).max)  # not inf: impossible prefixes stay above every limit
    limit = min(_nth_smallest(known, budget), largest) if len(known) >= budget else largest
    if budget < HISTOGRAM_BUDGET or limit in (0.0, largest):
        return limit
    return min(limit, _histogram_limit(costs, greedy, limit, budget))


def _histogram_limit(costs: Scores, greedy: Scores, limit: float, budget: int) -> float:
    """A tighter limit than the given one, from counting all prefixes within it with costs rounded up to a grid.

    With a histogram of the costs for every position, the number of prefixes of each length and cost is a convolution.
    Rounding up makes every prefix look costlier than it is, so where the count reaches the budget, at least as many
    real prefixes cost no more.
    """
    reachable = int((greedy[:-1] <= limit).sum())
    columns = int((greedy[:reachable, None] + costs[:reachable]).min(axis=0).searchsorted(limit, side="right"))
    size = HISTOGRAM_BINS + 2  # bins 0 to HISTOGRAM_BINS, and one for all that costs more
    bins = np.minimum(np.ceil(costs[:reachable, :columns] * (HISTOGRAM_BINS / limit)), size - 1).astype(np.int64)
    bins += np.arange(0, reachable * size, size)[:, None]
    histograms = np.bincount(bins.ravel(), minlength=reachable * size).reshape(reachable, size)[:, :-1]
    counts = np.zeros(size - 1)
    at_length = np.ones(1)
    for histogram in histograms.astype(np.float64):
        at_length = np.convolve(at_length, histogram)[: size - 1]
        counts += at_length
    reached = int(counts.cumsum().searchsorted(budget))
    return _above(reached * (limit / HISTOGRAM_BINS)) if reached < len(counts) else limit


def _above(limit: float) -> float:
    """Slightly more than `limit`: where a difference is compared, rounding must not lose what a sum would keep."""
    return limit * (1 + 1e-9) + 1e-9 if limit < 1e300 else limit


def _nth_smallest(costs: Scores, n: int) -> float:
    return float(np.partition(costs, n - 1)[n - 1])


def _in_pop_order(levels: list[Level], budget: int) -> Prefixes:
    """Puts the levels into one order, cut at the budget, with parents as places in it."""
    if not levels:
        nothing = np.zeros(0, np.int32)
        return Prefixes(nothing, nothing, nothing, np.zeros(0))
    cost = np.concatenate([level.cost for level in levels])
    sizes = [len(level.cost) for level in levels]
    start = np.cumsum([0, *sizes])
    chosen = _stable_order(cost)[:budget]
    position = np.repeat(np.arange(len(levels)), sizes)[chosen]
    parents = np.array([level.parents for level in levels])[position]
    rank, parent = np.divmod(np.concatenate([level.pair for level in levels])[chosen], parents)
    place = np.empty(len(cost) + 1, np.int32)
    place[chosen] = np.arange(len(chosen), dtype=np.int32)
    place[-1] = -1
    above = np.where(position > 0, start[position - 1] + parent, len(cost))
    return Prefixes(place[above], position.astype(np.int32), rank.astype(np.int32), 0.0 - cost[chosen])


def _stable_order(costs: Scores) -> Index:
    """Indices from the lowest cost to the highest, equal costs in their given order.

    Costs are not negative, so their bits sort like integers. With the index in the lowest bits a plain integer sort,
    much faster than a stable one, also gives the order; the result is checked, for costs that differ only there.
    """
    low_bits = (1 << len(costs).bit_length()) - 1
    key = (costs.view(np.int64) & ~low_bits) | np.arange(len(costs))
    key.sort()
    order = key & low_bits
    ordered = costs[order]
    if (ordered[1:] < ordered[:-1]).any():
        order = np.argsort(costs, kind="stable")
    return order

"""Whether planned nodes are accepted as often as their weights say, and the budget at which a round pays best."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels.prices import best_part, chances, count_nodes
from decoding.types import Ints

BINS = 12
"""Bin b holds path weights from 2^-(b + 1) to 2^-b; the last one all that are smaller."""
PRIOR_SHARE = np.array([0.88, 0.75, 0.75, 0.75, *[1.0] * (BINS - 4)])
"""What weights of each bin are believed to be worth before the first round; smoothed from 40 greedy answers of the
default target to training prompts: paths that were planned as likely come true less often than the product of their
edges, for what ends one edge ends the next."""
PRIOR = 12.0
"""How much weight of each bin is believed to have been seen by then. Where light paths had a twentieth of it, one that
came true made all of them worth four times as much, and fifty nodes were verified for one token."""
MEMORY = 100.0
"""Weight of a bin after which what was seen of it before counts 1/e; the prior is forgotten, too."""


class AcceptanceRates:
    """Histogram binning (Zadrozny and Elkan, ICML 2001) of path weights: in every bin, nodes accepted over the sum of
    their weights is what a weight of that size is really worth.

    All nodes of a verified tree count, those that the target did not take as misses. Whatever a drafter's bias, if
    only it lasts, the corrected weights of a bin add up to the nodes accepted of it. A bin that was never verified
    is believed as it stands: too high a belief is corrected as soon as it makes trees grow.
    """

    def __init__(self) -> None:
        self._promised = np.full(BINS, PRIOR)
        self._accepted = PRIOR * PRIOR_SHARE

    @property
    def share(self) -> NDArray[np.float64]:
        """`[BINS]` what a weight of each bin is worth."""
        share: NDArray[np.float64] = self._accepted / self._promised
        return share

    def correct(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Chances of acceptance for log-weights `score` (nats), at most 1."""
        return chances(score, self.share)

    def learn(self, score: NDArray[np.float64], path: Ints) -> None:
        """Counts the nodes of one round: those of the accepted `path` but the root, its first, were taken. The node n
        of the tree has the weight `score[n - 1]`."""
        count_nodes(self._promised, self._accepted, score, path, MEMORY)

    def as_json(self) -> list[float]:
        """For a decision: the factor of every bin."""
        factors: list[float] = np.round(self.share, 3).tolist()
        return factors


class Choice(NamedTuple):
    """How many nodes to verify."""

    nodes: int
    expected_accepted: float
    tokens_per_second: float
    """Expected, the bonus included."""
    milliseconds: float


def best_budget(chance: NDArray[np.float64], milliseconds: NDArray[np.float64]) -> Choice:
    """The first part of a plan with the most expected tokens per time (CaDDTree, arXiv 2606.01813).

    `chance` `[nodes]` says how likely the target takes each node of the plan, in its order; `milliseconds`
    `[nodes + 1]` what a round costs with 0, 1, ... of them. All parts are compared: a cost in steps has many local
    maxima, and a rule that stops at the first would be right for convex costs alone. Ties go to the smaller tree.

    Chances .8, .5, .1 and costs 10, 12, 15, 30: 100, 150, 153 and 80 tokens per second; so 2 nodes.
    """
    best, tokens = best_part(chance, milliseconds)
    cost = float(milliseconds[best])
    return Choice(best, tokens - 1.0, 1000.0 * tokens / cost, cost)


def rate_curve(
    chance: NDArray[np.float64], milliseconds: NDArray[np.float64], nodes: tuple[int, ...]
) -> dict[str, Any]:
    """Expected tokens per second at some budgets, for a decision."""
    shown = [count for count in nodes if count <= len(chance)]
    tokens = 1.0 + np.concatenate([[0.0], np.cumsum(chance)])
    return {"nodes": shown, "tokens_per_second": np.round(1000 * tokens[shown] / milliseconds[shown], 2).tolist()}

"""A fixed tree: depth D, B children of every node, threshold tau, node budget N (DynaTree, section 4.1 baseline).

Expanded layer by layer, one drafter step each. When the full tree is larger than the budget, the best nodes by
cumulative log-probability are kept. That is exact without growing the full tree: a child is never likelier than
its parent, so what has fallen behind the best N so far can have no descendant among the best N.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoding.drafters.base import Candidates, Drafter, StepwiseDrafter
from decoding.settings import Settings, option
from decoding.strategies.base import PUBLISHED, Growth, Strategy
from decoding.template import rank_logprob
from decoding.types import Floats, Ints, Source, Tree


@dataclass(frozen=True)
class FixedSettings(Settings):
    """Defaults are the best of DynaTree's own sweep (its Figure 7: D = 8, B = 3, tau = 0.1, at N = 256)."""

    depth: int = option(8, "levels below the root", low=1, high=32)
    branching: int = option(3, "children of every node", low=1, high=16)
    threshold: float = option(0.1, "least probability of a node's whole path under the drafter", low=0, high=1)
    budget: int = option(256, "most nodes drafted, the root not counted", low=1, high=1024)


class Fixed(Strategy[FixedSettings]):
    """The best `budget` nodes of the B-ary tree of depth D.

    A drafter without log-probabilities is taken by ranks (see `template.rank_logprob`), and without the threshold.
    """

    name = "fixed"
    title = "Fixed tree"
    paper = "DynaTree, section 4.1 (fixed-tree baseline), after SpecInfer"
    needs = frozenset({"stepwise"})
    usual_drafters = (PUBLISHED, "transition-matrix")
    settings_class = FixedSettings

    @property
    def max_nodes(self) -> int:
        full: int = sum(self.settings.branching**depth for depth in range(1, self.settings.depth + 1))
        return min(self.settings.budget, full)

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        depth_limit = min(self.settings.depth, max_depth)
        if depth_limit < 1 or not isinstance(drafter, StepwiseDrafter):
            return Growth(Tree.root_only(root))
        grown = _Grown(root, self.settings.budget, self.settings.branching)
        candidates = drafter.start(root, self.settings.branching)
        frontier = np.zeros(1, np.int64)
        number = {0: 0}  # node -> the drafter's own numbering, in which only expanded nodes count
        for depth in range(1, depth_limit + 1):
            frontier = grown.add_layer(frontier, candidates, self._least(drafter))
            if depth == depth_limit or not len(frontier):
                break
            above = np.array([number[parent] for parent in grown.parent[frontier].tolist()], np.int32)
            candidates = drafter.expand(grown.token[frontier], above, self.settings.branching)
            number |= {node: len(number) + place for place, node in enumerate(frontier.tolist())}
        return Growth(grown.tree(drafter.source), decision={"evaluated": len(number), "considered": len(grown.token)})

    def _least(self, drafter: Drafter) -> float:
        """The least cumulative log-probability of a node."""
        if not drafter.gives_logprobs or self.settings.threshold == 0:
            return -np.inf
        return float(np.log(self.settings.threshold))


class _Grown:
    """Every node considered so far, and which of them are among the best `budget`."""

    def __init__(self, root: int, budget: int, branching: int) -> None:
        self.budget = budget
        self.by_rank = np.array([rank_logprob(rank) for rank in range(branching)])
        self.token: Ints = np.array([root], np.int32)
        self.parent: Ints = np.array([-1], np.int32)
        self.logprob: Floats = np.zeros(1, np.float32)
        self.score = np.zeros(1)

    def add_layer(self, frontier: NDArray[np.int64], candidates: Candidates, least: float) -> NDArray[np.int64]:
        """Adds the children of `frontier` `[nodes]`; those worth expanding, as node indices."""
        edge = np.where(np.isnan(candidates.logprob), self.by_rank, candidates.logprob)
        score = self.score[frontier][:, None] + edge
        taken = (candidates.token >= 0) & (score >= least)
        before = len(self.token)
        self.token = np.concatenate([self.token, candidates.token[taken]])
        self.parent = np.concatenate([self.parent, frontier[np.nonzero(taken)[0]]])
        self.logprob = np.concatenate([self.logprob, candidates.logprob[taken]])
        self.score = np.concatenate([self.score, score[taken]])
        best = self.best()
        return best[best >= before]

    def best(self) -> NDArray[np.int64]:
        """The root and the best `budget` nodes, ascending. Ties go to the earlier node, so parents come along."""
        order = np.argsort(-self.score[1:], kind="stable")[: self.budget] + 1
        return np.concatenate([[0], np.sort(order)])

    def tree(self, source: Source) -> Tree:
        kept = self.best()
        place = np.full(len(self.token), -1)
        place[kept] = np.arange(len(kept))
        parent = np.where(kept == 0, -1, place[self.parent[kept]])
        sources = np.where(kept == 0, int(Source.ROOT), int(source))
        return Tree(self.token[kept], parent, self.logprob[kept], sources)

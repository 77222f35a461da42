"""A fixed tree: depth D, B children of every node, threshold tau, node budget N (DynaTree, section 4.1 baseline).

Expanded layer by layer, one drafter step each. When the full tree is larger than the budget, the best nodes by
cumulative log-probability are kept. That is exact without growing the full tree: a child is never likelier than
its parent, so what has fallen behind the best N so far can have no descendant among the best N.
"""

from dataclasses import dataclass

import numpy as np

from decoding.drafters.base import Drafter, StepwiseDrafter
from decoding.settings import Settings, option
from decoding.strategies.base import PUBLISHED, Growth, Strategy
from decoding.strategies.candidate_pool import CandidatePool
from decoding.types import Tree


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
        pool = CandidatePool(drafter, root, self.settings.branching)
        frontier = np.zeros(1, np.int64)
        for _ in range(depth_limit):
            new = pool.expand(frontier, self._least(drafter))
            frontier = np.intersect1d(pool.best(self.settings.budget), new, assume_unique=True)
            if not len(frontier):
                break
        decision = {"evaluated": pool.expanded, "considered": len(pool.token)}
        return Growth(pool.tree(self.settings.budget), decision=decision)

    def _least(self, drafter: Drafter) -> float:
        """The least cumulative log-probability of a node."""
        if not drafter.gives_logprobs or self.settings.threshold == 0:
            return -np.inf
        return float(np.log(self.settings.threshold))

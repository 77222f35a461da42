"""A fixed tree: depth D, B children of every node, threshold tau, node budget N (DynaTree, section 4.1 baseline).

Expanded layer by layer, one drafter step each. When the full tree is larger than the budget, the best nodes by
cumulative log-probability are kept, without growing the full tree (see `strategies.layered`).
"""

from dataclasses import dataclass

import numpy as np

from decoding.drafters.base import Drafter, StepwiseDrafter
from decoding.settings import Settings, option
from decoding.strategies.base import PUBLISHED, Growth, Strategy
from decoding.strategies.layered import LayeredShape, grow_layers
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
        depth = min(self.settings.depth, max_depth)
        if depth < 1 or not isinstance(drafter, StepwiseDrafter):
            return Growth(Tree.root_only(root))
        shape = LayeredShape(depth, self.settings.branching, self.settings.budget, least=self._least(drafter))
        return grow_layers(drafter, root, shape)

    def _least(self, drafter: Drafter) -> float:
        """The least cumulative log-probability of a node."""
        if not drafter.gives_logprobs or self.settings.threshold == 0:
            return -np.inf
        return float(np.log(self.settings.threshold))

"""The dynamic draft tree of EAGLE-2 (arXiv 2406.16858, section 4), which EAGLE-3 takes over."""

from dataclasses import dataclass

import numpy as np

from decoding.drafters.base import Drafter, StepwiseDrafter
from decoding.settings import Settings, option
from decoding.strategies.base import PUBLISHED, Growth, Strategy
from decoding.strategies.beam import ROOT, Expansion
from decoding.types import Tree


@dataclass(frozen=True)
class EagleSettings(Settings):
    """Defaults are those of the published code for EAGLE-3 (top_k 10, depth 7, 60 tokens)."""

    top_k: int = option(10, "beams in a layer, and children of each", low=1, high=64)
    depth: int = option(7, "steps after the root's children: the tree is one level deeper", low=0, high=31)
    budget: int = option(60, "most nodes kept by the rerank, the root not counted", low=1, high=1024)


class Eagle(Strategy[EagleSettings]):
    """Expansion (section 4.1), then reranking (section 4.2).

    The root's `top_k` children are the first beams. Each of `depth` steps proposes `top_k` children of every beam
    and makes the `top_k` best of them, by the product of the drafter's probabilities along the path (the paper's
    value V), the next beams. At the end the `budget` best of all that was proposed are kept; equal ones go to the
    shallower, so parents come along.

    EAGLE's code counts the root among its 60 `total_token`, so its tree is that of a budget of 59.
    """

    name = "eagle"
    title = "EAGLE dynamic tree"
    paper = "EAGLE-2, sections 4.1 and 4.2; EAGLE-3"
    needs = frozenset({"stepwise"})
    needs_logprobs = True
    usual_drafters = (PUBLISHED,)
    settings_class = EagleSettings

    @property
    def max_nodes(self) -> int:
        top_k = self.settings.top_k
        return min(self.settings.budget, top_k + self.settings.depth * top_k**2)

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        depth = min(self.settings.depth + 1, max_depth)
        if depth < 1 or not isinstance(drafter, StepwiseDrafter):
            return Growth(Tree.root_only(root))
        expansion, beams = Expansion(drafter, root), ROOT
        for _ in range(depth):
            layer = expansion.add(beams, expansion.ask(beams, self.settings.top_k))
            # What has fallen behind the best so far can have no descendant among the best in the end.
            beams = np.intersect1d(expansion.best(self.settings.top_k, layer), expansion.best(self.settings.budget))
            if not len(beams):
                break
        tree = expansion.tree(expansion.best(self.settings.budget))
        return Growth(tree, decision={"evaluated": expansion.evaluated, "considered": len(expansion)})

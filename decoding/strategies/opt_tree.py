"""OPT-Tree (Wang et al., TACL 2025, arXiv 2406.17276): the tree that maximises the expected acceptance length.

The weight of a node is the probability of its path under the drafter; the expected acceptance length E(A) of a tree
is the sum of its weights (Equation 3). Algorithm 1 drafts layer after layer while the last one has raised E_sub(T, n),
the most that n nodes of what was drafted can reach, by more than delta, and then takes the n heaviest nodes.

Where we differ from the paper's text: it drafts the n heaviest nodes of every layer further. Here those are drafted
further that are among the n heaviest of all layers so far: a child is never heavier than its parent, so the others
have no descendant in any E_sub or in the final tree, which are therefore the same, and cheaper. The authors' code
compares E_sub one layer late; this follows the paper.
"""

from dataclasses import dataclass

import numpy as np

from decoding.drafters.base import Drafter
from decoding.settings import Settings, option
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.beam import ROOT, Expansion, require_scoring
from decoding.types import Tree


@dataclass(frozen=True)
class OptTreeSettings(Settings):
    """Defaults of the authors' code; the paper takes 25, 50 or 60 nodes.

    It wants delta between 1 and the time of a drafting step over that of a target step, and finds .2 best for a small
    language model and .8 for EAGLE (section 4.4).
    """

    budget: int = option(50, "n: nodes of the tree, the root not counted", low=1, high=1024)
    threshold: float = option(0.5, "delta: least gain in expected tokens for another layer", low=0, high=1)
    depth: int = option(10, "levels below the root at most", low=1, high=64)


class OptTree(Strategy[OptTreeSettings]):
    """OPT-Tree, Algorithm 1: adaptive depth, and the `budget` most probable paths of what was drafted."""

    name = "opt_tree"
    title = "OPT-Tree"
    paper = "OPT-Tree, section 3 and Algorithm 1"
    needs = frozenset({"stepwise"})
    needs_logprobs = True
    settings_class = OptTreeSettings

    @property
    def max_nodes(self) -> int:
        return self.settings.budget

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        """The decision tells E_sub, the expected drafted tokens to be accepted, after each layer."""
        source = require_scoring(drafter, self.title)
        budget = self.settings.budget
        depth_limit = min(self.settings.depth, budget, max_depth)
        if depth_limit < 1:
            return Growth(Tree.root_only(root))
        expansion, frontier, best = Expansion(source, root), ROOT, ROOT[:0]
        expected = [0.0]
        for depth in range(1, depth_limit + 1):
            # The r-th best child of a node stands behind r - 1 siblings and depth - 1 ancestors.
            layer = expansion.add(frontier, expansion.ask(frontier, budget - depth + 1))
            best = expansion.best(budget)
            expected.append(float(np.exp(expansion.score[best]).sum()))
            frontier = np.intersect1d(layer, best)
            if expected[-1] - expected[-2] <= self.settings.threshold or not len(frontier):
                break
        decision = {
            "expected_accepted": expected[1:],
            "drafter_steps": expansion.steps,
            "evaluated": expansion.evaluated,
        }
        return Growth(expansion.tree(best), decision=decision)

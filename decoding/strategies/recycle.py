"""Token Recycling (Luo et al., ACL 2025): a static, unbalanced template of 80 nodes filled from what was seen before.

The template says which successor of its parent each node takes (see `decoding.template`). Its source is the
transition matrix, but any stepwise drafter can fill it.
"""

from dataclasses import dataclass
from functools import lru_cache

from decoding.drafters.base import Drafter, StepwiseDrafter
from decoding.settings import Settings, option
from decoding.strategies.base import Growth, Strategy
from decoding.template import RECYCLE_WIDTHS, Template, scaled_template
from decoding.types import Tree


@dataclass(frozen=True)
class RecycleSettings(Settings):
    """The paper's template has 80 nodes at widths 8/21/25/15/8/3; other budgets scale it."""

    budget: int = option(80, "nodes of the template, the root not counted", low=1, high=1024)


class Recycle(Strategy[RecycleSettings]):
    """Fills the template; a node whose parent has no such successor is left out with all below it."""

    name = "recycle"
    title = "Token Recycling"
    paper = "Token Recycling (Luo et al. 2025), section 3"
    needs = frozenset({"stepwise"})
    usual_drafters = ("transition-matrix",)
    settings_class = RecycleSettings

    @property
    def max_nodes(self) -> int:
        return self.settings.budget

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        if max_depth < 1 or not isinstance(drafter, StepwiseDrafter):
            return Growth(Tree.root_only(root))
        template = recycle_template(self.settings.budget, min(max_depth, len(RECYCLE_WIDTHS)))
        tree = drafter.fill(root, template)
        return Growth(tree, decision={"template_nodes": len(template) - 1, "filled_nodes": tree.drafted})


@lru_cache(maxsize=64)
def recycle_template(budget: int, max_depth: int) -> Template:
    """Token Recycling's template of `budget` nodes, cut at `max_depth`."""
    return scaled_template(RECYCLE_WIDTHS, budget).cut(max_depth)

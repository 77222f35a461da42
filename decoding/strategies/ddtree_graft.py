"""One best-first plan over a block drafter's marginals and retrieved continuations (after DDTree and Graft)."""

from dataclasses import dataclass

from decoding.drafters.base import Drafter, OnePassDrafter, StepwiseDrafter
from decoding.errors import Incompatible
from decoding.settings import Settings, option
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.graft_plan import NO_MARGINALS, NO_ROWS, GraftPlan, columns, successor_rows
from decoding.strategies.hit_rates import HitRates
from decoding.types import Tree, Verdict


@dataclass(frozen=True)
class DDTreeGraftSettings(Settings):
    """One budget for drafted and retrieved nodes alike. With either kind switched off what is left is its parent."""

    budget: int = option(64, "nodes, drafted and retrieved together, the root not counted", low=1, high=1024)
    draft: bool = option(True, "let drafted nodes compete; off, this is best-first search over the matrix alone")
    retrieve: bool = option(True, "let retrieved nodes compete; off, this is DDTree")


class DDTreeGraft(Strategy[DDTreeGraftSettings]):
    """The `budget` heaviest nodes, where a path weighs the product of its edges.

    The surrogate. The children of a node at depth d are the drafted candidates of position d + 1 and the entries of the
    row of its token in the transition matrix. A drafted token weighs its probability q under the drafter, times the
    measured share of such tokens that comes true where the row is known and does not hold it. A retrieved token
    weighs the measured rate at which entries of its rank are what the target says next, taken over entries that the
    drafter thinks about as likely (see `HitRates`). A token that is both is one node, with the weight of agreement.

    No edge weighs more than 1, so a node never outweighs its parent, and the nodes of largest weight form a tree: best
    first is optimal, for every first part of the pop order too (as DDTree's Proposition 2). A graft enters just where
    it outweighs the next drafted node. With an empty matrix this is DDTree; below the last drafted position retrieval
    goes on alone.
    """

    name = "ddtree-graft"
    title = "DDTree with grafts"
    paper = "this project; DDTree (arXiv 2604.12989), Algorithm 1, with the grafts of Graft (arXiv 2605.20104)"
    needs = frozenset({"one-pass"})
    needs_logprobs = True
    retrieval = "transition-matrix"
    settings_class = DDTreeGraftSettings

    def __init__(self, settings: DDTreeGraftSettings) -> None:
        super().__init__(settings)
        self.rates = HitRates()
        self._planned: GraftPlan | None = None

    @property
    def max_nodes(self) -> int:
        return self.settings.budget

    @property
    def columns(self) -> int:
        return columns(self.settings.budget)

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        return self.grow_beside(drafter, None, root, max_depth)

    def grow_beside(
        self, drafter: Drafter | None, retrieval: StepwiseDrafter | None, root: int, max_depth: int
    ) -> Growth:
        """The decision tells the expected accepted nodes under the surrogate, the grafts with their weights, and the
        rates as they stood."""
        if not isinstance(drafter, OnePassDrafter):
            raise Incompatible(f"{self.title} needs a one-pass drafter.", "Choose a block-diffusion drafter.")
        rows = successor_rows(retrieval, self.title) if self.settings.retrieve else NO_ROWS
        marginals = drafter.marginals(root, k=self.columns) if self.settings.draft else NO_MARGINALS
        self._planned = GraftPlan(root, marginals, rows, self.rates, self.settings.budget, max_depth)
        tree = self._planned.tree(self.settings.budget)
        return Growth(tree, marginals, self._planned.decision(tree))

    def observe(self, tree: Tree, verdict: Verdict) -> None:
        """Learns from every accepted node what its row was worth."""
        if self._planned is not None:
            for trial in self._planned.trials(tree, verdict):
                self.rates.learn(trial, self._planned.marginals)
        self._planned = None

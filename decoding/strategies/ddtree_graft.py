"""One best-first plan over a block drafter's marginals and retrieved continuations (after DDTree and Graft)."""

from collections.abc import Sequence
from dataclasses import dataclass

from decoding.drafters.base import Drafter, OnePassDrafter, StepwiseDrafter
from decoding.errors import Incompatible
from decoding.kernels.sequel import NO_SEQUEL
from decoding.settings import Settings, option
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.copying import NO_CHAIN, CopiedText
from decoding.strategies.graft_plan import NO_MARGINALS, NO_ROWS, GraftPlan, Rates, columns, successor_rows
from decoding.types import Tree, Verdict


@dataclass(frozen=True)
class DDTreeGraftSettings(Settings):
    """One budget for drafted and retrieved nodes alike. With either kind switched off, and without a sequential head,
    what is left is its parent."""

    budget: int = option(64, "nodes, drafted and retrieved together, the root not counted", low=1, high=1024)
    draft: bool = option(True, "let drafted nodes compete; off, this is best-first search over the matrix alone")
    retrieve: bool = option(True, "let retrieved nodes compete; off, this is DDTree, but for what follows")
    follow: bool = option(
        True, "let the drafter's sequential head, where it has one, say what follows each drafted token"
    )
    copy: bool = option(True, "where the text repeats itself, let the tokens that followed compete, too")


class DDTreeGraft(Strategy[DDTreeGraftSettings]):
    """The `budget` heaviest nodes, where a path weighs the product of its edges.

    The surrogate. The children of a node at depth d are the drafted candidates of position d + 1 and the entries of the
    row of its token in the transition matrix. A drafted token weighs its probability q under the drafter, times the
    measured share of such tokens that comes true where the row is known and does not hold it. A retrieved token
    weighs the measured rate at which entries of its rank are what the target says next, taken over entries that the
    drafter thinks about as likely (see `HitRates`). A token that is both is one node, with the weight of agreement.

    Where the drafter has a sequential head, q is what that makes of it below just this node (see
    `decoding.drafters.sequential_head`); else q speaks of the position, whatever stands before.

    Where the last tokens of the text stood there before, the tokens that followed are a chain below the root; each
    weighs at least the measured rate at which copies after so long a match come true (see `CopyRates`).

    No edge weighs more than 1, so a node never outweighs its parent, and the nodes of largest weight form a tree: best
    first is optimal, for every first part of the pop order too (as DDTree's Proposition 2). A graft enters just where
    it outweighs the next drafted node. With an empty matrix and no such head this is DDTree; below the last drafted
    position retrieval goes on alone.
    """

    name = "ddtree-graft"
    title = "DDTree with grafts"
    paper = (
        "this project; DDTree (arXiv 2604.12989), Algorithm 1, with the grafts of Graft (arXiv 2605.20104) and the "
        "copies of SAM-Decoding (arXiv 2411.10666)"
    )
    needs = frozenset({"one-pass"})
    needs_logprobs = True
    retrieval = "transition-matrix"
    settings_class = DDTreeGraftSettings

    def __init__(self, settings: DDTreeGraftSettings) -> None:
        super().__init__(settings)
        self.rates = Rates()
        self._text = CopiedText()
        self._planned: GraftPlan | None = None

    @property
    def max_nodes(self) -> int:
        return self.settings.budget

    @property
    def columns(self) -> int:
        return columns(self.settings.budget)

    def begin(self, prompt: Sequence[int], *_: object) -> None:
        """The text begins with the prompt."""
        self._text = CopiedText(prompt)
        self._planned = None

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
        chain = self._text.chain(root) if self.settings.retrieve and self.settings.copy else NO_CHAIN
        sequel = drafter.sequel() if self.settings.draft and self.settings.follow else NO_SEQUEL
        self._planned = GraftPlan(root, marginals, rows, self.rates, self.settings.budget, max_depth, chain, sequel)
        tree = self._planned.tree(self.settings.budget)
        return Growth(tree, marginals, self._planned.decision(tree))

    def observe(self, tree: Tree, verdict: Verdict) -> None:
        """Learns from every accepted node what its row was worth, and from the text what copying was."""
        if self._planned is not None:
            self.rates.learn(self._planned.chain, self._planned.heard(tree, verdict))
        self._planned = None
        self._text.read(tree.token[verdict.path].tolist())

"""SAM-Decoding (arXiv 2411.10666): a copied chain where the text repeats itself, Token Recycling's tree elsewhere."""

from dataclasses import dataclass

from decoding.drafters.base import Drafter, StepwiseDrafter
from decoding.errors import Incompatible
from decoding.settings import Settings, option
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.linear import Linear, LinearSettings
from decoding.strategies.recycle import Recycle, RecycleSettings


@dataclass(frozen=True)
class SamDecodingSettings(Settings):
    """40 predictions and Token Recycling's 80 nodes; which match is long enough, the drafter decides (5 tokens)."""

    budget: int = option(40, "tokens in a copied chain", low=1, high=64)
    fallback: bool = option(True, "without a match, fill Token Recycling's template")
    template: int = option(80, "nodes of that template, the root not counted", low=1, high=1024)


class Sam(Strategy[SamDecodingSettings]):
    """Section 3: the length of the match decides, round by round, which of the two proposes."""

    name = "sam"
    title = "SAM-Decoding"
    paper = "SAM-Decoding (arXiv 2411.10666), section 3"
    needs = frozenset({"stepwise"})
    usual_drafters = ("sam",)
    retrieval = "transition-matrix"
    settings_class = SamDecodingSettings

    def __init__(self, settings: SamDecodingSettings) -> None:
        super().__init__(settings)
        self._chain = Linear(LinearSettings(settings.budget))
        self._template = Recycle(RecycleSettings(settings.template))

    @property
    def max_nodes(self) -> int:
        return max(self.settings.budget, self.settings.template if self.settings.fallback else 0)

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        return self.grow_beside(drafter, None, root, max_depth)

    def grow_beside(
        self, drafter: Drafter | None, retrieval: StepwiseDrafter | None, root: int, max_depth: int
    ) -> Growth:
        if retrieval is None and self.settings.fallback:
            raise Incompatible("SAM-Decoding needs a retrieval source beside its drafter.", "Or set fallback=false.")
        growth = self._chain.grow(drafter, root, max_depth)
        matched = growth.tree.drafted > 0
        if not matched and self.settings.fallback:
            growth = self._template.grow(retrieval, root, max_depth)
        return Growth(growth.tree, growth.marginals, {"matched": matched, **growth.decision})

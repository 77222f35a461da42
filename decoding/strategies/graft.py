"""Graft: prune the draft where it is unsure, and fill the freed places with retrieved nodes (arXiv 2605.20104)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from decoding.drafters.base import Drafter, Filled, StepwiseDrafter, below
from decoding.errors import Incompatible
from decoding.settings import Settings, option
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.beam import ROOT, Expansion
from decoding.strategies.graft_gates import PAPER_THRESHOLDS, UNSET, threshold_name
from decoding.strategies.graft_stages import (
    FIXED_SPLIT,
    STAGES,
    Split,
    Stage,
    envelope,
    places_in_envelope,
    retrieval_template,
    split,
)
from decoding.strategies.grafting import Grafted, graft, tails, ungrafted
from decoding.types import Tree

GATE_HELP = "least probability of the best drafted path there; below 0: the pair's calibrated one, else {paper:g}"


def gate_option(name: str) -> float:
    """The setting of one gate's threshold."""
    gate: float = option(UNSET, f"{name[4:]}: " + GATE_HELP.format(paper=PAPER_THRESHOLDS[name]), low=-1, high=1)
    return gate


@dataclass(frozen=True)
class GraftSettings(Settings):
    """Defaults of Appendix C.3: 60 nodes, depth 8, top 10.

    The paper's variants: prune-then-graft is the default; "w/o retrieval" is `retrieve=false`; "w/o prune" (Figure 5)
    and Graft(ROOT) (Figure 2) are both `prune=false`: a whole draft and a fixed split; Graft(TAIL) is
    `prune=false attach=tail`; with both switched off it is the base tree.
    """

    budget: int = option(60, "nodes, drafted and retrieved together, the root not counted", low=1, high=1024)
    depth: int = option(8, "levels that an unpruned draft has", low=1, high=32)
    width: int = option(10, "beams kept at every depth, and children of each", low=1, high=64)
    prune: bool = option(True, "end the draft at a checkpoint where its best path is too unlikely")
    retrieve: bool = option(True, "fill what pruning frees with retrieved nodes")
    attach: str = option(
        "root", "where retrieved nodes grow: at the root or below the leaves", choices=("root", "tail")
    )
    tau_d0: float = gate_option("tau_d0")
    tau_d1: float = gate_option("tau_d1")
    tau_d5: float = gate_option("tau_d5")


class Graft(Strategy[GraftSettings]):
    """Algorithm 2. The base tree is EAGLE-2's: `depth` layers of `width` beams, then the best by path probability.

    At the root the look-ups of the largest template run beside the drafting where the device allows it; on a CPU, and
    below the leaves, they come after it.
    """

    name = "graft"
    title = "Graft"
    paper = "Graft (arXiv 2605.20104), Algorithm 2 and Table 7"
    needs = frozenset({"stepwise"})
    needs_logprobs = True
    retrieval = "transition-matrix"
    thresholds = tuple(PAPER_THRESHOLDS)
    settings_class = GraftSettings

    @property
    def max_nodes(self) -> int:
        return self.settings.budget

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        return self.grow_beside(drafter, None, root, max_depth)

    def grow_beside(
        self, drafter: Drafter | None, retrieval: StepwiseDrafter | None, root: int, max_depth: int
    ) -> Growth:
        if retrieval is None and self.settings.retrieve:
            raise Incompatible("Graft needs a retrieval source beside its drafter.", "Or set retrieve=false.")
        if max_depth < 1 or not isinstance(drafter, StepwiseDrafter):
            return Growth(Tree.root_only(root))
        begun = self._begin_retrieval(retrieval, root, max_depth)
        draft = self._draft(drafter, root, max_depth)
        share = self._share(draft.pruned)
        grafted = self._graft(draft, share, retrieval, begun, max_depth)
        decision = {
            "stage": draft.pruned.name if draft.pruned else None,
            "confidence": draft.confidence,
            "thresholds": self._thresholds(),
            "draft_budget": share.draft,
            "retrieval_budget": share.retrieval if self.settings.retrieve else 0,
            "evaluated": draft.pool.evaluated,
            **grafted.decision(),
        }
        return Growth(grafted.tree, decision=decision)

    def _begin_retrieval(
        self, retrieval: StepwiseDrafter | None, root: int, max_depth: int
    ) -> Callable[[], Filled] | None:
        if retrieval is None or not self.settings.retrieve or self.settings.attach != "root":
            return None
        template = envelope(self.settings.budget, max_depth)
        return retrieval.look_up_soon(below(root, template), template)

    def _draft(self, drafter: StepwiseDrafter, root: int, max_depth: int) -> "_Draft":
        """Lines 2 to 12: layer by layer, until a gate says that the best path is too unlikely."""
        pool = Expansion(drafter, root)
        thresholds = self._thresholds()
        confidence: list[float] = []
        frontier = ROOT
        for depth in range(min(self.settings.depth, max_depth)):
            layer = pool.add(frontier, pool.ask(frontier, self.settings.width))
            if not len(layer):
                break
            confidence.append(float(np.exp(pool.score[layer].max())))
            gate = next((stage for stage in STAGES if stage.depth == depth), None)
            if self.settings.prune and gate is not None and confidence[-1] <= thresholds[threshold_name(gate)]:
                return _Draft(pool, confidence, gate)
            frontier = pool.best(self.settings.width, layer)
        return _Draft(pool, confidence, None)

    def _share(self, pruned: Stage | None) -> Split:
        """Line 13. A draft that no gate ended keeps the whole budget, unless the split is fixed."""
        if pruned is not None:
            return split(self.settings.budget, pruned)
        if self.settings.retrieve and not self.settings.prune:
            return split(self.settings.budget, FIXED_SPLIT)
        return Split(self.settings.budget, 0)

    def _graft(
        self,
        draft: "_Draft",
        share: Split,
        retrieval: StepwiseDrafter | None,
        begun: Callable[[], Filled] | None,
        max_depth: int,
    ) -> Grafted:
        """Lines 14 to 20."""
        tree = draft.pool.tree(draft.pool.best(share.draft))
        if retrieval is None or not self.settings.retrieve or not share.retrieval:
            return ungrafted(tree)
        if begun is None:
            template, given = tails(tree, share.retrieval, max_depth)
            return graft(tree, template, retrieval.look_up(given, template).token, given)
        stage = draft.pruned or FIXED_SPLIT
        template = retrieval_template(self.settings.budget, stage, max_depth)
        return graft(tree, template, begun().token[places_in_envelope(self.settings.budget, stage, max_depth)])

    def _thresholds(self) -> dict[str, float]:
        given = {name: float(getattr(self.settings, name)) for name in self.thresholds}
        return {name: value if value >= 0 else PAPER_THRESHOLDS[name] for name, value in given.items()}


@dataclass(frozen=True, eq=False)
class _Draft:
    pool: Expansion
    confidence: list[float]
    """c_d of every depth that was drafted."""
    pruned: Stage | None
    """The stage whose gate ended the draft."""

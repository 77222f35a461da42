"""Graft(TAIL) over a block drafter: a chain whose unsure end is replaced by retrieved tokens (Graft, Appendix F)."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from decoding.drafters.base import Drafter, OnePassDrafter, StepwiseDrafter
from decoding.errors import Incompatible
from decoding.settings import Settings, option
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.graft_gates import DEFAULT_BLOCK_THRESHOLD, UNSET
from decoding.strategies.grafting import graft, ungrafted
from decoding.template import Template
from decoding.tree import TreeBuilder
from decoding.types import Tree


@dataclass(frozen=True)
class GraftBlockSettings(Settings):
    """The budget B of Appendix F is the drafter's block: `budget` can only make it smaller."""

    budget: int = option(15, "tokens in the chain, at most the drafter's block", low=1, high=64)
    prune: bool = option(True, "end the drafted prefix at the first unsure token")
    retrieve: bool = option(True, "fill the rest of the block with retrieved tokens")
    tau_block: float = option(
        UNSET,
        f"least probability of a drafted token; below 0: the pair's calibrated one, else {DEFAULT_BLOCK_THRESHOLD:g}",
        low=-1,
        high=1,
    )


class GraftBlock(Strategy[GraftBlockSettings]):
    """B = B_df + B_ret: the drafted prefix whose tokens are each likelier than the threshold, then a retrieved tail.

    The confidence of a position is the probability of its best token ("the confidence of each drafted token",
    section 4.5); the prefix ends before the first position that does not exceed the threshold. The tail is the chain
    of best successors, which can only be looked up when the prefix is known: nothing overlaps here.
    """

    name = "graft-block"
    title = "Graft over a block"
    paper = "Graft (arXiv 2605.20104), Appendix F"
    needs = frozenset({"one-pass"})
    needs_logprobs = True
    retrieval = "transition-matrix"
    thresholds = ("tau_block",)
    settings_class = GraftBlockSettings

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
        if max_depth < 1 or not isinstance(drafter, OnePassDrafter):
            return Growth(Tree.root_only(root))
        length = min(self.settings.budget, drafter.positions, max_depth)
        marginals = drafter.marginals(root, 1)
        confidence = np.exp(marginals.logprob[:length, 0])
        unsure = np.flatnonzero(confidence <= self._threshold())
        kept = int(unsure[0]) if len(unsure) and self.settings.prune else length
        builder = TreeBuilder(root)
        for place in range(kept):
            builder.add(place, marginals.token[place, 0], marginals.logprob[place, 0], drafter.source)
        grafted = ungrafted(builder.build())
        if retrieval is not None and self.settings.retrieve and kept < length:
            template = chain_template(length)
            given = np.full(length + 1, -1, np.int32)
            given[: kept + 1] = grafted.tree.token
            grafted = graft(grafted.tree, template, retrieval.look_up(given, template).token, given)
        decision = {
            "confidence": confidence.tolist(),
            "thresholds": {"tau_block": self._threshold()},
            "draft_budget": kept,
            "retrieval_budget": length - kept if self.settings.retrieve else 0,
            **grafted.decision(),
        }
        return Growth(grafted.tree, marginals, decision)

    def _threshold(self) -> float:
        return self.settings.tau_block if self.settings.tau_block >= 0 else DEFAULT_BLOCK_THRESHOLD


@lru_cache(maxsize=64)
def chain_template(length: int) -> Template:
    """The best successor of the best successor, `length` times."""
    return Template(np.arange(-1, length, dtype=np.int32), np.zeros(length + 1, np.int32))

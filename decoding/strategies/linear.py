"""Linear speculative decoding: one chain of the drafter's best tokens (Leviathan et al., 2023; Chen et al., 2023).

Over a one-pass drafter the chain takes the best token of every position, as DFlash does.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from decoding.drafters.base import Drafter, OnePassDrafter, StepwiseDrafter
from decoding.settings import Settings, option
from decoding.strategies.base import PUBLISHED, Growth, Strategy
from decoding.tree import TreeBuilder


@dataclass(frozen=True)
class LinearSettings(Settings):
    """One knob."""

    budget: int = option(5, "tokens in the chain", low=1, high=64)


class Linear(Strategy[LinearSettings]):
    """A chain: each node the best child of the one before."""

    name = "linear"
    title = "Linear chain"
    paper = "Leviathan et al. 2023, Algorithm 1 (greedy drafts)"
    needs = frozenset({"stepwise", "one-pass"})
    usual_drafters: ClassVar[tuple[str, ...]] = (PUBLISHED, "prompt-lookup")
    settings_class = LinearSettings

    @property
    def max_nodes(self) -> int:
        return self.settings.budget

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        builder = TreeBuilder(root)
        length = min(self.settings.budget, max_depth)
        if length > 0 and isinstance(drafter, OnePassDrafter):
            marginals = drafter.marginals(root, 1)
            for token, logprob in zip(marginals.token[:length, 0], marginals.logprob[:length, 0], strict=True):
                builder.add(len(builder) - 1, token, logprob, drafter.source)
            return Growth(builder.build(), marginals)
        if length > 0 and isinstance(drafter, StepwiseDrafter):
            candidates = drafter.start(root, 1)
            while (token := int(candidates.token[0, 0])) >= 0:
                last = len(builder) - 1
                builder.add(last, token, candidates.logprob[0, 0], drafter.source)
                if len(builder) > length:
                    break
                candidates = drafter.expand(np.array([token], np.int32), np.array([last], np.int32), 1)
        return Growth(builder.build())

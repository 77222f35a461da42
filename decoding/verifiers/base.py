"""What a verifier is: it walks a scored tree and says which path the target accepts."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from decoding.draws import Drawn, Draws
from decoding.errors import Incompatible
from decoding.sampling import Sampling, draw, probabilities
from decoding.scores import TreeScores, require_finite
from decoding.types import Tree, Verdict


class Verifier(ABC):
    """Decides the accepted path. `greedy` says whether it serves temperature 0 or above."""

    name: ClassVar[str]
    title: ClassVar[str]
    lossless_for: ClassVar[str]
    """For which trees its output follows the target's distribution exactly."""
    greedy: ClassVar[bool]
    needs_candidates: ClassVar[frozenset[Drawn]] = frozenset(Drawn)
    """How the candidates of a tree may have been chosen for this rule to be lossless."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling

    def first(self, logits: Tensor, rng: torch.Generator) -> int:
        """The token after the prompt, from its logits `[vocab]`; raises NonFiniteLogits."""
        require_finite(logits)
        return int(draw(probabilities(logits[None].to(torch.float32), self.sampling), rng))

    @abstractmethod
    def verify(self, tree: Tree, scores: TreeScores, rng: torch.Generator, draws: Draws | None = None) -> Verdict:
        """Walks the tree. `rng` lives on the device of the scores; a greedy verifier leaves it alone.

        `draws` are those behind a sampled tree; verifiers that are lossless for any tree do not look at them.

        Raises NonFiniteLogits where the target gave no usable numbers, and Incompatible where the rule is not
        lossless for candidates that were chosen like these.
        """

    def require_draws(self, tree: Tree, draws: Draws | None) -> list[list[int]]:
        """For every node its draws in order (see `Draws.below`); raises Incompatible where the rule needs others."""
        drawn = Drawn.BEST if draws is None else draws.drawn
        if tree.drafted and drawn not in self.needs_candidates:
            raise Incompatible(
                f"{self.title} needs candidates {' or '.join(sorted(self.needs_candidates))}; these are {drawn}.",
                "Choose a verifier that is lossless for any tree, or a strategy that draws.",
            )
        return draws.below(tree) if draws is not None else [[] for _ in range(len(tree))]

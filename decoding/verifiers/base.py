"""What a verifier is: it walks a scored tree and says which path the target accepts."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from decoding.sampling import Sampling
from decoding.scores import TreeScores
from decoding.types import Tree, Verdict


class Verifier(ABC):
    """Decides the accepted path. `greedy` says whether it serves temperature 0 or above."""

    name: ClassVar[str]
    title: ClassVar[str]
    lossless_for: ClassVar[str]
    """For which trees its output follows the target's distribution exactly."""
    greedy: ClassVar[bool]

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling

    @abstractmethod
    def first(self, logits: Tensor, rng: torch.Generator) -> int:
        """The token after the prompt, from its logits `[vocab]`; raises NonFiniteLogits."""

    @abstractmethod
    def verify(self, tree: Tree, scores: TreeScores, rng: torch.Generator) -> Verdict:
        """Walks the tree. `rng` lives on the device of the scores; a greedy verifier leaves it alone.

        Raises NonFiniteLogits where the target gave no usable numbers.
        """

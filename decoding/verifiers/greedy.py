"""Greedy verification: follow the target's most likely token for as long as the tree holds it."""

import torch
from torch import Tensor

from decoding.draws import Draws
from decoding.scores import TreeScores, require_finite
from decoding.tree import child_with_token
from decoding.types import Tree, Verdict
from decoding.verifiers.base import Verifier


class Greedy(Verifier):
    """DDTree, section 4.4, at temperature 0: token for token what plain greedy decoding of the target gives.

    Ties go to the lowest token id, as in `torch.argmax`.
    """

    name = "greedy"
    title = "Greedy"
    lossless_for = "any tree"
    greedy = True

    def first(self, logits: Tensor, rng: torch.Generator) -> int:
        require_finite(logits)
        return int(logits.argmax())

    def verify(self, tree: Tree, scores: TreeScores, rng: torch.Generator, draws: Draws | None = None) -> Verdict:
        opinions = scores.opinions(tree)
        path: list[int] = []
        node: int | None = 0
        while node is not None:
            path.append(node)
            node = child_with_token(tree, node, int(opinions.choice[node]))
        return opinions.verdict(path, opinions.choice[path].tolist())

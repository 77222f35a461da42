"""The walk that rejection rules share: at each node its candidates one after the other, from the root down."""

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from decoding.draws import Draws
from decoding.sampling import draw, probabilities
from decoding.scores import TreeScores
from decoding.tree import children
from decoding.types import Tree, Verdict
from decoding.verifiers.base import Verifier
from decoding.verifiers.residual import normalised


class Choice(NamedTuple):
    """What a rule says at one node."""

    place: int | None
    """Which of the candidates was accepted; None where all were rejected and `token` was drawn instead."""
    token: int


class TopDown(Verifier):
    """Goes on below an accepted candidate, and ends where all are rejected or there are none.

    Lossless as soon as `choose` is: if at every node the emitted token follows the target's distribution whatever
    happened above, so does the text. What happened above (which node was reached) says nothing of this node's own
    candidates, because they were drawn apart from all others, given the path.
    """

    greedy = False

    @abstractmethod
    def choose(self, target: Tensor, draft: Tensor | None, candidates: list[int], rng: torch.Generator) -> Choice:
        """The rule at one node. `target` and `draft` are float64 distributions `[vocab]` on one device.

        `candidates` are the tokens in the order in which they were chosen. `draft` is what they were drawn from, None
        where they were not drawn.
        """

    def verify(self, tree: Tree, scores: TreeScores, rng: torch.Generator, draws: Draws | None = None) -> Verdict:
        drawn = self.require_draws(tree, draws)
        below = children(tree.parent) if draws is None else drawn
        path, emitted = [0], list[int]()

        def visit(start: int, logits: Tensor) -> None:
            # Between chunks, emitted is one short of path: the last node waits for its own chunk.
            while len(emitted) < len(path) and path[-1] < start + len(logits):
                node = path[-1]
                row = logits[node - start][None]
                target = normalised(probabilities(row, self.sampling)[0])
                choice = self._choose_at(tree, node, below[node], target, draws, rng)
                emitted.append(choice.token)
                if choice.place is not None:
                    path.append(below[node][choice.place])

        return scores.opinions(tree, visit).verdict(path, emitted)

    def _choose_at(
        self, tree: Tree, node: int, below: list[int], target: Tensor, draws: Draws | None, rng: torch.Generator
    ) -> Choice:
        if not below:
            return Choice(None, int(draw(target[None], rng)))
        draft = normalised(draws.weights(node, len(target))).to(target.device) if draws is not None else None
        return self.choose(target, draft, tree.token[below].tolist(), rng)

"""Trees grown layer by layer over a stepwise drafter, of which the best nodes are kept in the end.

Nodes are scored by their cumulative log-probability. A child is never likelier than its parent, so what has fallen
behind the best `budget` so far can have no descendant among them: it is not expanded, and nothing is lost by that.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoding.drafters.base import Candidates, StepwiseDrafter
from decoding.strategies.base import Growth
from decoding.template import rank_logprob
from decoding.types import Floats, Ints, Source, Tree


@dataclass(frozen=True)
class LayeredShape:
    """What the layers are like."""

    depth: int
    """Levels below the root, at least 1."""
    branching: int
    """Children proposed for every expanded node."""
    budget: int
    """Most nodes kept, the root not counted."""
    beams: int | None = None
    """Most nodes expanded in a layer: the best ones; None expands all that could still count."""
    least: float = -np.inf
    """Least cumulative log-probability of a node."""


def grow_layers(drafter: StepwiseDrafter, root: int, shape: LayeredShape) -> Growth:
    """The best `budget` of all nodes that the drafter proposed, one step of it for each layer."""
    grown = _Grown(root, shape)
    candidates = drafter.start(root, shape.branching)
    frontier = np.zeros(1, np.int64)
    number = {0: 0}  # node -> the drafter's own numbering, in which only expanded nodes count
    for depth in range(1, shape.depth + 1):
        frontier = grown.add_layer(frontier, candidates)
        if depth == shape.depth or not len(frontier):
            break
        above = np.array([number[parent] for parent in grown.parent[frontier].tolist()], np.int32)
        candidates = drafter.expand(grown.token[frontier], above, shape.branching)
        number |= {node: len(number) + place for place, node in enumerate(frontier.tolist())}
    return Growth(grown.tree(drafter.source), decision={"evaluated": len(number), "considered": len(grown.token)})


class _Grown:
    """Every node considered so far, and which of them are among the best `budget`."""

    def __init__(self, root: int, shape: LayeredShape) -> None:
        self.shape = shape
        self.by_rank = np.array([rank_logprob(rank) for rank in range(shape.branching)])
        self.token: Ints = np.array([root], np.int32)
        self.parent: Ints = np.array([-1], np.int32)
        self.logprob: Floats = np.zeros(1, np.float32)
        self.score = np.zeros(1)

    def add_layer(self, frontier: NDArray[np.int64], candidates: Candidates) -> NDArray[np.int64]:
        """Adds the children of `frontier` `[nodes]`; those to expand, as ascending node indices.

        A drafter without log-probabilities is taken by ranks (see `template.rank_logprob`).
        """
        edge = np.where(np.isnan(candidates.logprob), self.by_rank, candidates.logprob)
        score = self.score[frontier][:, None] + edge
        taken = (candidates.token >= 0) & (score >= self.shape.least)
        before = len(self.token)
        self.token = np.concatenate([self.token, candidates.token[taken]])
        self.parent = np.concatenate([self.parent, frontier[np.nonzero(taken)[0]]])
        self.logprob = np.concatenate([self.logprob, candidates.logprob[taken]])
        self.score = np.concatenate([self.score, score[taken]])
        order = self._best_first()
        return np.sort(order[order >= before][: self.shape.beams])

    def _best_first(self) -> NDArray[np.int64]:
        """The best `budget` nodes. Ties go to the earlier node, so parents come along."""
        return np.argsort(-self.score[1:], kind="stable")[: self.shape.budget] + 1

    def tree(self, source: Source) -> Tree:
        kept = np.concatenate([[0], np.sort(self._best_first())])
        place = np.full(len(self.token), -1)
        place[kept] = np.arange(len(kept))
        parent = np.where(kept == 0, -1, place[self.parent[kept]])
        sources = np.where(kept == 0, int(Source.ROOT), int(source))
        return Tree(self.token[kept], parent, self.logprob[kept], sources)

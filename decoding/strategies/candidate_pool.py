"""Every node that a stepwise drafter was asked for in a round, and the best of them as a tree.

The best nodes are those of highest cumulative log-probability. An edge never raises it and ties go to the earlier
node, so the best nodes always bring their parents along.
"""

import numpy as np
from numpy.typing import NDArray

from decoding.drafters.base import Candidates, StepwiseDrafter
from decoding.template import rank_logprob
from decoding.types import Floats, Ints, Source, Tree

Nodes = NDArray[np.int64]


class CandidatePool:
    """Grows layer by layer below `root`, with up to `branching` children of every expanded node.

    Where the drafter gives no probabilities, its ranks stand in for them (see `template.rank_logprob`).
    """

    def __init__(self, drafter: StepwiseDrafter, root: int, branching: int) -> None:
        self.drafter = drafter
        self.branching = branching
        self.token: Ints = np.array([root], np.int32)
        self.parent: Ints = np.array([-1], np.int32)
        self.logprob: Floats = np.zeros(1, np.float32)
        self.score = np.zeros(1)
        """`[nodes]` cumulative log-probability, by ranks where the drafter gives none."""
        self._by_rank = np.array([rank_logprob(rank) for rank in range(branching)])
        self._number: dict[int, int] = {}  # node -> the drafter's own numbering, in which only expanded nodes count

    @property
    def expanded(self) -> int:
        """Nodes that the drafter has evaluated."""
        return len(self._number)

    def expand(self, nodes: Nodes, least: float = -np.inf) -> Nodes:
        """Asks for the children of `nodes` (first of all the root alone); the indices of those added.

        A child whose cumulative log-probability is below `least` is not added. One drafter step.
        """
        if self._number:
            above = np.array([self._number[parent] for parent in self.parent[nodes].tolist()], np.int32)
            candidates = self.drafter.expand(self.token[nodes], above, self.branching)
        else:
            candidates = self.drafter.start(int(self.token[0]), self.branching)
        self._number |= {node: len(self._number) + place for place, node in enumerate(nodes.tolist())}
        return self._add(nodes, candidates, least)

    def _add(self, nodes: Nodes, candidates: Candidates, least: float) -> Nodes:
        edge = np.where(np.isnan(candidates.logprob), self._by_rank, candidates.logprob)
        score = self.score[nodes][:, None] + edge
        taken = (candidates.token >= 0) & (score >= least)
        before = len(self.token)
        self.token = np.concatenate([self.token, candidates.token[taken]])
        self.parent = np.concatenate([self.parent, nodes[np.nonzero(taken)[0]].astype(np.int32)])
        self.logprob = np.concatenate([self.logprob, candidates.logprob[taken]])
        self.score = np.concatenate([self.score, score[taken]])
        return np.arange(before, len(self.token))

    def best(self, count: int, among: Nodes | None = None) -> Nodes:
        """The best `count` nodes beside the root, or of `among`; ascending."""
        if among is None:
            among = np.arange(1, len(self.token))
        order = np.argsort(-self.score[among], kind="stable")[:count]
        return np.sort(among[order])

    def tree(self, count: int) -> Tree:
        """The root and the best `count` nodes."""
        kept = np.concatenate([[0], self.best(count)])
        place = np.full(len(self.token), -1)
        place[kept] = np.arange(len(kept))
        parent = np.where(kept == 0, -1, place[self.parent[kept]])
        sources = np.where(kept == 0, int(Source.ROOT), int(self.drafter.source))
        return Tree(self.token[kept], parent, self.logprob[kept], sources)

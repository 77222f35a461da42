"""Growing a draft tree over a stepwise drafter, one drafter step for each depth.

`Expansion` is a tree under construction: every node considered, its score, and the drafter that is asked for more.
`grow_beams` is the beam search of EAGLE-2, on which DDD and ECHO put their rules for stopping.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from decoding.drafters.base import Candidates, Drafter, StepwiseDrafter
from decoding.errors import Incompatible
from decoding.template import rank_logprob
from decoding.types import Floats, Ints, Source, Tree

Nodes = NDArray[np.int64]
"""Indices of nodes of an `Expansion`."""
Scores = NDArray[np.float64]
"""Cumulative log-probabilities (nats)."""

ROOT: Nodes = np.zeros(1, np.int64)


class Expansion:
    """Every node considered so far below a root, in the order in which they were added; node 0 is the root.

    A node's score is the sum of the edge log-probabilities on its path; where the drafter gives none, its ranks stand
    in (see `template.rank_logprob`). A child never scores above its parent.
    """

    def __init__(self, drafter: StepwiseDrafter, root: int) -> None:
        self.drafter = drafter
        self.token: Ints = np.array([root], np.int32)
        self.parent: Nodes = np.array([-1], np.int64)
        self.logprob: Floats = np.zeros(1, np.float32)
        self.score: Scores = np.zeros(1)
        self.steps = 0
        """Drafter steps so far: one forward pass each, where the drafter is a model."""
        self._number: dict[int, int] = {}  # node -> the drafter's own numbering, in which only asked nodes count

    def __len__(self) -> int:
        return len(self.token)

    @property
    def evaluated(self) -> int:
        """Nodes whose children were asked for, the root included."""
        return len(self._number)

    def ask(self, nodes: Nodes, width: int) -> Candidates:
        """The `width` best children of each of `nodes`, `[nodes, width]`, in one drafter step.

        The first call must be for `ROOT` alone; a node may be asked once, and after its parent.
        """
        if self.steps == 0:
            candidates = self.drafter.start(int(self.token[0]), width)
        else:
            above = [self._number[parent] for parent in self.parent[nodes].tolist()]
            candidates = self.drafter.expand(self.token[nodes], np.array(above, np.int32), width)
        self.steps += 1
        self._number |= {node: len(self._number) + place for place, node in enumerate(nodes.tolist())}
        return candidates

    def scores(self, nodes: Nodes, candidates: Candidates) -> Scores:
        """The score `[nodes, width]` of every candidate below `nodes`; means nothing where there is none."""
        edge = candidates.logprob
        if not self.drafter.gives_logprobs:
            edge = np.array([[rank_logprob(rank) for rank in range(edge.shape[1])]], np.float64)
        return np.asarray(self.score[nodes][:, None] + edge, np.float64)

    def add(self, nodes: Nodes, candidates: Candidates, wanted: NDArray[np.bool_] | None = None) -> Nodes:
        """Adds the candidates below `nodes` that are `wanted` `[nodes, width]` (None: all there are); the new nodes."""
        there = candidates.token >= 0
        taken = there if wanted is None else there & wanted
        before = len(self)
        self.score = np.concatenate([self.score, self.scores(nodes, candidates)[taken]])
        self.token = np.concatenate([self.token, candidates.token[taken]])
        self.parent = np.concatenate([self.parent, nodes[np.nonzero(taken)[0]]])
        self.logprob = np.concatenate([self.logprob, candidates.logprob[taken]])
        return np.arange(before, len(self))

    def best(self, count: int, among: Nodes | None = None) -> Nodes:
        """The `count` highest scores among the given nodes (None: all but the root), as ascending node indices.

        Ties go to the earlier node, so the best of all always come with their parents.
        """
        nodes = np.arange(1, len(self)) if among is None else among
        order = np.argsort(-self.score[nodes], kind="stable")[:count]
        return np.sort(nodes[order])

    def tree(self, kept: Nodes) -> Tree:
        """The tree of the root and the nodes `kept`: ascending, without the root, none without its parent."""
        kept = np.concatenate([ROOT, kept])
        place = np.full(len(self), -1)
        place[kept] = np.arange(len(kept))
        parent = np.where(kept == 0, -1, place[self.parent[kept]])
        source = np.where(kept == 0, int(Source.ROOT), int(self.drafter.source))
        return Tree(self.token[kept], parent, self.logprob[kept], source)


def grow_beams(
    drafter: StepwiseDrafter, root: int, depth: int, width: int, go_on: Callable[[int, Scores], bool]
) -> Expansion:
    """EAGLE-2's expansion phase (section 4.1): the `width` best children of each of the `width` best nodes of a depth.

    All of them stay candidates; the next depth starts from the `width` best of the newest. After each depth but the
    last, `go_on(depth, scores)` is asked with the scores of that beam, `[at most width]`. At least one depth is
    drafted, at most `depth`.
    """
    expansion = Expansion(drafter, root)
    beam = ROOT
    for level in range(1, depth + 1):
        layer = expansion.add(beam, expansion.ask(beam, width))
        beam = expansion.best(width, layer)
        if not len(beam) or level == depth or not go_on(level, expansion.score[beam]):
            break
    return expansion


def require_scoring(drafter: Drafter | None, title: str) -> StepwiseDrafter:
    """The drafter, as one that `title` can work with: stepwise, with log-probabilities; else raises Incompatible."""
    if not isinstance(drafter, StepwiseDrafter) or not drafter.gives_logprobs:
        raise Incompatible(
            f"{title} needs a stepwise drafter that gives log-probabilities.", "Choose a small language model."
        )
    return drafter

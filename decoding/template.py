"""Static templates over successor ranks (Token Recycling, section 3; Graft, Appendix A.1, Equation 15).

A template is a tree whose nodes hold no tokens but ranks: "the second-best successor of my parent". A drafter fills
it with tokens, depth by depth. The papers state the width of every depth; what stands inside a depth follows one
rule here: a path of ranks r_1, r_2, ... (from 1) costs the product of its ranks, and every depth keeps its cheapest
paths. Good ranks thus get more children and go deeper, as both papers ask. With Token Recycling's widths depth 3
ends in 6-1-1 and depth 5 in 2-1-1-1-1, just as in the tree that its authors publish.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels.filling import Shape
from decoding.kernels.kinship import by_parent
from decoding.tree import depths
from decoding.types import Floats, Ints, Source, Tree, frozen_array

RECYCLE_WIDTHS = (8, 21, 25, 15, 8, 3)
"""Nodes at depths 1, 2, ... of Token Recycling's tree: 80 in all."""
CHOICES = 8
"""Successors kept of every token, by Token Recycling and by Graft."""
DEPTH_COST = 1.5
"""What one more depth costs beside the rank. With 1.5 the 80 cheapest paths of all have the widths
8/21/25/19/6/1, the closest this rule comes to `RECYCLE_WIDTHS`."""

Path = tuple[int, ...]


class Drawing(NamedTuple):
    """How candidates are drawn for all places of a template that have children, depth by depth: at each depth every
    place draws as many as the one with the most children."""

    shapes: NDArray[np.int64]
    """`[depths, 2]` places that draw, and how many draws each of them has."""
    first: NDArray[np.int64]
    """`[nodes]` where the draws of each place begin among all draws; -1 where there are none."""
    depth: Ints
    """`[nodes]` from 0; -1 where there are none."""
    row: NDArray[np.int64]
    """`[draws]` the depth of each."""


@dataclass(frozen=True, eq=False)
class Template:
    """A tree of ranks, node 0 the root, nodes ordered depth by depth."""

    parent: Ints
    """`[nodes]` as in `types.Tree`."""
    rank: Ints
    """`[nodes]` which of its parent's candidates a node takes, from 0; 0 at the root."""
    levels: tuple[slice, ...] = field(init=False)
    """The nodes of depth 1, 2, ... as slices."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parent", frozen_array(self.parent, np.int32))
        object.__setattr__(self, "rank", frozen_array(self.rank, np.int32))
        depth = depths(self.parent)
        if (np.diff(depth) < 0).any():
            raise ValueError("the nodes of a template must be ordered by depth")
        edges = np.searchsorted(depth, np.arange(1, depth[-1] + 2)).tolist()
        object.__setattr__(self, "levels", tuple(slice(*ends) for ends in pairwise(edges)))

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def shape(self) -> Shape:
        """The children of every node, in index order."""
        return Shape(*by_parent(self.parent))

    @cached_property
    def drawing(self) -> Drawing:
        """See `Drawing`."""
        count, levels = np.diff(self.shape.start), (slice(0, 1), *self.levels)
        shapes: list[tuple[int, int]] = []
        first, at_depth, total = np.full(len(self), -1, np.int64), np.full(len(self), -1, np.int32), 0
        for depth, level in enumerate(levels[:-1]):
            places = level.start + np.flatnonzero(count[level])
            most = int(count[places].max())
            first[places], at_depth[places] = total + most * np.arange(len(places)), depth
            shapes.append((len(places), most))
            total += len(places) * most
        row = np.repeat(np.arange(len(shapes)), [places * most for places, most in shapes])
        return Drawing(np.array(shapes, np.int64).reshape(-1, 2), first, at_depth, row)

    def cut(self, max_depth: int) -> "Template":
        """The template down to `max_depth`, at least 0."""
        if max_depth >= len(self.levels):
            return self
        count = self.levels[max_depth].start
        return Template(self.parent[:count], self.rank[:count])

    def places_in(self, larger: "Template") -> Ints:
        """Where each node stands in `larger` `[nodes]`; raises KeyError where that has no such path of ranks."""
        edges = zip(larger.parent[1:].tolist(), larger.rank[1:].tolist(), strict=True)
        index = {edge: node for node, edge in enumerate(edges, start=1)}
        places = [0]
        for above, rank in zip(self.parent[1:].tolist(), self.rank[1:].tolist(), strict=True):
            places.append(index[places[above], rank])
        return np.array(places, np.int32)

    def tree(self, token: Ints, logprob: Floats, source: Source) -> Tree:
        """The template filled with tokens and edge log-probabilities, both `[nodes]`, the root's included.

        A node without a token (-1) is left out, and with it all that stands below it.
        """
        kept = token >= 0
        for level in self.levels:
            kept[level] &= kept[self.parent[level]]
        place = np.cumsum(kept) - 1
        parent = np.where(self.parent < 0, -1, place[self.parent])[kept]
        sources = np.full(len(parent), source, np.uint8)
        sources[0] = Source.ROOT
        return Tree(token[kept], parent, np.where(np.arange(len(parent)) == 0, 0.0, logprob[kept]), sources)


def rank_logprob(rank: int, depth_cost: float = DEPTH_COST) -> float:
    """What one edge weighs where the source gives no probability; `rank` from 0. Always below 0."""
    return -math.log((rank + 1) * depth_cost)


def template_of_widths(widths: Sequence[int], choices: int = CHOICES) -> Template:
    """The template with `widths[d]` nodes at depth d + 1, the cheapest paths of each depth (ties: by ranks).

    Widths (2, 3) with choices 2: paths 1, 2; then 1-1 (cost 1), 1-2 and 2-1 (cost 2); 2-2 (cost 4) is left out.
    """
    return _from_paths(_paths_of_widths(widths, choices))


def scaled_template(widths: Sequence[int], budget: int, choices: int = CHOICES) -> Template:
    """The same template cut down or grown to `budget` nodes, the root not counted.

    Paths are ranked by cost times `DEPTH_COST` to the power of their depth: a smaller budget keeps the first of
    the template's own, a larger one adds the first of those outside it, no deeper than the template.
    """
    inside = sorted(_paths_of_widths(widths, choices), key=_priority)[:budget]
    chosen = set(inside)
    queue = [_priority((1,))]
    while queue and len(chosen) < budget:
        path = heapq.heappop(queue)[-1]
        chosen.add(path)
        if path[-1] < choices:
            heapq.heappush(queue, _priority((*path[:-1], path[-1] + 1)))
        if len(path) < len(widths):
            heapq.heappush(queue, _priority((*path, 1)))
    return _from_paths(chosen)


def likeliest_template(acceptance: Sequence[float], budget: int, depth: int) -> Template:
    """Sequoia's optimal static tree (arXiv 2402.12374, section 3.1): the most expected accepted tokens.

    `acceptance` `[ranks]` holds how often a node's k-th candidate is the accepted one; it must not rise, and ranks
    beyond it are not used. A node is reached with the product of its path's entries, and the expected number of
    accepted tokens is the sum of these over all nodes, so the `budget` nodes of highest
    product, no deeper than `depth`, are the best tree. They make a tree because no node exceeds its parent or an
    earlier sibling; Sequoia's dynamic program, which does not ask the entries to fall, then finds nothing better.

    With [.6, .3] and budget 3: 1 (.6), 1-1 (.36), 2 (.3), ahead of 1-1-1 (.216).
    """
    if any(later > earlier for earlier, later in pairwise(acceptance)):
        raise ValueError("the acceptance of later candidates must not exceed that of earlier ones")
    # A least path first: ties go to the shallower one, so that a parent at acceptance 1 still precedes its child.
    queue: list[tuple[float, int, Path]] = [(-acceptance[0], 1, (1,))] if depth > 0 else []
    chosen: list[Path] = []
    while queue and len(chosen) < budget:
        negated, length, path = heapq.heappop(queue)
        chosen.append(path)
        if path[-1] < len(acceptance):
            sibling = negated / acceptance[path[-1] - 1] * acceptance[path[-1]] if negated else 0.0
            heapq.heappush(queue, (sibling, length, (*path[:-1], path[-1] + 1)))
        if length < depth:
            heapq.heappush(queue, (negated * acceptance[0], length + 1, (*path, 1)))
    return _from_paths(chosen)


def _paths_of_widths(widths: Sequence[int], choices: int) -> list[Path]:
    found: list[Path] = []
    level: list[Path] = [()]
    for width in widths:
        below = [(*path, rank) for path in level for rank in range(1, choices + 1)]
        level = sorted(below, key=_priority)[:width]
        found += level
    return found


def _priority(path: Path) -> tuple[float, int, Path]:
    return math.prod(path) * DEPTH_COST ** len(path), len(path), path


def _from_paths(paths: set[Path] | list[Path]) -> Template:
    ordered: list[Path] = [(), *sorted(paths, key=lambda path: (len(path), path))]
    index = {path: node for node, path in enumerate(ordered)}
    return Template(
        np.array([-1] + [index[path[:-1]] for path in ordered[1:]]),
        np.array([0] + [path[-1] - 1 for path in ordered[1:]]),
    )

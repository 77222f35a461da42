"""Grafting: retrieved nodes put into a drafted tree, noting where each came from (Graft, Equations 10 and 11)."""

import heapq
from typing import Any, NamedTuple

import numpy as np

from decoding.template import CHOICES, Template, rank_logprob
from decoding.tree import TreeBuilder, cumulative_logprob, depths
from decoding.types import Ints, Source, Tree


class Grafted(NamedTuple):
    """A hybrid tree. The drafted nodes come first, in their own order."""

    tree: Tree
    grafts: dict[str, list[int]]
    """For every retrieved node of the tree its index `node`, the matrix `row` it was read from (its parent's token)
    and its `rank` in that row, from 0 (Equation 15)."""
    merged: list[int]
    """Drafted nodes that were retrieved as well: two proposals, one node."""

    def decision(self) -> dict[str, Any]:
        """For `Growth.decision`."""
        return {"grafts": self.grafts, "merged": self.merged}


def ungrafted(tree: Tree) -> Grafted:
    """The drafted tree alone."""
    return Grafted(tree, {"node": [], "row": [], "rank": []}, [])


def graft(tree: Tree, template: Template, token: Ints, given: Ints | None = None) -> Grafted:
    """Adds the nodes of a filled `template` to `tree`; its root is the tree's.

    `token` `[template nodes]` is -1 where the source knew none: such a node is left out, and all below it. Nodes with
    a `given` token stand for drafted ones and are only found again.
    """
    builder = TreeBuilder.of(tree)
    _, grafts, merged = ungrafted(tree)
    place = [0]
    known = [False] * len(template) if given is None else (given >= 0).tolist()
    edges = zip(template.parent.tolist(), template.rank.tolist(), token.tolist(), known, strict=True)
    for above, rank, value, drafted in list(edges)[1:]:
        parent = place[above]
        if value < 0 or parent < 0:
            place.append(-1)
            continue
        before = len(builder)
        node = builder.add(parent, value, source=Source.RETRIEVAL)
        place.append(node)
        if node == before:
            for name, number in (("node", node), ("row", builder.token[parent]), ("rank", rank)):
                grafts[name].append(number)
        elif not drafted:
            merged.append(node)
    return Grafted(builder.build(), grafts, merged)


class Tails(NamedTuple):
    """A drafted tree and places below its leaves, as a template."""

    template: Template
    given: Ints
    """`[template nodes]` the tokens of the drafted nodes; -1 for the others."""


def tails(tree: Tree, count: int, max_depth: int, choices: int = CHOICES) -> Tails:
    """Graft(TAIL): the `count` most promising places below the leaves of `tree`, none deeper than `max_depth`.

    The paper appends retrieval "to the ends of branches" and says no more. Here a place of ranks r_1, r_2 ... below a
    leaf weighs the leaf's probability under the drafter times that of the ranks (`template.rank_logprob`), and the
    heaviest are taken: the likeliest branch is continued furthest. Two leaves of .6 and .1 and three places: below the
    first 1 (.6/1.5), 1-1 (.6/2.25) and 2 (.6/3), none below the second (.1/1.5).
    """
    depth = depths(tree.parent)
    score = np.nan_to_num(cumulative_logprob(tree)).tolist()
    leaves = np.setdiff1d(np.arange(len(tree)), tree.parent[1:])
    parent, rank, level = tree.parent.tolist(), [0] * len(tree), depth.tolist()
    queue = [(-score[leaf] - rank_logprob(0), leaf, 0) for leaf in leaves.tolist() if level[leaf] < max_depth]
    heapq.heapify(queue)
    while queue and len(parent) < len(tree) + count:
        cost, above, number = heapq.heappop(queue)
        node = len(parent)
        parent.append(above)
        rank.append(number)
        level.append(level[above] + 1)
        if number + 1 < choices:
            heapq.heappush(queue, (cost + rank_logprob(number) - rank_logprob(number + 1), above, number + 1))
        if level[node] < max_depth:
            heapq.heappush(queue, (cost - rank_logprob(0), node, 0))
    order = np.argsort(level, kind="stable")
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    token = np.concatenate([tree.token, np.full(len(parent) - len(tree), -1)])[order]
    above = np.array(parent)[order]
    return Tails(Template(np.where(above < 0, -1, place[above]), np.array(rank)[order]), token.astype(np.int32))

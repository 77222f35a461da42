"""Pure tree arithmetic on numpy. Every function takes parent arrays as `types.Tree` holds them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import kinship
from decoding.types import Floats, Ints, Source, Tree


def depths(parent: Ints) -> Ints:
    """Depth of every node `[nodes]`; 0 at the root.

    All nodes step to their parents together, once per level. For parents [-1, 0, 1, 1]: [0, 1, 2, 2].
    """
    depth: Ints = np.count_nonzero(ancestor_lines(parent), axis=0).astype(np.int32)
    return depth


def ancestor_lines(parent: Ints) -> NDArray[np.int64]:
    """Every node's way up `[1 + deepest, nodes]`: row r holds the ancestor r steps above each node.

    Row 0 holds the nodes themselves. Ways that are at their end stay at the root, so the last row is all 0.
    For parents [-1, 0, 1]: [[0, 1, 2], [0, 0, 1], [0, 0, 0]].
    """
    up = np.maximum(parent, 0).astype(np.int64)
    lines = [np.arange(len(parent))]
    while lines[-1].any():
        lines.append(up[lines[-1]])
    return np.stack(lines)


def cumulative_logprob(tree: Tree) -> Floats:
    """Log-probability of the path from the root to every node `[nodes]`; NaN below an edge that has none."""
    total = tree.logprob.astype(np.float64)
    jump = np.maximum(tree.parent, 0)
    while jump.any():
        total = total + total[jump]  # the root's own is 0
        jump = jump[jump]
    return total.astype(np.float32)


def ancestors(parent: Ints) -> NDArray[np.bool_]:
    """Ancestor-or-self matrix `[nodes, nodes]`: entry (i, j) says that j lies on the path from the root to i."""
    count = len(parent)
    matrix = np.zeros((count, count), dtype=np.bool_)
    # A few entries per row are set, so writing these costs less than copying the parents' rows.
    matrix.reshape(-1)[ancestor_lines(parent) + np.arange(0, count * count, count)] = True
    return matrix


def path_to(parent: Ints, node: int) -> list[int]:
    """Node indices from the root to `node`, both included."""
    path = []
    while node >= 0:
        path.append(int(node))
        node = int(parent[node])
    return path[::-1]


def children(parent: Ints) -> list[list[int]]:
    """Children of every node, in index order."""
    lists: list[list[int]] = [[] for _ in parent]
    for node, above in enumerate(parent[1:].tolist(), start=1):
        lists[above].append(node)
    return lists


def child_with_token(tree: Tree, node: int, token: int) -> int | None:
    """The child of `node` that holds `token`, or None."""
    child = kinship.child_with_token(tree.parent, tree.token, node, token)
    return child if child > 0 else None


def accepted_path(tree: Tree, coming: Sequence[int]) -> list[int]:
    """Nodes from the root down, 0 first, along which `tree` holds the tokens `coming` after its root."""
    path = [0]
    for token in coming:
        child = child_with_token(tree, path[-1], token)
        if child is None:
            break
        path.append(child)
    return path


class TreeBuilder:
    """Grows a Tree node by node, merging a repeated child into the one that is there.

    >>> builder = TreeBuilder(root_token=7)
    >>> builder.add(parent=0, token=3, logprob=-0.5)
    1
    """

    def __init__(self, root_token: int) -> None:
        self.token = [int(root_token)]
        self.parent = [-1]
        self.logprob = [0.0]
        self.source = [int(Source.ROOT)]
        self._index: dict[tuple[int, int], int] = {}

    @classmethod
    def of(cls, tree: Tree) -> "TreeBuilder":
        """A builder that holds `tree`, to grow on."""
        builder = cls(int(tree.token[0]))
        builder.token, builder.parent = tree.token.tolist(), tree.parent.tolist()
        builder.logprob, builder.source = tree.logprob.tolist(), tree.source.tolist()
        edges = zip(builder.parent[1:], builder.token[1:], strict=True)
        builder._index = {edge: node for node, edge in enumerate(edges, start=1)}
        return builder

    def __len__(self) -> int:
        return len(self.token)

    def add(self, parent: int, token: int, logprob: float = float("nan"), source: Source = Source.DRAFT) -> int:
        """Index of the child of `parent` that holds `token`, added if it is new."""
        key = (parent, int(token))
        if key not in self._index:
            self._index[key] = len(self.token)
            self.token.append(int(token))
            self.parent.append(parent)
            self.logprob.append(float(logprob))
            self.source.append(int(source))
        return self._index[key]

    def build(self) -> Tree:
        return Tree(
            np.array(self.token, np.int32),
            np.array(self.parent, np.int32),
            np.array(self.logprob, np.float32),
            np.array(self.source, np.uint8),
        )

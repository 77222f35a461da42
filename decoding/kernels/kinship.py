"""Parents and children in a tree, in one pass each."""

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled
from decoding.types import Ints

Places = NDArray[np.int64]


@compiled
def by_parent(parent: Ints) -> tuple[Places, Places]:
    """All nodes but the root `[nodes - 1]`, the children of node 0 first, each one's in index order; and before them
    where those of every node begin `[nodes + 1]`. For parents [-1, 0, 1, 0]: [0, 2, 3, 3, 3] and [1, 3, 2]."""
    count = len(parent)
    start, below = np.zeros(count + 1, np.int64), np.empty(max(count - 1, 0), np.int64)
    for node in range(1, count):
        start[parent[node] + 1] += 1
    for node in range(count):
        start[node + 1] += start[node]
    free = start.copy()
    for node in range(1, count):
        below[free[parent[node]]] = node
        free[parent[node]] += 1
    return start, below


@compiled
def child_with_token(parent: Ints, token: Ints, node: int, wanted: int) -> int:
    """The child of `node` that holds the token `wanted`; -1 where there is none."""
    for child in range(node + 1, len(parent)):
        if parent[child] == node and token[child] == wanted:
            return child
    return -1

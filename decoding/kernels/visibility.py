"""Tree attention (DDTree, section 4.4): depths, and the places of the mask that a tree's nodes see."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled
from decoding.types import Ints


class Numbers(NamedTuple):
    """All that a tree's layout takes to the device, in one array."""

    values: NDArray[np.int64]
    """`[2 * nodes + entries]`: token ids, then positions, then places of the flat mask."""
    deepest: int
    """Depth of the deepest node."""


@compiled
def tree_numbers(token: Ints, parent: Ints, past: int, width: int) -> Numbers:
    """Ids, positions and mask entries of a tree `[nodes]` behind `past` positions, its mask `width` columns wide.

    A node sees its ancestors and itself at `row * width + past + column`; the root, which all see, is left out.
    With past 2, width 16, parents [-1, 0, 1] and tokens [7, 8, 9]: [7 8 9 | 2 3 4 | 19 36 35].
    """
    count = len(parent)
    depth = np.zeros(count, np.int64)
    entries, deepest = 0, 0
    for node in range(1, count):
        depth[node] = depth[parent[node]] + 1
        entries += depth[node]
        deepest = max(deepest, depth[node])
    values = np.empty(2 * count + entries, np.int64)
    filled = 2 * count
    for node in range(count):
        values[node], values[count + node] = token[node], past + depth[node]
        seen = node
        while seen > 0:
            values[filled] = node * width + past + seen
            filled += 1
            seen = parent[seen]
    return Numbers(values, deepest)

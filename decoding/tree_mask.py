"""The additive attention mask of a tree, in a buffer that lives through a run."""

import numpy as np
import torch
from torch import Tensor

from decoding.tree import ancestor_lines
from decoding.types import Ints


class TreeMask:
    """Tree attention (DDTree, section 4.4) as an additive float32 mask: 0 where a node may look, -inf elsewhere.

    A tree leaves only a few zeros in each row, so filling the matrix costs far more than writing them. The buffer is
    filled once; after that each tree puts back what the last one wrote. The past, which every node sees, lies to the
    left of the tree's columns: a longer past is a wider view, and nothing is moved.

    Attributes:
        nodes: the most nodes a tree may have, the root counted.
        past: the most committed positions before the root.
    """

    def __init__(self, nodes: int, past: int = 0) -> None:
        self.nodes, self.past = nodes, past
        self._buffer = torch.zeros(nodes, past + nodes)
        self._buffer[:, past:] = float("-inf")
        self._buffer[:, past] = 0.0  # every node sees the root, and itself, whatever the tree
        self._buffer[:, past:].fill_diagonal_(0.0)
        self._entries: np.ndarray[tuple[int], np.dtype[np.float32]] = self._buffer.numpy().reshape(-1)
        self._written = np.zeros(0, np.int64)

    def write(self, parent: Ints, past: int = 0) -> Tensor:
        """The mask `[nodes, past + nodes]` of one tree: a view, on the host, that the next call overwrites.

        Raises:
            ValueError: the tree or the past is larger than the buffer was made for.
        """
        count = len(parent)
        if count > self.nodes or past > self.past:
            raise ValueError(f"the mask has room for {self.nodes} nodes after {self.past}, not {count} after {past}")
        width = self.past + self.nodes
        lines = ancestor_lines(parent)[1:]
        entries = lines + np.arange(self.past, self.past + count * width, width)
        self._entries[self._written] = -np.inf
        self._written = entries[lines > 0]
        self._entries[self._written] = 0.0
        return self._buffer[:count, self.past - past : self.past + count]

"""The additive attention mask of a run's trees, in one buffer on the device."""

import torch
from torch import Tensor


class TreeMask:
    """Tree attention (DDTree, section 4.4) as an additive mask: 0 where a node may look, -inf elsewhere.

    A tree leaves only a few zeros in each row, so filling the matrix costs far more than writing them. The buffer is
    filled once; after that each tree takes back what the last one wrote. The committed text and the root after it,
    which every node sees, stand to the left and only grow, so that their columns are cleared just once.
    """

    def __init__(self, nodes: int, columns: int, dtype: torch.dtype, device: torch.device) -> None:
        """Room for trees of `nodes` (the root counted) and for `columns` of committed text and nodes together."""
        self.nodes = nodes
        self.device = device
        # Rows start at multiples of 16 entries, which is what the memory-efficient CUDA kernel asks for.
        self.width = -(-columns // 16) * 16
        self._buffer = torch.full((nodes, self.width), float("-inf"), dtype=dtype, device=device)
        self._entries = self._buffer.view(-1)
        self._written = torch.zeros(0, dtype=torch.int64, device=device)
        self._past = 0

    def write(self, entries: Tensor, count: int, past: int) -> Tensor:
        """The mask `[1, 1, count, past + count]` of one tree: a view that the next call overwrites.

        `entries` are the places `row * width + past + column` that are seen beside the root, on the device; `past`
        never shrinks.
        Raises ValueError where the tree or the text is larger than the buffer was made for.
        """
        if count > self.nodes or past + count > self.width or past < self._past:
            raise ValueError(f"no room for {count} nodes behind {past} in a mask of {self.nodes} x {self.width}")
        self._entries.index_fill_(0, self._written, float("-inf"))
        self._buffer[:, self._past : past + 1] = 0.0
        self._entries.index_fill_(0, entries, 0.0)
        self._written, self._past = entries, past
        return self._buffer[None, None, :count, : past + count]

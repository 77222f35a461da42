"""Rotary embeddings that a model of transformers gives to positions, looked up instead of computed at every pass.

A pass over a few rows would spend as long on its sines as on a layer, and torch shares more than a few between threads,
which then go on looking for work on the cores that the kernels' threads need.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from decoding.types import Floats

FIRST = 2048
"""Positions of the first table; a later one is twice as long."""


class HostRotary:
    """Cosines and sines `[rows, head_dim]` of positions, the first half of the sines negated."""

    def __init__(self, module: Any) -> None:
        """`module` is the model's own rotary embedding."""
        self._module = module
        # As in transformers: these change their frequencies with the length of the text.
        self._fixed = "dynamic" not in module.rope_type and module.rope_type != "longrope"
        self._tables: tuple[Floats, Floats] = (np.empty(0, np.float32),) * 2

    def __call__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Of `positions` `[rows]` int64."""
        if not self._fixed:
            return self._computed(positions)
        needed, (cos, sin) = int(positions.max()) + 1, self._tables
        if needed > len(cos):
            cos, sin = (table.numpy() for table in self._computed(torch.arange(max(FIRST, 2 * needed))))
            self._tables = cos, sin
        rows = positions.numpy()  # numpy keeps to this thread
        return torch.from_numpy(cos[rows]), torch.from_numpy(sin[rows])

    def _computed(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = (table[0] for table in self._module(torch.empty(0), positions[None]))
        sin[:, : sin.shape[1] // 2].neg_()
        return cos, sin

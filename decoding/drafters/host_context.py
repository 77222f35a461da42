"""How a DFlash drafter on a CPU reads what was committed, by the kernels."""

from typing import Any

import numpy as np
from torch import Tensor, nn

from decoding.host_layers import HostLayers
from decoding.kernels.context import READING_STEPS, Reading, read_context
from decoding.kernels.crew import new_marks, run_together


class HostContext:
    """Features to the keys and values of all layers; float32. A row's numbers do not depend on what is read with it."""

    def __init__(self, layers: HostLayers, fc: nn.Linear, norm: nn.RMSNorm) -> None:
        self._layers = layers
        self._fc = fc.weight.detach().contiguous()  # kept alive: the kernel knows its address alone
        self._norm = norm.weight.detach().numpy()

    def read(self, features: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor, past: int) -> None:
        """Writes what `features` `[rows, taps * hidden]` give behind `past` of keys and values `[layers, kv_heads,
        capacity, head_dim]`; `cos` and `sin` `[rows, head_dim]` as for `HostLayers.run`."""
        rows, (layers, kv_heads, _, head_dim) = len(features), keys.shape

        def room(width: int) -> Any:
            return np.empty((rows, width), np.float32)

        run = Reading(
            features=features.contiguous().numpy(),
            fc=self._fc.data_ptr(),
            norm=self._norm,
            cos=cos.numpy(),
            sin=sin.numpy(),
            keys=keys.numpy(),
            values=values.numpy(),
            past=past,
            context=room(self._layers.hidden),
            kv=room(layers * 2 * kv_heads * head_dim),
            marks=new_marks(READING_STEPS),
        )
        run_together(read_context, self._layers.weights, run)

"""How a DFlash drafter on a CPU drafts, by the kernels."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from decoding.drafters.block_diffusion_model import BlockDiffusionModel
from decoding.drafters.network import Head, Rotation
from decoding.host_layers import HostLayers, kernels_suit, narrowed
from decoding.host_rows import new_found, new_table, nothing_asked, show_odd
from decoding.kernel_linear import KernelLinear
from decoding.kernels.block import Projection, draft_block
from decoding.kernels.context import READING_STEPS, Reading
from decoding.kernels.crew import new_marks, run_together
from decoding.kernels.reading import Found


def host_block(model: BlockDiffusionModel, head: Head) -> "HostBlock | None":
    """The kernels' way through a float32 model on a CPU whose blocks see everything, and through a head of the
    kernels; None where they cannot do what these do."""
    config, weight = model.config, model.fc.weight
    suits = kernels_suit(weight.device, weight.dtype, config.activation)
    scaled = config.output_multiplier != 1.0 or config.logit_softcap is not None
    sees_all = not any(config.causal) and all(window is None for window in config.windows)
    if not (suits and sees_all and isinstance(head, KernelLinear)) or scaled or getattr(head, "bias", None) is not None:
        return None
    return narrowed(model, lambda: HostBlock(model, head))


class Draft(NamedTuple):
    """What became of a block."""

    logits: Tensor
    """Float32 `[positions, kept]`."""
    found: Found
    """What was read of them."""
    states: Tensor
    """`[positions, hidden]` what the head read."""


class HostBlock:
    """See `host_block`."""

    def __init__(self, model: BlockDiffusionModel, head: KernelLinear) -> None:
        """Raises AttributeError for layers that are built in another way."""
        self._layers = HostLayers(list(model.layers), model.norm, model.config.head_dim**-0.5)
        self._fc = model.fc.weight.detach()  # kept alive: the kernel knows its address alone
        self._norm = model.hidden_norm.weight.detach().numpy()
        self._head = head.matrix

    def draft(
        self, features: Tensor, block: Tensor, rotation: Rotation, slabs: Tensor, past: int, mask: Tensor, k: int
    ) -> Draft:
        """Writes what `features` `[rows, taps * hidden]` give behind `past` of the keys and values `slabs`
        `[2, layers, kv_heads, capacity, head_dim]`, denoises `block` `[positions + 1, hidden]`, which is written on,
        behind that, and reads the `k` largest of its logits.

        `rotation` is that of the positions of both; `mask` is a row of zeros for what the block sees.
        """
        rows, (layers, kv_heads, _, head_dim) = len(features), slabs.shape[1:]
        keys, values = slabs

        def room(rows: int, width: int) -> Any:
            return np.empty((rows, width), np.float32)

        reading = Reading(
            features=features.numpy(),
            fc=self._fc.data_ptr(),
            norm=self._norm,
            cos=rotation.cos[:rows].numpy(),
            sin=rotation.sin[:rows].numpy(),
            keys=keys.numpy(),
            values=values.numpy(),
            past=past,
            context=room(rows, self._layers.hidden),
            kv=room(rows, layers * 2 * kv_heads * head_dim),
            marks=new_marks(READING_STEPS),
        )
        cos, sin = rotation.cos[rows:], rotation.sin[rows:]
        denoising = self._layers.new_pass(block, cos, sin, keys, values, past + rows, mask.expand(len(block), -1))
        logits = room(len(block) - 1, len(self._head))
        head = Projection(self._head.ctypes.data, self._head.itemsize, new_marks(1))
        found = new_found(len(logits), min(k, logits.shape[1]))
        table = new_table(found, nothing_asked(len(logits)), logits)
        run_together(draft_block, self._layers.weights, reading, denoising, head, table)
        draft = Draft(torch.from_numpy(logits), found, torch.from_numpy(denoising.final[1:]))
        show_odd(found, draft.logits)
        return draft

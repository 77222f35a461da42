"""How a DFlash drafter on a CPU drafts, by the kernels."""

from typing import NamedTuple

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
from decoding.kernels.pieces import Doubles, room_for_sums
from decoding.kernels.reading import Found, Softening
from decoding.types import Floats


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
    probs: Tensor
    """As the logits: their softmax, if a temperature was given for it."""
    mass: Doubles
    """Its sums, piece by piece."""


class HostBlock:
    """See `host_block`."""

    def __init__(self, model: BlockDiffusionModel, head: KernelLinear) -> None:
        """Raises AttributeError for layers that are built in another way."""
        self.layers = HostLayers(list(model.layers), model.norm, model.config.head_dim**-0.5)
        self.fc = model.fc.weight.detach()
        """Kept alive here: the kernel knows its address alone."""
        self.norm: Floats = model.hidden_norm.weight.detach().numpy()
        self.head = head.matrix


class HostDrafts:
    """The drafts of one run. What they write on is allocated once: a round has better things to do."""

    def __init__(self, host: HostBlock, slabs: Tensor, rotation: Rotation, block: int) -> None:
        """Keys and values `slabs` `[2, layers, kv_heads, capacity, head_dim]` of the context, with room for a `block`
        of positions behind it, and the `rotation` of all positions."""
        self._host = host
        self._keys, self._values = (slab.numpy() for slab in slabs)
        self._cos, self._sin = rotation.cos.numpy(), rotation.sin.numpy()
        self._all_seen = torch.zeros(slabs.shape[3]).expand(block, -1)
        """An additive mask."""
        first, blank = rotation[:block], torch.empty(block, host.layers.hidden)
        self._pass = host.layers.new_pass(blank, first.cos, first.sin, slabs[0], slabs[1], 0, self._all_seen)
        self._logits = np.empty((block - 1, len(host.head)), np.float32)
        self._probs, self._mass = np.empty_like(self._logits), room_for_sums(*self._logits.shape)
        self._asked = nothing_asked(block - 1)

    def draft(self, features: Tensor, block: Tensor, past: int, k: int, temperature: float = 0.0) -> Draft:
        """Writes what `features` `[rows, taps * hidden]` give behind `past` of the keys and values, denoises `block`
        `[positions + 1, hidden]`, which is written on, behind that, reads the `k` largest of its logits, and takes
        their softmax at a `temperature` above 0.

        Logits and probabilities are good until the next draft.
        """
        host, rows, end = self._host, len(features), past + len(features)
        layers, kv_heads, _, head_dim = self._keys.shape
        reading = Reading(
            features=features.numpy(),
            fc=host.fc.data_ptr(),
            norm=host.norm,
            cos=self._cos[past:end],
            sin=self._sin[past:end],
            keys=self._keys,
            values=self._values,
            past=past,
            context=np.empty((rows, host.layers.hidden), np.float32),
            kv=np.empty((rows, layers * 2 * kv_heads * head_dim), np.float32),
            marks=new_marks(READING_STEPS),
        )
        ahead = slice(end, end + len(block))
        denoising = self._pass._replace(
            x=block.numpy(),
            cos=self._cos[ahead],
            sin=self._sin[ahead],
            past=end,
            marks=np.zeros_like(self._pass.marks),  # a late thread of the last draft still looks at its own
        )
        head = Projection(host.head.ctypes.data, host.head.itemsize, new_marks(1))
        found = new_found(len(self._logits), min(k, self._logits.shape[1]))
        table = new_table(found, self._asked, self._logits)
        softening = Softening(float(temperature), self._probs, self._mass, new_marks(1))
        run_together(draft_block, host.layers.weights, reading, denoising, head, table, softening)
        states = torch.from_numpy(denoising.final[1:].copy())
        draft = Draft(torch.from_numpy(self._logits), found, states, torch.from_numpy(self._probs), self._mass)
        show_odd(found, draft.logits)
        return draft

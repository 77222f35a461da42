"""Medusa (Cai et al., arXiv 2401.10774), section 2.1.1: extra heads on the target's last hidden state, as a drafter.

The paper's h_t is the target's final hidden state at position t: after the last norm, what the target's own head
reads. That head tells token t + 1 from it, and head k = 1 .. K tells token t + k + 1. In a round of ours the last
position that the target has read is t, and the root stands at t + 1: it was chosen from that same h_t and has not been
read yet. So head k tells the token k places after the root, and row i of the marginals is head i + 1: there is nothing
to shift. (The published code is the same: its tree hangs below the token that the target's head chose, and training
compares head number i, counted from 0, with the token i + 2 places on.)

    position     t - 1   t     t + 1   t + 2    t + 3
    read         yes     yes   no
    told by              h_t:  target  head 1   head 2
    here                       root    row 0    row 1

No head knows the root: the marginals of a round are the same whatever was chosen. Where the checkpoint's heads have no
matrices to the vocabulary, the target's head reads their states, its soft cap included.
"""

from pathlib import Path

import torch
from torch import Tensor

from decoding.drafters.base import Observation, OnePassDrafter
from decoding.drafters.checkpoint import checkpoint_folder, fill_module
from decoding.drafters.fitting import Fitting
from decoding.drafters.medusa_config import MedusaConfig
from decoding.drafters.medusa_model import MedusaModel
from decoding.drafters.network import Head
from decoding.drafters.target_states import tapped
from decoding.marginals import top_marginals
from decoding.types import Marginals


class MedusaDrafter(OnePassDrafter):
    """Loaded Medusa heads. Of a run they keep one hidden state: that of the last committed position."""

    def __init__(self, model: MedusaModel, target_head: Head, vocab_size: int, target_layers: int, name: str) -> None:
        """`target_head` is read where the heads of `model` have no matrices of their own."""
        self.model = model
        self.config = model.config
        self.name = name
        self.vocab_size = vocab_size
        self.taps = (target_layers,)  # the last hidden state is the one after the final norm
        self.positions = self.config.heads
        self._target_head = target_head
        weight = next(model.parameters())
        self._dtype, self._device = weight.dtype, weight.device
        self._last: Tensor | None = None

    def begin(self, capacity: int) -> None:
        """Forgets the last run; nothing here grows with `capacity`."""
        self._last = None

    @torch.inference_mode()
    def observe(self, observation: Observation) -> None:
        """Keeps the hidden state of the last committed token; raises Incompatible for features of another width."""
        rows = len(observation.tokens)
        if rows:
            features = tapped(self, observation.features, rows, self.config.hidden)
            # A copy: a view would keep the features of the whole prompt.
            self._last = features[-1:].to(self._device, self._dtype, copy=True)

    def marginals(self, root: int, k: int) -> Marginals:
        """The top `min(k, vocab)` of each of the `positions` after the root, whatever that is."""
        return top_marginals(self.logits(root), k)

    @torch.inference_mode()
    def logits(self, root: int) -> Tensor:
        """Float32 logits `[positions, vocab]` on the device; the same for every root."""
        if self._last is None:
            raise RuntimeError("begin() and observe() come first")
        found: Tensor = self.model(self._last)
        return (found if self.config.own_output else self._target_head(found)).float()

    def end(self) -> None:
        self._last = None


def load_medusa(source: str | Path, fitting: Fitting, target_head: Head, *, name: str | None = None) -> MedusaDrafter:
    """Loads published Medusa heads from a folder or a Hub id.

    `medusa_config` tells the layouts. Only safetensors are read: the heads that are published as `medusa_lm_head.pt`
    alone have to be converted first. Raises ModelUnavailable (nothing there, unreadable, pickled), UnsupportedModel (a
    config or tensors that are not implemented) or Incompatible (made for another target, told before the weights are
    read).
    """
    folder = checkpoint_folder(source)
    config = MedusaConfig.from_folder(folder)
    config.check_target(fitting.hidden, fitting.vocab)
    with torch.device("meta"):
        model = MedusaModel(config, fitting.vocab)
    fill_module(model, folder, fitting.dtype, fitting.device, config.module_name)
    return MedusaDrafter(model, target_head, fitting.vocab, fitting.layers, name or Path(source).name)

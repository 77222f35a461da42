"""A whole Llama-like model of transformers on a CPU, run by the kernels where they give what it gives."""

from typing import Any

import torch
from torch import Tensor

from decoding.host_layers import FAMILIES, HostLayers, kernels_suit
from decoding.host_rotary import HostRotary
from decoding.kv_cache import PreallocatedCache
from decoding.large_pages import gather
from decoding.layout import Layout
from decoding.types import Floats

PROBE = 5
"""Rows on which the kernels and transformers must agree before the kernels are used."""


def host_body(model: Any) -> "HostBody | None":
    """The kernels' way through `model`, or None where they cannot do what it does, or do not give what it gives."""
    config = model.config.get_text_config(decoder=True)
    if config.model_type not in FAMILIES or not kernels_suit(model.device, model.dtype, config.hidden_act):
        return None
    gather(model)
    try:
        body = HostBody(model)
    except AttributeError:
        return None
    return body if body.agrees() else None


class HostBody:
    """Weights gathered once; see `host_body`."""

    def __init__(self, model: Any) -> None:
        self.model = model.base_model
        attention = self.model.layers[0].self_attn
        self.layers = HostLayers(list(self.model.layers), self.model.norm, float(attention.scaling))
        self.embedding: Floats = self.model.embed_tokens.weight.detach().numpy()
        self.rotary = HostRotary(self.model.rotary_emb)
        self.kv_heads: int = attention.k_proj.out_features // attention.head_dim

    def forward(self, layout: Layout, cache: PreallocatedCache, taps: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
        """As `Target.forward`, for layers that see everything; behind `cache.length`, which it leaves as it is."""
        x = torch.from_numpy(self.embedding[layout.input_ids[0].numpy()])
        cos, sin = self.rotary(layout.position_ids[0])
        keys, values = cache.slabs(x.new_empty(1, self.kv_heads, 0, self.layers.head_dim))
        mask = None if layout.masks is None else layout.masks[None][0, 0]
        return self.layers.run(x, cos, sin, keys, values, cache.length, mask, taps)

    @torch.inference_mode()
    def agrees(self) -> bool:
        """Whether a few rows come out as transformers computes them, but for rounding."""
        ids = torch.arange(PROBE)[None] % self.model.embed_tokens.num_embeddings
        expected = self.model(input_ids=ids, use_cache=False).last_hidden_state[0]
        layout = Layout(ids, torch.arange(PROBE)[None], None)
        given, _ = self.forward(layout, PreallocatedCache(PROBE, len(self.model.layers)), ())
        scale = float(expected.nan_to_num().abs().max())
        return torch.allclose(given, expected, rtol=1e-3, atol=1e-3 * scale, equal_nan=True)

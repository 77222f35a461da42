"""The network of DFlash (arXiv 2602.06036): a few Qwen3 layers that read the target's hidden states as context.

Queries come from the block alone; keys and values from the context and the block. The context is projected once,
when it is committed, and kept; the block's keys and values are overwritten in every round. There is no batch axis.
Module names are those of the published checkpoints, so a state dict fits as it is.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from decoding.drafters.block_diffusion_config import BlockDiffusionConfig
from decoding.drafters.network import GatedMLP, Rotation


def block_mask(window: int | None, causal: bool, block: int, length: int, device: torch.device) -> Tensor | None:
    """Which of the last `length` keys each row of the block sees: bool `[block, length]`, or None when all are seen.

    The block's own keys are the last `block` columns. Only distances matter, so the mask of a shorter context is the
    right part of this one, and one mask serves the whole run. For block 2 and window 2, causal, length 4:
    row 0 sees the block's first key and the one before it: 0 1 1 0; row 1 sees both of the block: 0 0 1 1.
    """
    if window is None and not causal:
        return None
    row = torch.arange(block, device=device)[:, None] + (length - block)
    distance = row - torch.arange(length, device=device)
    seen = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
    return seen if window is None else seen & (distance.abs() < window)


class Attention(nn.Module):
    """Attention of one layer; `[rows, hidden]` in and out."""

    def __init__(self, config: BlockDiffusionConfig) -> None:
        super().__init__()
        self.kv_heads, self.head_dim = config.kv_heads, config.head_dim
        hidden, bias = config.hidden, config.attention_bias
        self.q_proj = nn.Linear(hidden, config.heads * config.head_dim, bias=bias)
        self.k_proj = nn.Linear(hidden, config.kv_heads * config.head_dim, bias=bias)
        self.v_proj = nn.Linear(hidden, config.kv_heads * config.head_dim, bias=bias)
        self.o_proj = nn.Linear(config.heads * config.head_dim, hidden, bias=bias)
        self.q_norm = nn.RMSNorm(config.head_dim, eps=config.norm_eps)
        self.k_norm = nn.RMSNorm(config.head_dim, eps=config.norm_eps)

    def write(self, states: Tensor, cache: Tensor, start: int, rotation: Rotation) -> None:
        """Puts keys and values of `states` `[rows, hidden]` at `start` of `cache` `[2, kv_heads, length, head_dim]`."""
        rows = states.shape[0]
        keys = self.k_norm(self.k_proj(states).view(rows, self.kv_heads, self.head_dim))
        cache[0, :, start : start + rows] = rotation.apply(keys).transpose(0, 1)
        cache[1, :, start : start + rows] = self.v_proj(states).view(rows, self.kv_heads, self.head_dim).transpose(0, 1)

    def forward(self, states: Tensor, seen: Tensor, rotation: Rotation, mask: Tensor | None) -> Tensor:
        """Attends from `states` `[rows, hidden]` to the keys and values `seen` `[2, kv_heads, length, head_dim]`."""
        rows = states.shape[0]
        query = rotation.apply(self.q_norm(self.q_proj(states).view(rows, -1, self.head_dim)))
        # Query heads that share a key head become more rows of it: no repeated keys and no special kernel.
        query = query.transpose(0, 1).reshape(1, self.kv_heads, -1, self.head_dim)
        if mask is not None:
            mask = mask.repeat(query.shape[2] // rows, 1)
        out = functional.scaled_dot_product_attention(query, seen[None, 0], seen[None, 1], attn_mask=mask)
        joined = out.view(-1, rows, self.head_dim).transpose(0, 1).reshape(rows, -1)
        result: Tensor = self.o_proj(joined)
        return result


class Layer(nn.Module):
    """One layer: attention over context and block, then the feed-forward part, each with its norm and residual."""

    def __init__(self, config: BlockDiffusionConfig, index: int) -> None:
        super().__init__()
        self.window, self.causal = config.windows[index], config.causal[index]
        self.self_attn = Attention(config)
        self.mlp = GatedMLP(config)
        self.input_layernorm = nn.RMSNorm(config.hidden, eps=config.norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden, eps=config.norm_eps)

    def forward(self, block: Tensor, cache: Tensor, start: int, rotation: Rotation, mask: Tensor | None) -> Tensor:
        """`block` `[rows, hidden]` after `start` cached context positions; overwrites `cache` from `start` on."""
        states = self.input_layernorm(block)
        end = start + block.shape[0]
        self.self_attn.write(states, cache, start, rotation)
        first = 0 if self.window is None else max(0, start - self.window + 1)
        seen_mask = None if mask is None else mask[:, mask.shape[1] - (end - first) :]
        block = block + self.self_attn(states, cache[:, :, first:end], rotation, seen_mask)
        result: Tensor = block + self.mlp(self.post_attention_layernorm(block))
        return result


class BlockDiffusionModel(nn.Module):
    """The drafter without embedding and head, which are the target's."""

    def __init__(self, config: BlockDiffusionConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(len(config.target_layer_ids) * config.hidden, config.hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(config.hidden, eps=config.norm_eps)
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.layers))
        self.norm = nn.RMSNorm(config.hidden, eps=config.norm_eps)

    def remember(self, features: Tensor, cache: Tensor, start: int, rotation: Rotation) -> None:
        """Appends context: `features` `[rows, taps * hidden]` to `cache` `[layers, 2, kv_heads, length, head_dim]`.

        `rotation` is that of the rows. The context gets no input_layernorm: hidden_norm is all.
        """
        context = self.hidden_norm(self.fc(features))
        for layer, layer_cache in zip(self.layers, cache, strict=True):
            layer.self_attn.write(context, layer_cache, start, rotation)  # type: ignore[union-attr, operator]

    def forward(
        self, block: Tensor, cache: Tensor, start: int, rotation: Rotation, masks: list[Tensor | None]
    ) -> Tensor:
        """Normed output `[rows, hidden]` for block embeddings `[rows, hidden]` after `start` context positions.

        `masks` holds one `block_mask` per layer, `rotation` is that of the block's positions.
        """
        for layer, layer_cache, mask in zip(self.layers, cache, masks, strict=True):
            block = layer(block, layer_cache, start, rotation, mask)
        result: Tensor = self.norm(block)
        return result

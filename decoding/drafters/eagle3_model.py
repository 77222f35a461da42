"""The network of EAGLE-3 (arXiv 2503.01840, section 3.1): one Llama layer over the target's fused hidden states.

An entry pairs the hidden state of a position with the token AFTER it: the target's fused features (`fuse`) where the
target has read the position, else the network's own output at the entry before. Module names are those of the
published checkpoints in their `midlayer.*` layout, so that the state dict is such a checkpoint.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from decoding.drafters.eagle3_config import Eagle3Config
from decoding.drafters.network import GatedMLP, Rotation

Remember = Callable[[Tensor], Tensor]
"""Takes the keys and values of new entries `[2, ..., kv_heads, rows, head_dim]` and returns those of all entries that
are to be seen, `[2, ..., kv_heads, seen, head_dim]`: a slab to write into, or a plain concatenation."""


class Eagle3Attention(nn.Module):
    """Attention over `[..., rows, 2 * hidden]`; gives `[..., rows, hidden]`."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.kv_heads, self.head_dim = config.kv_heads, config.head_dim
        wide, bias = 2 * config.hidden, config.attention_bias
        self.q_proj = nn.Linear(wide, config.heads * config.head_dim, bias=bias)
        self.k_proj = nn.Linear(wide, config.kv_heads * config.head_dim, bias=bias)
        self.v_proj = nn.Linear(wide, config.kv_heads * config.head_dim, bias=bias)
        self.o_proj = nn.Linear(config.heads * config.head_dim, config.hidden, bias=bias)

    def keys_values(self, states: Tensor, rotation: Rotation) -> Tensor:
        """Keys (rotated) and values `[2, ..., kv_heads, rows, head_dim]` of the rows."""
        keys, values = self.k_proj(states), self.v_proj(states)
        split = (self.kv_heads, self.head_dim)
        both = torch.stack((rotation.apply(keys.unflatten(-1, split)), values.unflatten(-1, split)))
        return both.transpose(-3, -2)

    def forward(self, states: Tensor, seen: Tensor, rotation: Rotation, mask: Tensor | None) -> Tensor:
        """Attends from the rows to the keys and values `seen`; `mask` as in `Eagle3Model.forward`."""
        rows = states.shape[-2]
        query = rotation.apply(self.q_proj(states).unflatten(-1, (-1, self.head_dim))).transpose(-3, -2)
        # Query heads that share a key head become more rows of it: no repeated keys and no special kernel.
        query = query.unflatten(-3, (self.kv_heads, -1)).flatten(-3, -2)
        if mask is not None:
            group = query.shape[-2] // rows
            mask = mask.repeat(*(1,) * (mask.dim() - 2), group, 1)
        if query.dim() == 3:  # the fused kernels want a batch axis
            out = functional.scaled_dot_product_attention(query[None], seen[0][None], seen[1][None], attn_mask=mask)[0]
        else:
            out = functional.scaled_dot_product_attention(query, seen[0], seen[1], attn_mask=mask)
        heads = out.unflatten(-2, (-1, rows)).flatten(-4, -3)
        result: Tensor = self.o_proj(heads.transpose(-3, -2).flatten(-2))
        return result


class Eagle3Layer(nn.Module):
    """The layer: token embedding and hidden state, each normed, side by side into the attention."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.norm_before_residual = config.norm_before_residual
        self.self_attn = Eagle3Attention(config)
        self.mlp = GatedMLP(config)
        self.hidden_norm = nn.RMSNorm(config.hidden, eps=config.norm_eps)
        self.input_layernorm = nn.RMSNorm(config.hidden, eps=config.norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden, eps=config.norm_eps)

    def forward(
        self, embedded: Tensor, hidden: Tensor, remember: Remember, rotation: Rotation, mask: Tensor | None
    ) -> Tensor:
        """As `Eagle3Model.forward`."""
        normed = self.hidden_norm(hidden)
        residual = normed if self.norm_before_residual else hidden
        states = torch.cat((self.input_layernorm(embedded), normed), dim=-1)
        seen = remember(self.self_attn.keys_values(states, rotation))
        residual = residual + self.self_attn(states, seen, rotation, mask)
        result: Tensor = residual + self.mlp(self.post_attention_layernorm(residual))
        return result


class Eagle3Model(nn.Module):
    """The drafter; its embedding is mostly the target's, and only where `own_embedding` says so its own."""

    d2t: Tensor
    """`[draft_vocab]` int64: target id minus draft id of every draft token."""
    t2d: Tensor
    """`[vocab]` bool: which target tokens the drafter knows."""

    def __init__(self, config: Eagle3Config, own_embedding: bool = False) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab, config.hidden) if own_embedding else None
        self.fc = nn.Linear(config.tap_count * config.target_hidden, config.hidden, bias=False)
        self.midlayer = Eagle3Layer(config)
        self.norm = nn.RMSNorm(config.hidden, eps=config.norm_eps)
        self.lm_head = nn.Linear(config.hidden, config.draft_vocab, bias=False)
        self.register_buffer("d2t", torch.zeros(config.draft_vocab, dtype=torch.int64))
        self.register_buffer("t2d", torch.ones(config.vocab, dtype=torch.bool))

    def fuse(self, features: Tensor) -> Tensor:
        """Hidden states `[..., hidden]` of the target's concatenated taps `[..., taps * target_hidden]`."""
        fused: Tensor = self.fc(features)
        return fused

    def forward(
        self, embedded: Tensor, hidden: Tensor, remember: Remember, rotation: Rotation, mask: Tensor | None
    ) -> Tensor:
        """Recurrent states `[..., rows, hidden]` of entries: their output before the final norm.

        `embedded` `[..., rows, hidden]` are the embeddings of the tokens, `hidden` `[..., rows, hidden]` the states
        of the positions before them, `rotation` that of the rows' positions. `mask` says which of the entries
        that `remember` returns each row sees (bool, or additive) `[..., rows, seen]`; None lets it see all.
        """
        result: Tensor = self.midlayer(embedded, hidden, remember, rotation, mask)
        return result

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits `[..., draft_vocab]` of the token after each entry, of its recurrent state `[..., hidden]`."""
        result: Tensor = self.lm_head(self.norm(hidden))
        return result

    def target_ids(self, draft_ids: Tensor) -> Tensor:
        """The target's ids of draft ids `[...]` int64."""
        return draft_ids + self.d2t[draft_ids]

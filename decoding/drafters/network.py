"""What the networks of the published drafters share: rotary embedding, gated feed-forward, the target's embedding."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from decoding.errors import UnsupportedModel

Embed = Callable[[Tensor], Tensor]
"""Token ids `[rows]` to the rows of the target's embedding `[rows, hidden]`."""
Head = Callable[[Tensor], Tensor]
"""Final hidden states `[rows, hidden]` to the target's logits `[rows, vocab]`."""


def unscaled(embedding: Embed) -> Embed:
    """An `nn.Embedding` without the scale that a subclass puts on its rows: the published code reads them bare."""
    if not isinstance(embedding, nn.Embedding):
        return embedding
    module = embedding
    return lambda ids: functional.embedding(ids, module.weight)


class RotaryConfig(Protocol):
    """What a drafter's config says of its rotary embedding."""

    @property
    def head_dim(self) -> int: ...
    @property
    def rope(self) -> Any:
        """A stock transformers config, for its rope utilities."""


class GatedMLPConfig(Protocol):
    """What a drafter's config says of its feed-forward part."""

    @property
    def hidden(self) -> int: ...
    @property
    def intermediate(self) -> int: ...
    @property
    def activation(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Rotation:
    """Rotary embedding of positions 0 to length - 1, `[length, head_dim]` each."""

    cos: Tensor
    sin: Tensor
    """Signed: the first half is negated, so that rotating needs a roll instead of a negation and a concatenation."""

    def __getitem__(self, positions: slice | Tensor) -> "Rotation":
        return Rotation(self.cos[positions], self.sin[positions])

    def apply(self, states: Tensor) -> Tensor:
        """Rotates `[..., positions, heads, head_dim]`."""
        rolled = states.roll(states.shape[-1] // 2, -1)
        return torch.addcmul(states * self.cos[:, None], rolled, self.sin[:, None])


def rotation(config: RotaryConfig, length: int, dtype: torch.dtype, device: torch.device) -> Rotation:
    """The table for `length` positions, computed in float32.

    Types whose frequencies depend on the length (dynamic, longrope) get those of `length` from the start: cached keys
    keep one rotation for the whole run. Raises UnsupportedModel for a type that transformers does not know, and for
    one that rotates only a part of the head.
    """
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters: dict[str, Any] = config.rope.rope_parameters
    kind = parameters["rope_type"]
    if kind == "default":
        # On the host and in this order of operations, as everywhere else: one bit of a frequency counts at 40,000.
        index = torch.arange(0, config.head_dim, 2, dtype=torch.float32, device="cpu")
        frequency, scale = 1.0 / (parameters["rope_theta"] ** (index / config.head_dim)), 1.0
    elif kind in ROPE_INIT_FUNCTIONS:
        frequency, scale = ROPE_INIT_FUNCTIONS[kind](config.rope, torch.device("cpu"), seq_len=length)
    else:
        raise UnsupportedModel(
            f"The drafter's rope type {kind!r} is not known.", f"Known: {', '.join(ROPE_INIT_FUNCTIONS)}."
        )
    if 2 * len(frequency) != config.head_dim or parameters.get("partial_rotary_factor", 1.0) != 1.0:
        raise UnsupportedModel(f"The drafter rotates {2 * len(frequency)} of {config.head_dim} head dimensions.", "")
    angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * frequency.to(device, torch.float32)
    cos, sin = angle.cos() * scale, angle.sin() * scale
    return Rotation(torch.cat((cos, cos), -1).to(dtype), torch.cat((-sin, sin), -1).to(dtype))


class GatedMLP(nn.Module):
    """The feed-forward part; `[..., hidden]` in and out."""

    def __init__(self, config: GatedMLPConfig) -> None:
        from transformers.activations import ACT2FN  # brings a second's worth of others: not before a model loads

        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down_proj = nn.Linear(config.intermediate, config.hidden, bias=False)
        self.activation = ACT2FN[config.activation]

    def forward(self, states: Tensor) -> Tensor:
        result: Tensor = self.down_proj(self.activation(self.gate_proj(states)) * self.up_proj(states))
        return result

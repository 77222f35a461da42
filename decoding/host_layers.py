"""Decoder layers of the Llama kind (also Qwen2, Qwen3, DFlash's) on a CPU, run by the kernels.

The matrices are the modules' own; norms and biases, which are small, are copied once.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from decoding.kernels.crew import AVAILABLE, new_marks, run_together
from decoding.kernels.decoder import STEPS, Pass, Weights, decoder_pass
from decoding.large_pages import exact_in_bfloat16, gather

Built = TypeVar("Built")

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""Model types of transformers whose layers are of this kind."""


def kernels_suit(device: torch.device, dtype: torch.dtype, activation: str) -> bool:
    """Whether a model with these can run on the kernels, as far as they say."""
    return AVAILABLE and device.type == "cpu" and dtype == torch.float32 and activation == "silu"


def narrowed(model: nn.Module, build: Callable[[], Built]) -> Built | None:
    """What `build` makes of a drafter for the kernels, once its weights are gathered, in bfloat16 where that is exact:
    then it is the kernels' alone. None, and all as it was, where the layers are built in another way."""
    try:
        build()
    except AttributeError:
        return None
    gather(model, narrow=exact_in_bfloat16(model))
    return build()


class HostLayers:
    """Layers that end in a norm; float32, all positions seen or an additive mask."""

    def __init__(self, layers: Sequence[Any], norm: Any, scale: float) -> None:
        """`layers` have the modules and names of transformers' Llama, their matrices either all in float32 or all in
        bfloat16; `scale` is the factor of attention scores.

        Raises AttributeError for layers that are built in another way.
        """
        self._matrices = [_matrices(layer) for layer in layers]  # keeps alive what the addresses point to
        first = layers[0]
        attention: Any = first.self_attn
        self.heads_width: int = attention.q_proj.out_features
        self.head_dim: int = attention.head_dim
        self.hidden: int = attention.o_proj.out_features
        self.intermediate: int = first.mlp.gate_proj.out_features
        norms = [(layer.input_layernorm, layer.post_attention_layernorm) for layer in layers]
        head_norms = [
            (layer.self_attn.q_norm, layer.self_attn.k_norm) for layer in layers if hasattr(layer.self_attn, "q_norm")
        ]
        self.weights = Weights(
            address=np.array([[matrix.data_ptr() for matrix in row] for row in self._matrices], np.int64),
            size=self._matrices[0][0].element_size(),
            norm=_stacked([*norms, (norm, norm)], self.hidden),
            bias=np.stack([_bias(layer.self_attn) for layer in layers]),
            head_norm=_stacked(head_norms, self.head_dim),
            epsilon=float(_epsilon(first.input_layernorm)),
            scale=scale,
        )

    def run(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        keys: Tensor,
        values: Tensor,
        past: int,
        mask: Tensor | None,
        taps: Sequence[int] = (),
    ) -> tuple[Tensor, Tensor | None]:
        """Final normed states `[rows, hidden]` and, of the layers' inputs `taps`, `[rows, taps * hidden]`.

        `x` `[rows, hidden]` is written on. `cos` and `sin` are `[rows, head_dim]`, the first half of `sin` negated.
        Keys and values `[layers, kv_heads, capacity, head_dim]` are written from `past` on. `mask` is additive,
        `[rows, past + rows]` with numbers of a row side by side; without one every row sees itself and all before it.
        """
        run = self.new_pass(x, cos, sin, keys, values, past, mask, taps)
        run_together(decoder_pass, self.weights, run)
        return torch.from_numpy(run.final), torch.from_numpy(run.features) if taps else None

    def new_pass(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        keys: Tensor,
        values: Tensor,
        past: int,
        mask: Tensor | None,
        taps: Sequence[int] = (),
        ins: int | None = None,
    ) -> Pass:
        """The arguments of `run` for the kernels; `ins` where queries, keys and values read rows of another width."""
        rows, layers = len(x), len(self.weights.address)
        slot = np.full(layers + 1, -1, np.int32)
        slot[list(taps)] = range(len(taps))

        def room(width: int) -> Any:
            return np.empty((rows, width), np.float32)

        normed = room(self.hidden)
        return Pass(
            x=x.numpy(),
            cos=cos.numpy(),
            sin=sin.numpy(),
            mask=0 if mask is None else mask.data_ptr(),
            mask_width=0 if mask is None else mask.stride(0),
            keys=keys.numpy(),
            values=values.numpy(),
            past=past,
            slot=slot,
            features=room(len(taps) * self.hidden),
            final=room(self.hidden),
            normed=normed,
            added=room(self.hidden),
            read=normed if ins is None else room(ins),
            qkv=room(self.weights.bias.shape[1]),
            mixed=room(self.heads_width),
            gate=room(self.intermediate),
            up=room(self.intermediate),
            marks=new_marks(STEPS * layers + 1),
        )


def _matrices(layer: Any) -> list[Tensor]:
    attention, mlp = layer.self_attn, layer.mlp
    linears: list[nn.Linear] = [
        attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj,
        mlp.gate_proj, mlp.up_proj, mlp.down_proj,
    ]  # fmt: skip
    if any(linear.bias is not None for linear in linears[3:]):
        raise AttributeError("biases outside queries, keys and values")
    return [linear.weight.detach().contiguous() for linear in linears]


def _bias(attention: Any) -> Any:
    parts = [
        linear.bias if linear.bias is not None else torch.zeros(linear.out_features)
        for linear in (attention.q_proj, attention.k_proj, attention.v_proj)
    ]
    return torch.cat([part.detach() for part in parts]).numpy()


def _stacked(norms: Sequence[tuple[Any, Any]], width: int) -> Any:
    """`[norms, 2, width]` float32 weights."""
    stacked = np.empty((len(norms), 2, width), np.float32)
    for place, pair in enumerate(norms):
        for which, norm in enumerate(pair):
            stacked[place, which] = norm.weight.detach().numpy()
    return stacked


def _epsilon(norm: Any) -> Any:
    return norm.eps if isinstance(norm, nn.RMSNorm) else norm.variance_epsilon

"""DFlash's forward pass from scratch, slowly and plainly: no cache, one head and one row at a time."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu


def reference_hidden(config: dict[str, Any], weights: dict[str, Tensor], features: Tensor, block: Tensor) -> Tensor:
    """Normed output `[block, hidden]` for `features` `[context, taps * hidden]` and embeddings `[block, hidden]`."""
    eps, heads = config["rms_norm_eps"], config["num_attention_heads"]
    group = heads // config["num_key_value_heads"]
    theta = (config.get("rope_parameters") or config)["rope_theta"]
    known, rows = len(features), len(block)

    def norm(x: Tensor, name: str) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weights[name]

    def rotate(x: Tensor, position: int) -> Tensor:
        half = len(x) // 2
        angle = position / theta ** (torch.arange(half, dtype=torch.float32) / half)
        low, high = x[:half], x[half:]
        return torch.cat((low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()))

    context = norm(features @ weights["fc.weight"].T, "hidden_norm.weight")
    for index in range(config["num_hidden_layers"]):
        at = f"layers.{index}."
        window, causal = layer_kind(config, index)
        inner = norm(block, at + "input_layernorm.weight")
        source = torch.cat((context, inner))

        def split(x: Tensor, name: str, at: str = at) -> Tensor:
            bias = weights.get(f"{at}self_attn.{name}_proj.bias", torch.zeros(()))
            return (x @ weights[f"{at}self_attn.{name}_proj.weight"].T + bias).unflatten(-1, (-1, config["head_dim"]))

        query = norm(split(inner, "q"), at + "self_attn.q_norm.weight")
        key, value = norm(split(source, "k"), at + "self_attn.k_norm.weight"), split(source, "v")
        out = torch.zeros(rows, heads, config["head_dim"])
        for row in range(rows):
            here = known + row
            seen = [
                there
                for there in range(known + rows)
                if not (causal and there > here) and (window is None or abs(here - there) < window)
            ]
            for head in range(heads):
                mine = rotate(query[row, head], here)
                scores = torch.stack([mine @ rotate(key[there, head // group], there) for there in seen])
                share = (scores * config["head_dim"] ** -0.5).softmax(0)
                out[row, head] = share @ value[seen, head // group]
        block = block + out.flatten(1) @ weights[at + "self_attn.o_proj.weight"].T
        if at + "self_attn.o_proj.bias" in weights:
            block = block + weights[at + "self_attn.o_proj.bias"]
        inner = norm(block, at + "post_attention_layernorm.weight")
        gate, up = inner @ weights[at + "mlp.gate_proj.weight"].T, inner @ weights[at + "mlp.up_proj.weight"].T
        block = block + (silu(gate) * up) @ weights[at + "mlp.down_proj.weight"].T
    return norm(block, "norm.weight")


def layer_kind(config: dict[str, Any], index: int) -> tuple[int | None, bool]:
    """Window and causality of a layer, as the published code reads them."""
    sliding = config.get("layer_types", ["full_attention"] * 99)[index] == "sliding_attention"
    causal = config.get("is_causal")
    return (config["sliding_window"] if sliding else None), sliding if causal is None else causal

"""EAGLE-3's drafts from scratch, plainly and in float64: no cache, no tree, every path anew from the first token."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu

Weights = dict[str, Tensor]


def reference_logprobs(
    config: dict[str, Any], weights: Weights, embedding: Tensor, features: Tensor, text: list[int], path: list[int]
) -> dict[int, float]:
    """Log-probability of every target token the drafter knows, after `path` below the root, the last of `text`.

    `features` `[text - 1, taps * hidden]` are the target's for all but the root, `embedding` `[vocab, hidden]`.
    """
    weights = {name.removeprefix("midlayer."): tensor.double() for name, tensor in weights.items()}
    hidden = features.double() @ weights["fc.weight"].T
    for length in range(len(text), len(text) + len(path) + 1):
        tokens = [*text, *path][1:length]
        hidden = torch.cat([hidden, _outputs(config, weights, embedding.double()[tokens], hidden)[-1:]])
    logits = _norm(config, hidden[-1], weights["norm.weight"]) @ weights["lm_head.weight"].T
    offset = weights.get("d2t", torch.zeros(len(logits))).long().tolist()
    return {draft + offset[draft]: value for draft, value in enumerate(logits.log_softmax(0).tolist())}


def _outputs(config: dict[str, Any], weights: Weights, embedded: Tensor, hidden: Tensor) -> Tensor:
    """The layer over a whole chain `[rows, hidden]`."""
    heads, dim, rows = config["num_attention_heads"], config["head_dim"], len(hidden)
    group = heads // config["num_key_value_heads"]
    # The frequencies are float32 numbers in every implementation.
    frequency = (1.0 / config["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)).double()
    angle = torch.arange(rows, dtype=torch.float64)[:, None] * frequency
    later = torch.ones(rows, rows, dtype=torch.bool).triu(1)

    def rotate(x: Tensor) -> Tensor:
        low, high = x.chunk(2, -1)
        return torch.cat((low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()), -1)

    def head(name: str, index: int) -> Tensor:
        part = slice(index * dim, (index + 1) * dim)
        bias = weights.get(f"self_attn.{name}_proj.bias")
        return states @ weights[f"self_attn.{name}_proj.weight"][part].T + (0 if bias is None else bias[part])

    normed = _norm(config, hidden, weights["hidden_norm.weight"])
    states = torch.cat((_norm(config, embedded, weights["input_layernorm.weight"]), normed), -1)
    joined = []
    for index in range(heads):
        scores = rotate(head("q", index)) @ rotate(head("k", index // group)).T * dim**-0.5
        joined.append(scores.masked_fill(later, -torch.inf).softmax(-1) @ head("v", index // group))
    attended = torch.cat(joined, -1) @ weights["self_attn.o_proj.weight"].T
    out = (normed if config.get("norm_before_residual") else hidden) + attended
    out = out + weights.get("self_attn.o_proj.bias", 0)
    inner = _norm(config, out, weights["post_attention_layernorm.weight"])
    gated = silu(inner @ weights["mlp.gate_proj.weight"].T) * (inner @ weights["mlp.up_proj.weight"].T)
    return out + gated @ weights["mlp.down_proj.weight"].T


def _norm(config: dict[str, Any], x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]).sqrt() * weight

"""Tiny random EAGLE-3 checkpoints in the published layouts, for tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 48,
    "draft_vocab_size": 20,
}


def write_eagle3_checkpoint(
    folder: Path,
    *,
    seed: int = 0,
    layer: str = "midlayer.",
    nested: bool = False,
    own_embedding: bool = False,
    taps: int = 3,
    known: Sequence[int] | None = None,
    **config: Any,
) -> Path:
    """Writes config.json and model.safetensors into `folder` (made if needed) and returns it.

    `layer` is what the layer's tensors are called: `midlayer.` (EAGLE, SpecForge) or `layers.0.` (speculators).
    `nested` writes the config of speculators. `known` are the tokens of the draft vocabulary, random ones by default.
    `config` adds to the config or replaces fields of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    whole = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e4,
        "rope_scaling": None,
        "attention_bias": False,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "sliding_window": None,
        "use_sliding_window": False,
        **SHAPE,
        **config,
    }
    if known is not None:
        whole["draft_vocab_size"] = len(known)
    weights = random_weights(whole, taps, seed)
    if known is not None:
        weights |= _mapping(torch.tensor(sorted(known)), whole["vocab_size"])
    if own_embedding:
        rng = torch.Generator().manual_seed(seed + 1)
        weights["embed_tokens.weight"] = torch.randn(whole["vocab_size"], whole["hidden_size"], generator=rng)
    published = {name.replace("midlayer.", layer): tensor for name, tensor in weights.items()}
    save_file(published, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(_speculators(whole, config) if nested else whole))
    return folder


def _speculators(whole: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    outer = {name: whole.pop(name) for name in ("draft_vocab_size", "architectures")}
    outer |= {name: whole.pop(name) for name in ("norm_before_residual",) if name in asked}
    return outer | {
        "architectures": ["Eagle3Speculator"],
        "model_type": "speculator_model",
        "speculators_model_type": "eagle3",
        "eagle_aux_hidden_state_layer_ids": None,
        "target_hidden_size": None,
        "transformer_layer_config": whole,
    }


def random_weights(config: dict[str, Any], taps: int, seed: int) -> dict[str, Tensor]:
    """Random float32 tensors by their `midlayer.` names; scaled so that every part of the network matters."""
    rng = torch.Generator().manual_seed(seed)
    hidden, inner, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    wide, narrow = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    vocab, draft = config["vocab_size"], config.get("draft_vocab_size") or config["vocab_size"]
    target_hidden = config.get("target_hidden_size") or hidden

    def matrix(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=rng) * columns**-0.5

    def norm() -> Tensor:
        return 1 + 0.2 * torch.randn(hidden, generator=rng)

    weights = {
        "fc.weight": matrix(hidden, taps * target_hidden),
        "norm.weight": norm(),
        "lm_head.weight": matrix(draft, hidden),
        "midlayer.hidden_norm.weight": norm(),
        "midlayer.input_layernorm.weight": norm(),
        "midlayer.post_attention_layernorm.weight": norm(),
        "midlayer.self_attn.q_proj.weight": matrix(wide, 2 * hidden),
        "midlayer.self_attn.k_proj.weight": matrix(narrow, 2 * hidden),
        "midlayer.self_attn.v_proj.weight": matrix(narrow, 2 * hidden),
        "midlayer.self_attn.o_proj.weight": matrix(hidden, wide),
        "midlayer.mlp.gate_proj.weight": matrix(inner, hidden),
        "midlayer.mlp.up_proj.weight": matrix(inner, hidden),
        "midlayer.mlp.down_proj.weight": matrix(hidden, inner),
    }
    if config["attention_bias"]:
        for name, width in (("q", wide), ("k", narrow), ("v", narrow), ("o", hidden)):
            weights[f"midlayer.self_attn.{name}_proj.bias"] = 0.2 * torch.randn(width, generator=rng)
    if draft < vocab:
        weights |= _mapping(torch.randperm(vocab, generator=rng)[:draft].sort().values, vocab)
    return weights


def _mapping(known: Tensor, vocab: int) -> dict[str, Tensor]:
    """d2t and t2d of a draft vocabulary `known`, ascending target ids."""
    reached = torch.zeros(vocab, dtype=torch.bool).index_fill_(0, known, True)
    return {"d2t": known - torch.arange(len(known)), "t2d": reached}

"""Tiny random DFlash checkpoints in exactly the published layout, for tests."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor


def write_dflash_checkpoint(
    folder: Path,
    *,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    layers: int,
    target_layers: int,
    target_layer_ids: list[int],
    block_size: int,
    mask_token_id: int,
    vocab: int,
    seed: int,
    old_layout: bool = False,
    shards: int = 1,
    extra: dict[str, Any] | None = None,
) -> Path:
    """Writes config.json and safetensors into `folder` (made if needed) and returns it.

    `old_layout` puts block_size at the top level and rope_theta beside it, as the first checkpoints do; `shards` above
    1 writes an index; `extra` adds to config.json or replaces fields of it (a `dflash_config` in it is merged).
    """
    folder.mkdir(parents=True, exist_ok=True)
    config: dict[str, Any] = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "num_hidden_layers": layers,
        "num_target_layers": target_layers,
        "vocab_size": vocab,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "dflash_config": {"mask_token_id": mask_token_id, "target_layer_ids": target_layer_ids},
    }
    if old_layout:
        config |= {
            "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
            "block_size": block_size,
            "rope_theta": 1e6,
            "rope_scaling": None,
        }
    else:
        config["dflash_config"]["block_size"] = block_size
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e6}
    more = dict(extra or {})
    config["dflash_config"] |= more.pop("dflash_config", {})
    config |= more
    (folder / "config.json").write_text(json.dumps(config))
    _save(folder, random_weights(config, len(target_layer_ids), seed), shards)
    return folder


def random_weights(config: dict[str, Any], taps: int, seed: int) -> dict[str, Tensor]:
    """Random float32 tensors by their published names; scaled so that every part of the network matters."""
    rng = torch.Generator().manual_seed(seed)
    hidden, inner, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    wide, narrow = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim

    def matrix(rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, generator=rng) * columns**-0.5

    def norm(width: int) -> Tensor:
        return 1 + 0.2 * torch.randn(width, generator=rng)

    weights = {
        "fc.weight": matrix(hidden, taps * hidden),
        "hidden_norm.weight": norm(hidden),
        "norm.weight": norm(hidden),
    }
    for layer in range(config["num_hidden_layers"]):
        own = {
            "input_layernorm.weight": norm(hidden),
            "post_attention_layernorm.weight": norm(hidden),
            "self_attn.q_proj.weight": matrix(wide, hidden),
            "self_attn.k_proj.weight": matrix(narrow, hidden),
            "self_attn.v_proj.weight": matrix(narrow, hidden),
            "self_attn.o_proj.weight": matrix(hidden, wide),
            "self_attn.q_norm.weight": norm(dim),
            "self_attn.k_norm.weight": norm(dim),
            "mlp.gate_proj.weight": matrix(inner, hidden),
            "mlp.up_proj.weight": matrix(inner, hidden),
            "mlp.down_proj.weight": matrix(hidden, inner),
        }
        if config["attention_bias"]:
            for name, width in (("q", wide), ("k", narrow), ("v", narrow), ("o", hidden)):
                own[f"self_attn.{name}_proj.bias"] = 0.2 * torch.randn(width, generator=rng)
        weights |= {f"layers.{layer}.{name}": tensor for name, tensor in own.items()}
    return weights


def _save(folder: Path, weights: dict[str, Tensor], shards: int) -> None:
    if shards == 1:
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        return
    names = list(weights)
    home = {name: f"model-{1 + i % shards:05}-of-{shards:05}.safetensors" for i, name in enumerate(names)}
    for file in sorted(set(home.values())):
        save_file({name: weights[name] for name in names if home[name] == file}, folder / file, {"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": home}))

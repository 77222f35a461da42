"""Tiny Medusa checkpoints in the published layouts, for tests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

FILE = "medusa_lm_head.safetensors"
LAYOUTS = ("own", "shared", "vllm", "vllm shared")
"""FasterDecoding's Medusa-1, text-generation-inference's version 2, and vLLM's two."""


def medusa_config(layout: str, heads: int, layers: int, hidden: int, vocab: int) -> dict[str, Any]:
    """The config.json of such heads."""
    if layout.startswith("vllm"):
        return {
            "architectures": ["MedusaModel"],
            "model_type": "medusa",
            "num_heads": heads,
            "num_hidden_layers": layers,
            "hidden_size": hidden,
            "vocab_size": vocab,
            "truncated_vocab_size": None,
            **({"original_lm_head": True} if layout == "vllm shared" else {}),
        }
    published = {"base_model_name_or_path": "owner/base", "medusa_num_heads": heads, "medusa_num_layers": layers}
    return published | ({"version": "2"} if layout == "shared" else {})


def random_weights(layout: str, heads: int, layers: int, hidden: int, vocab: int, seed: int) -> dict[str, Tensor]:
    """Random float32 tensors by their published names; scaled so that every part of the network matters."""
    rng = torch.Generator().manual_seed(seed)

    def matrix(rows: int) -> Tensor:
        return torch.randn(rows, hidden, generator=rng) * 2 * hidden**-0.5

    weights: dict[str, Tensor] = {}
    for head in range(heads):
        for layer in range(layers):
            weights[f"{head}.{layer}.linear.weight"] = matrix(hidden)
            weights[f"{head}.{layer}.linear.bias"] = 0.3 * torch.randn(hidden, generator=rng)
        weights[f"{head}.{layers}.weight"] = matrix(vocab)
    if layout == "shared":
        return {name: tensor for name, tensor in weights.items() if ".linear." in name}
    if not layout.startswith("vllm"):
        return weights
    in_vllm: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        head, layer, *rest = name.split(".")
        if rest == ["linear", "weight"]:
            in_vllm[f"blocks.{head}.layers.{layer}.weight"] = tensor
        elif rest == ["weight"] and (layout == "vllm" or head == "0"):
            in_vllm[f"lm_heads.{head}.weight"] = tensor
    return in_vllm


def write_medusa_checkpoint(
    folder: Path,
    *,
    heads: int = 3,
    layers: int = 1,
    hidden: int = 32,
    vocab: int = 48,
    seed: int = 0,
    layout: str = "own",
    prefix: str = "",
    weights: Mapping[str, Tensor] | None = None,
    **said: Any,
) -> Path:
    """Writes config.json and the weights into `folder` (made if needed) and returns it.

    `weights` stand in for random ones, `prefix` comes before every name, `said` adds to the config or replaces fields.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(medusa_config(layout, heads, layers, hidden, vocab) | said))
    if weights is None:
        weights = random_weights(layout, heads, layers, hidden, vocab, seed)
    file = "model.safetensors" if layout.startswith("vllm") else FILE
    save_file({prefix + name: tensor for name, tensor in weights.items()}, folder / file, {"format": "pt"})
    return folder

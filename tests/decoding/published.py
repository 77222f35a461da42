"""Tiny random targets in exactly the layouts in which the menu's are published: fields, names, shards, dtypes."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from tests.decoding.tiny import save_tokenizer
from tests.tiny_models import VOCAB

EMPTY_THOUGHTS = "<think> </think> "
QWEN3_TEMPLATE = (
    "{% for m in messages %}w7 {{ m['content'] }} w8 {% endfor %}"
    "{% if add_generation_prompt %}w9 {% if enable_thinking is defined and enable_thinking is false %}"
    + EMPTY_THOUGHTS
    + "{% endif %}{% endif %}"
)
"""As that of Qwen3: thoughts that are over before they begin, where thinking is turned off."""
PLAIN_TEMPLATE = (
    "{% for m in messages %}w7 {{ m['content'] }} w8 {% endfor %}{% if add_generation_prompt %}w9 {% endif %}"
)
_SIZES = {"vocab_size": VOCAB, "hidden_size": 32, "num_attention_heads": 4, "max_position_embeddings": 256}
_SINCE = {"bos_token_id": 0, "eos_token_id": 1, "use_cache": True, "initializer_range": 0.02}
_QWEN3 = {
    **_SIZES,
    **_SINCE,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "head_dim": 8,
    "hidden_act": "silu",
    "intermediate_size": 48,
    "max_window_layers": 8,
    "num_hidden_layers": 8,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.51.0",
    "use_sliding_window": False,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "smollm2": {
        **_SIZES,
        **_SINCE,
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "intermediate_size": 48,
        "is_llama_config": True,
        "mlp_bias": False,
        "model_type": "llama",
        "num_hidden_layers": 5,
        "num_key_value_heads": 2,
        "pad_token_id": 1,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_interleaved": False,
        "rope_scaling": None,
        "rope_theta": 100000,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
        "transformers_version": "4.42.3",
    },
    "qwen3": {**_QWEN3, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "tie_word_embeddings": False},
    "qwen3-tied": {**_QWEN3, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "tie_word_embeddings": True},
    "qwen3-moe": {
        **_QWEN3,
        "architectures": ["Qwen3MoeForCausalLM"],
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "model_type": "qwen3_moe",
        "moe_intermediate_size": 24,
        "norm_topk_prob": True,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "output_router_logits": False,
        "qkv_bias": False,
        "rope_theta": 10000000,
        "router_aux_loss_coef": 0.001,
        "shared_expert_intermediate_size": 0,
        "tie_word_embeddings": False,
        "use_qk_norm": True,
    },
    "pythia": {
        **_SIZES,
        **_SINCE,
        "architectures": ["GPTNeoXForCausalLM"],
        "eos_token_id": 0,
        "hidden_act": "gelu",
        "intermediate_size": 48,
        "layer_norm_eps": 1e-05,
        "model_type": "gpt_neox",
        "num_hidden_layers": 4,
        "rotary_emb_base": 10000,
        "rotary_pct": 0.25,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "transformers_version": "4.24.0",
        "use_parallel_residual": True,
    },
}
"""config.json of each, its numbers made small; the fields are those of the published files."""
NAMES = {
    "smollm2": "model.layers.4.self_attn.q_proj.weight",
    "qwen3": "model.layers.7.self_attn.q_norm.weight",
    "qwen3-tied": "model.layers.7.self_attn.q_norm.weight",
    "qwen3-moe": "model.layers.7.mlp.experts.3.gate_proj.weight",
    "pythia": "gpt_neox.layers.3.attention.query_key_value.weight",
}
"""A tensor that only this layout has."""


def write_target(folder: Path, layout: str, seed: int = 0, **changes: Any) -> Path:
    """Writes config.json, sharded weights with their index, generation_config.json and a tokenizer."""
    config = {**CONFIGS[layout], **changes}
    torch.manual_seed(seed)
    # Wide random weights: sharp, varied distributions instead of near-ties.
    stock = CONFIG_MAPPING[config["model_type"]].from_dict({**config, "initializer_range": 0.35})
    model = AutoModelForCausalLM.from_config(stock, dtype=torch.float32)
    model.to(getattr(torch, config["torch_dtype"])).save_pretrained(folder, max_shard_size="12KB")
    if layout == "pythia":
        _add_old_buffers(folder, config["num_hidden_layers"])
    (folder / "config.json").write_text(json.dumps(config))
    save_tokenizer(folder, VOCAB - 5)  # fewer tokens than rows, as Qwen3 has
    if layout != "pythia":
        path = folder / "tokenizer_config.json"
        template = QWEN3_TEMPLATE if layout in ("qwen3", "qwen3-tied") else PLAIN_TEMPLATE
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": template}))
    (folder / "generation_config.json").write_text(
        json.dumps({"eos_token_id": [config["eos_token_id"], 3], "do_sample": True, "temperature": 0.6, "top_k": 20})
    )
    return folder


def tensor_names(folder: Path) -> set[str]:
    """All names of a checkpoint, from the headers of its shards."""
    found: set[str] = set()
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            found |= set(file.keys())
    return found


def _add_old_buffers(folder: Path, layers: int) -> None:
    """Those that Pythia's files still hold, from when transformers saved them."""
    index = folder / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    name = sorted(set(content["weight_map"].values()))[0]
    tensors = load_file(folder / name)
    for layer in range(layers):
        prefix = f"gpt_neox.layers.{layer}.attention"
        old = {
            f"{prefix}.bias": torch.ones(1, 1, 256, 256, dtype=torch.uint8).tril(),
            f"{prefix}.masked_bias": torch.tensor(-1e9),
            f"{prefix}.rotary_emb.inv_freq": torch.ones(1),
        }
        tensors |= old
        content["weight_map"] |= dict.fromkeys(old, name)
    save_file(tensors, folder / name, {"format": "pt"})
    index.write_text(json.dumps(content))

"""Tiny random models of each supported family, and of two that must be refused; seeded."""

from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.models.gemma3.configuration_gemma3 import Gemma3TextConfig
from transformers.models.gpt_neox.configuration_gpt_neox import GPTNeoXConfig
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.mamba.configuration_mamba import MambaConfig
from transformers.models.mistral.configuration_mistral import MistralConfig
from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3_moe.configuration_qwen3_moe import Qwen3MoeConfig
from transformers.models.qwen3_next.configuration_qwen3_next import Qwen3NextConfig

from decoding.target import Target

VOCAB = 101
_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    # Wide random weights: sharp, varied distributions instead of near-ties.
    "initializer_range": 0.35,
}
_GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
_GEMMA = {
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "final_logit_softcapping": 20.0,
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "decoder_sparse_step": 1}

CONFIGS: dict[str, Any] = {
    "llama": lambda: LlamaConfig(**_COMMON, **_GROUPED),
    "qwen3": lambda: Qwen3Config(**_COMMON, **_GROUPED),
    "qwen2": lambda: Qwen2Config(**_COMMON, num_key_value_heads=2),
    "gpt-neox": lambda: GPTNeoXConfig(**_COMMON),
    "gemma3": lambda: Gemma3TextConfig(**_COMMON, **_GROUPED, **_GEMMA),
    "mistral-sliding": lambda: MistralConfig(**_COMMON, **_GROUPED, sliding_window=8),
    "qwen3-moe": lambda: Qwen3MoeConfig(**_COMMON, **_GROUPED, **_EXPERTS),
}
REFUSED: dict[str, Any] = {
    "mamba": lambda: MambaConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, state_size=4),
    "qwen3_next": lambda: Qwen3NextConfig(
        **{**_COMMON, "num_hidden_layers": 4}, **_GROUPED, **_EXPERTS, shared_expert_intermediate_size=24
    ),
}
FAMILIES = tuple(CONFIGS)


def tiny_model(family: str, seed: int = 0, **changes: Any) -> Any:
    """A random causal LM of `family`; `changes` go into its config."""
    torch.manual_seed(seed)
    config = {**CONFIGS, **REFUSED}[family]()
    for name, value in changes.items():
        setattr(config, name, value)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    return model.eval().requires_grad_(False)


def tiny_target(family: str, seed: int = 0, **changes: Any) -> Target:
    """`tiny_model` as a Target without a tokenizer."""
    return Target(tiny_model(family, seed, **changes), None, f"tiny-{family}")

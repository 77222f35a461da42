"""What the benchmarks share: the model, prompts, drafters to be had without training, and a quiet report."""

import statistics
import sys
from collections.abc import Sequence
from typing import Any

import torch

from decoding.drafters.block_diffusion import BlockDiffusionDrafter
from decoding.drafters.block_diffusion_config import BlockDiffusionConfig
from decoding.drafters.block_diffusion_model import BlockDiffusionModel
from decoding.kernels.prepare import prepare
from decoding.models import load_causal_lm
from decoding.prompts import encode_prompt
from decoding.target import Target

PROMPTS = (
    "Explain why the sky is blue, in a few sentences for a child.",
    "Write a Python function that returns the n-th Fibonacci number, with a docstring and an example.",
    "Summarise the plot of Romeo and Juliet in one paragraph.",
)


def say(sentence: str) -> None:
    """Progress, on standard error."""
    print(sentence, file=sys.stderr, flush=True)


def median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def load_target(target_id: str, dtype: str, device: str) -> Target:
    """The target of a benchmark, and the kernels compiled, as the page and the command line do it."""
    prepare()
    loaded = load_causal_lm(target_id, dtype, device, say)
    say(f"{loaded.name}: {loaded.dtype} on {loaded.device}, {torch.get_num_threads()} threads")
    return Target(loaded.model, loaded.tokenizer, loaded.name)


def prompt_ids(target: Target, prompt: str) -> tuple[int, ...]:
    return encode_prompt(target.tokenizer, prompt)


def untrained_block_drafter(
    target: Target, layers: int, block_size: int, taps: Sequence[int] | None = None
) -> BlockDiffusionDrafter:
    """A DFlash drafter of the target's shape with random weights: what a round costs does not depend on them."""
    config = target.model.config.get_text_config(decoder=True)
    ids = list(taps) if taps else [round(1 + i * (target.layers - 4) / 4) for i in range(5)]
    raw: dict[str, Any] = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "block_size": block_size,
        "num_hidden_layers": layers,
        "num_target_layers": target.layers,
        "dflash_config": {"mask_token_id": 0, "target_layer_ids": ids},
        "hidden_size": target.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": target.head_dim,
        "vocab_size": target.vocab_size,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "max_position_embeddings": target.max_context,
    }
    torch.manual_seed(0)
    with torch.device(target.device):
        model = BlockDiffusionModel(BlockDiffusionConfig.from_dict(raw)).to(target.dtype)
    for name, weight in model.named_parameters():
        if not name.endswith("norm.weight"):
            torch.nn.init.normal_(weight, std=0.02)
    model.eval().requires_grad_(False)
    return BlockDiffusionDrafter(model, target.embed, target.head, target.vocab_size, "untrained block drafter")

"""Round time over plain step time for a random model of a published shape: what a GPU makes of the method.

Needs no download: weights are random, which costs the same time. Acceptance is not measured here.
"""

import argparse
import time
from collections import defaultdict
from typing import Any

import numpy as np
import torch

from decoding.bench.setup import median, say, untrained_block_drafter
from decoding.devices import pick_device
from decoding.drafters.block_diffusion import BlockDiffusionDrafter
from decoding.loop import Request, decode
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.target import Target, memory_guard
from decoding.types import Round
from decoding.verifiers import make_verifier

SHAPES: dict[str, dict[str, Any]] = {
    "qwen3-8b": {
        "vocab_size": 151_936,
        "hidden_size": 4096,
        "intermediate_size": 12_288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 40_960,
        "block": {"layers": 5, "block_size": 16},
    },
    "qwen3-4b": {
        "vocab_size": 151_936,
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 40_960,
        "block": {"layers": 5, "block_size": 16},
    },
    "tiny": {
        "vocab_size": 4096,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 8192,
        "block": {"layers": 2, "block_size": 16},
    },
}
BUDGETS = (16, 32, 64, 128, 256, 512)
WARM = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the --shape part."""
    parser.add_argument("--shape", choices=tuple(SHAPES), help="a random model of this shape instead of a real one")
    parser.add_argument(
        "--context", type=int, default=1024, help="committed tokens (with --shape); default: %(default)s"
    )
    parser.add_argument("--repeats", type=int, default=20, help="timed rounds per budget (with --shape)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Rows by budget: a DDTree round over one plain step; and the round of the DFlash chain."""
    device = pick_device(args.device)
    dtype = torch.float32 if device.type == "cpu" and args.dtype == "float32" else torch.bfloat16
    with memory_guard(f"a model of shape {args.shape}"):
        target = _random_target(args.shape, device, dtype)
        drafter = untrained_block_drafter(target, **SHAPES[args.shape]["block"])
    plain = _rounds(target, None, "ar", {}, args)
    say(f"plain step: {plain['round_ms']:.2f} ms")
    chain = _rounds(target, drafter, "linear", {"budget": drafter.positions}, args)
    rows = []
    for budget in BUDGETS:
        row = {"budget": budget, **_rounds(target, drafter, "ddtree", {"budget": budget}, args)}
        row["over_plain"] = row["round_ms"] / plain["round_ms"]
        rows.append(row)
        say(f"budget {budget}: {row['round_ms']:.2f} ms a round, {row['over_plain']:.2f} plain steps")
    return {
        "shape": args.shape,
        "plain": plain,
        "chain": {**chain, "over_plain": chain["round_ms"] / plain["round_ms"]},
        "rows": rows,
        "context": args.context,
        "dtype": str(dtype).removeprefix("torch."),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
    }


def _random_target(shape: str, device: torch.device, dtype: torch.dtype) -> Target:
    from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
    from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM

    config = Qwen3Config(**{name: value for name, value in SHAPES[shape].items() if name != "block"})
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config)
    model = model.to(dtype).to_empty(device=device)
    torch.manual_seed(0)
    for name, weight in model.named_parameters():
        torch.nn.init.ones_(weight) if "norm" in name else torch.nn.init.normal_(weight, std=0.02)
    model.model.rotary_emb = type(model.model.rotary_emb)(config).to(device)  # its frequencies are no parameters
    model.generation_config.eos_token_id = None
    return Target(model.eval().requires_grad_(False), None, f"random {shape}")


def _rounds(
    target: Target, drafter: BlockDiffusionDrafter | None, strategy: str, settings: dict[str, int], args: Any
) -> dict[str, Any]:
    """Median milliseconds of a round, whole and by stage, after `WARM` rounds."""
    prompt = np.random.default_rng(0).integers(0, target.vocab_size, args.context).tolist()
    # A random target accepts next to nothing: as many rounds as new tokens.
    request = Request("", tuple(prompt), 16 * (WARM + args.repeats))
    events = decode(target, drafter, make_strategy(strategy, settings), make_verifier(None, Sampling()), request)
    next(events)
    seconds, stages = [], defaultdict(list)
    for index in range(WARM + args.repeats):
        start = time.perf_counter()
        item = next(events)
        took = time.perf_counter() - start
        if not isinstance(item, Round):
            break
        if index >= WARM:
            seconds.append(took)
            for stage, value in item.seconds.items():
                stages[stage].append(value)
    events.close()
    return {
        "round_ms": 1000 * median(seconds),
        "stage_ms": {stage: round(1000 * median(values), 3) for stage, values in stages.items()},
    }

"""Peak memory of a run at a large budget, above the models' own weights and cache."""

import argparse
from typing import Any

import torch

from decoding.bench.setup import PROMPTS, load_target, prompt_ids, say, untrained_block_drafter
from decoding.loop import Request, decode
from decoding.memory import peak_bytes, reset_peak, resident_bytes
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.types import Round
from decoding.verifiers import make_verifier


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--target", default="smollm2-135m", help="default: %(default)s")
    parser.add_argument("--dtype", default="float32", choices=("auto", "float32", "bfloat16"))
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--budget", type=int, default=1024, help="drafted nodes; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=4, help="default: %(default)s")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """`share`: (peak - held before the run - cache) / (weights + cache).

    DDTree over an untrained block drafter of 16 positions fills any budget. One plain run goes before, so that what
    libraries allocate once is not counted.
    """
    target = load_target(args.target, args.dtype, args.device)
    drafter = untrained_block_drafter(target, layers=2, block_size=16)
    models = (target.model, drafter.model)
    weights = sum(p.numel() * p.element_size() for model in models for p in model.parameters())
    request = Request(PROMPTS[0], prompt_ids(target, PROMPTS[0]), 4)
    verifier = make_verifier(None, Sampling())
    for _ in decode(target, None, make_strategy("ar", {}), verifier, request):
        pass
    request = Request(PROMPTS[0], request.prompt_ids, 16 * args.rounds)
    before = resident_bytes(target.device)
    reset_peak(target.device)
    events = decode(target, drafter, make_strategy("ddtree", {"budget": args.budget}), verifier, request)
    next(events)
    nodes = [item.tree.drafted for item, _ in zip(events, range(args.rounds), strict=False) if isinstance(item, Round)]
    peak = peak_bytes(target.device)
    events.close()
    capacity = len(request.prompt_ids) + request.max_new_tokens + args.budget + 1
    own, drafts = target.model.config.get_text_config(decoder=True), drafter.config
    row = target.layers * own.num_key_value_heads * target.head_dim
    row += drafts.layers * drafts.kv_heads * drafts.head_dim
    cache = 2 * capacity * row * target.dtype.itemsize
    above = peak - before - cache
    say(f"weights {weights / 1e6:.0f} MB, caches {cache / 1e6:.0f} MB, above them {above / 1e6:.0f} MB")
    return {
        "share": above / (weights + cache),
        "above_bytes": above,
        "weight_bytes": weights,
        "cache_bytes": cache,
        "budget": args.budget,
        "nodes": nodes,
        "dtype": str(target.dtype).removeprefix("torch."),
        "device": target.device.type,
        "threads": torch.get_num_threads(),
    }

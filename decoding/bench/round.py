"""What a round costs beside the models' forward passes, and (with --shape) over one plain step."""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from decoding.bench import round_shape
from decoding.bench.forward_time import ForwardTime
from decoding.bench.setup import PROMPTS, load_target, median, prompt_ids, say, untrained_block_drafter
from decoding.detokenizer import token_piece
from decoding.drafter_loading import load_drafter
from decoding.drafters.base import Drafter
from decoding.drafters.block_diffusion import BlockDiffusionDrafter
from decoding.loop import Request, decode
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.target import Target
from decoding.trace import TraceEncoder, TraceWriter
from decoding.types import Round
from decoding.verifiers import make_verifier


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--target", default="smollm2-135m", help="default: %(default)s")
    parser.add_argument("--dtype", default="float32", choices=("auto", "float32", "bfloat16"))
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--budget", type=int, default=64, help="drafted nodes; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=24, help="rounds of each way; default: %(default)s")
    round_shape.add_arguments(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """`overhead_share`: part of a round's time outside any model's forward pass, the worst of the ways.
    `trace_share`: time of encoding and writing the trace over the time of the rounds, the worst of the ways."""
    if args.shape:
        return round_shape.run(args)
    target = load_target(args.target, args.dtype, args.device)
    block = untrained_block_drafter(target, layers=2, block_size=8)
    ways: list[tuple[str, Drafter]] = [
        ("recycle", load_drafter("transition-matrix", target, say)),
        ("fixed", load_drafter("self", target, say)),
        ("ddtree", block),
    ]
    rows = [_measure(target, drafter, name, args.budget, args.rounds) for name, drafter in ways]
    return {
        "overhead_share": max(row["overhead_share"] for row in rows),
        "trace_share": max(row["trace_share"] for row in rows),
        "budget": args.budget,
        "rows": rows,
        "dtype": str(target.dtype).removeprefix("torch."),
        "device": target.device.type,
        "threads": torch.get_num_threads(),
    }


def _measure(target: Target, drafter: Drafter, name: str, budget: int, rounds: int) -> dict[str, Any]:
    modules: list[nn.Module] = [target.body, target.model.get_output_embeddings()]
    if isinstance(drafter, BlockDiffusionDrafter):
        modules.append(drafter.model)
    settings = {"budget": budget, "threshold": 0} if name == "fixed" else {"budget": budget}
    encoder = TraceEncoder(lambda token: token_piece(target.tokenizer, token))
    totals, inside, traced, nodes = [], [], [], []
    stages: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, TraceWriter(Path(folder) / "trace.jsonl") as writer:
        request = Request(PROMPTS[1], prompt_ids(target, PROMPTS[1]), 8 * rounds)
        events = decode(target, drafter, make_strategy(name, settings), make_verifier(None, Sampling()), request)
        writer.write(encoder.encode(next(events)))
        for _ in range(rounds):
            with ForwardTime(modules, target.device) as forward:
                start = time.perf_counter()
                item = next(events)
                seconds = time.perf_counter() - start
            if not isinstance(item, Round):
                break
            start = time.perf_counter()
            writer.write(encoder.encode(item))
            if item.index >= 2:  # the first rounds pay for what happens only once
                traced.append(time.perf_counter() - start)
                totals.append(seconds)
                inside.append(forward.seconds)
                nodes.append(item.tree.drafted)
                for stage, value in item.seconds.items():
                    stages.setdefault(stage, []).append(value)
        events.close()
    row = {
        "strategy": name,
        "nodes": median(nodes),
        "round_ms": 1000 * median(totals),
        "forward_ms": 1000 * median(inside),
        "overhead_share": 1 - sum(inside) / sum(totals),
        "trace_ms": 1000 * median(traced),
        "trace_share": sum(traced) / sum(totals),
        "stage_ms": {stage: round(1000 * median(values), 3) for stage, values in stages.items()},
    }
    say(str(row))
    return row

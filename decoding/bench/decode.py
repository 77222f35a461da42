"""Plain decoding through our loop against `model.generate`: same model, dtype, threads and run."""

import argparse
import time
from typing import Any

import torch

from decoding.bench.setup import PROMPTS, load_target, median, prompt_ids, say
from decoding.loop import Request, decode
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.target import Target
from decoding.types import Summary
from decoding.verifiers import make_verifier


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--target", default="smollm2-135m", help="default: %(default)s")
    parser.add_argument("--dtype", default="float32", choices=("auto", "float32", "bfloat16"))
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--max-new-tokens", type=int, default=96, help="default: %(default)s")
    parser.add_argument("--repeats", type=int, default=3, help="of every prompt, in turn; default: %(default)s")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Interleaved runs; `ratio` is the median over pairs of generate's time over ours (above 1: ours is faster)."""
    target = load_target(args.target, args.dtype, args.device)
    _ours(target, PROMPTS[0], 8), _theirs(target, PROMPTS[0], 8)
    rows = []
    for repeat in range(args.repeats):
        for prompt in PROMPTS:
            pair = (_ours, _theirs) if (repeat % 2 == 0) else (_theirs, _ours)
            timed = {way: way(target, prompt, args.max_new_tokens) for way in pair}
            (our_ids, our_seconds), (their_ids, their_seconds) = timed[_ours], timed[_theirs]
            rows.append((their_seconds / our_seconds, our_seconds, their_seconds, len(our_ids), our_ids == their_ids))
            say(f"{len(our_ids)} tokens: ours {our_seconds:.2f} s, generate {their_seconds:.2f} s")
    ratios, ours, theirs, counts, same = zip(*rows, strict=True)
    return {
        "ratio": median(ratios),
        "ratio_range": [min(ratios), max(ratios)],
        "ours_tokens_per_second": median([n / s for n, s in zip(counts, ours, strict=True)]),
        "generate_tokens_per_second": median([n / s for n, s in zip(counts, theirs, strict=True)]),
        "same_tokens": sum(same),
        "pairs": len(rows),
        "target": target.name,
        "dtype": str(target.dtype).removeprefix("torch."),
        "device": target.device.type,
        "threads": torch.get_num_threads(),
    }


def _ours(target: Target, prompt: str, count: int) -> tuple[list[int], float]:
    request = Request(prompt, prompt_ids(target, prompt), count)
    start = time.perf_counter()
    *_, last = decode(target, None, make_strategy("ar", {}), make_verifier(None, Sampling()), request)
    seconds = time.perf_counter() - start
    assert isinstance(last, Summary)
    return list(last.output_ids), seconds


def _theirs(target: Target, prompt: str, count: int) -> tuple[list[int], float]:
    ids = torch.tensor([prompt_ids(target, prompt)], device=target.device)
    start = time.perf_counter()
    with torch.inference_mode():
        output = target.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, pad_token_id=0
        )
    new = output[0, ids.shape[1] :].tolist()  # the copy to the host also waits for the device
    return new, time.perf_counter() - start

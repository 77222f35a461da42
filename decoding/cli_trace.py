"""`python -m decoding trace FILE`: validates a trace and says what is in it."""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

HELP = "validate and summarise a trace"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `trace`."""
    parser.add_argument("file", type=Path, help="a JSON Lines trace, as --trace writes it")
    parser.add_argument("--json", action="store_true", help="end with one JSON object")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    from decoding.trace import Trace, read_trace

    trace: Trace = read_trace(args.file)
    facts = summarise(trace)
    header = trace.header
    print(f"valid trace, schema 1, {len(trace.rounds)} rounds, finish: {facts['finish']}")
    drafter = header.drafter + (f" with {header.retrieval}" if header.retrieval != "none" else "")
    print(f"{header.target} ({header.dtype}, {header.device}), drafter {drafter}, strategy {header.strategy}")
    if header.settings:
        print("settings: " + ", ".join(f"{name}={value}" for name, value in header.settings.items()))
    for name in ("new_tokens", "tokens_per_round", "accepted_per_round", "acceptance_rate", "tokens_per_second"):
        value = facts[name]
        print(f"{name}: {'—' if value is None else round(value, 4)}")
    lengths = facts["accepted_lengths"]
    print("accepted drafted tokens a round: " + ", ".join(f"{n}: {times}" for n, times in lengths.items()))
    if trace.comparison:
        print("against plain decoding: " + against_plain(trace.comparison))
    if trace.torn:
        print("the last line was cut off in the middle; the rounds before it are whole")
    if args.json:
        print(json.dumps(facts, ensure_ascii=False))
    return 0


def against_plain(comparison: Any) -> str:
    """Speed and sameness in one line."""
    speed = "speedup —" if comparison.speedup is None else f"speedup {comparison.speedup:.2f}x"
    lossless = comparison.lossless
    if lossless is None:
        return f"{speed}, drawn at a temperature, so texts are not compared"
    return f"{speed}, " + ("same text" if lossless.identical else f"differs from token {lossless.first_divergence}")


def summarise(trace: Any) -> dict[str, Any]:
    """Figures worked out again from the rounds, not copied from the summary."""
    from decoding.metrics import run_metrics

    decode_seconds = sum(sum(item.seconds.values()) for item in trace.rounds)
    recorded = trace.summary.metrics if trace.summary else {}
    facts = run_metrics(
        trace.rounds,
        trace.header.prefill_seconds,
        recorded.get("decode_seconds") or decode_seconds,
        recorded.get("peak_memory_bytes"),
    )
    lengths = Counter(item.accepted for item in trace.rounds)
    return {
        "finish": trace.summary.finish if trace.summary else "cut off",
        **facts,
        "accepted_lengths": {str(length): lengths[length] for length in sorted(lengths)},
    }

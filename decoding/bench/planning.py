"""What strategies cost beside models: planning a tree over one-pass marginals, keeping retrieval sources up to date.

Planning is a round's `build`: all that a strategy does besides asking its drafter and its retrieval source. Learning is
`update` of a drafter without a model, or `refresh` of a retrieval source beside one, over the whole round.
"""

import argparse
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch

from decoding.bench.setup import PROMPTS, load_target, prompt_ids, say
from decoding.catalogue import drafter_info, target_info, usual_drafter
from decoding.drafter_loading import load_drafter
from decoding.errors import BadRequest
from decoding.fit import misfit
from decoding.loop import Request, decode
from decoding.model_store import ModelStore
from decoding.sampling import Sampling
from decoding.settings import options_of
from decoding.strategies import STRATEGIES, make_strategy
from decoding.target import Target
from decoding.types import Round
from decoding.verifiers import make_verifier

SKIPPED = 3
"""Rounds at the beginning that pay for what happens only once."""
LEARNERS = ("recycle", "sam", "graft-block", "ddtree-graft", "auto")
"""Strategies whose drafter, or source beside it, learns from every round."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--target", default="smollm2-135m", help="default: %(default)s")
    parser.add_argument("--drafter", metavar="ID", help="a one-pass drafter; default: the target's usual one")
    parser.add_argument("--dtype", default="float32", choices=("auto", "float32", "bfloat16"))
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--budgets", type=int, nargs="+", default=[64, 1024], help="nodes; default: 64 1024")
    parser.add_argument("--rounds", type=int, default=12, help="rounds judged of each way; default: %(default)s")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """`planning`: medians and 95th percentiles in milliseconds; `learning`: parts of the round."""
    if args.rounds < 1 or min(args.budgets) < 1:
        raise BadRequest("--rounds and --budgets must be at least 1.", "For example: --rounds 12 --budgets 64 1024")
    name = args.drafter or usual_drafter(args.target, STRATEGIES["ddtree"])
    if name is None:
        raise BadRequest(f"No one-pass drafter is made for {args.target}.", "Name one with --drafter.")
    info = drafter_info(name)
    if info.kind != "one-pass":
        raise BadRequest(f"{info.title} is a {info.kind} drafter.", "Planning is measured over one-pass marginals.")
    target = load_target(args.target, args.dtype, args.device)
    models = ModelStore()
    planning = []
    for strategy, kind in STRATEGIES.items():
        if "one-pass" in kind.needs and misfit(target_info(args.target), info, kind) is None:
            for budget in args.budgets:
                seconds = [r.seconds for r in _rounds(target, models, strategy, name, budget, args.rounds)]
                planning.append(
                    {"strategy": strategy, "budget": budget, **_milliseconds([s["build"] for s in seconds])}
                )
                say(str(planning[-1]))
    learning = []
    for strategy in LEARNERS:
        rounds = list(_rounds(target, models, strategy, None, args.budgets[0], args.rounds))
        beside = "refresh" if STRATEGIES[strategy].retrieval else "update"
        share = sum(r.seconds.get(beside, 0.0) for r in rounds) / sum(sum(r.seconds.values()) for r in rounds)
        learning.append({"strategy": strategy, "stage": beside, "share": round(share, 5)})
        say(str(learning[-1]))
    return {
        "benchmark": "planning",
        "planning": planning,
        "learning": learning,
        "target": target.name,
        "drafter": name,
        "rounds": args.rounds,
        "threads": torch.get_num_threads(),
        "device": target.device.type,
    }


def _rounds(
    target: Target, models: ModelStore, strategy: str, drafter_id: str | None, budget: int, count: int
) -> Iterator[Round]:
    kind = STRATEGIES[strategy]
    drafter_id = drafter_id or usual_drafter(target.name, kind)
    drafter = load_drafter(drafter_id, target, say) if drafter_id else None
    bounds = {key: option for key, option in options_of(kind.settings_class).items() if key in ("budget", "most")}
    settings = {key: min(budget, int(option.high or budget)) for key, option in bounds.items()}
    request = Request(PROMPTS[1], prompt_ids(target, PROMPTS[1]), 512)
    events = decode(
        target, drafter, make_strategy(strategy, settings), make_verifier(None, Sampling()), request,
        retrieval=models.retrieval(kind, target, say),
    )  # fmt: skip
    try:
        rounds = (event for event in events if isinstance(event, Round))
        yield from islice(rounds, SKIPPED, SKIPPED + count)
    finally:
        events.close()


def _milliseconds(seconds: list[float]) -> dict[str, float]:
    return {
        f"{name}_ms": round(1000 * float(np.percentile(seconds, at)), 4) for name, at in (("median", 50), ("p95", 95))
    }

"""`python -m decoding list`: targets, drafters, strategies and verifiers, with what each needs."""

import argparse
import json
from typing import Any

HELP = "targets, drafters, strategies, verifiers, with what each needs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `list`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    tables = everything()
    if args.json:
        print(json.dumps(tables, ensure_ascii=False))
        return 0
    for heading, entries in tables.items():
        print(heading)
        for entry in entries:
            print(f"  {entry['id']:<18} {entry['title']}")
            for note in entry["notes"]:
                print(f"  {'':<18}   {note}")
        print()
    print("A target or a drafter can also be any Hub id or local folder (safetensors only).")
    return 0


def everything() -> dict[str, list[dict[str, Any]]]:
    """All tables as JSON values."""
    from decoding.catalogue import drafter_kinds, drafters, targets
    from decoding.devices import free_bytes, pick_device
    from decoding.menu import misfit_of
    from decoding.settings import options_of
    from decoding.strategies import STRATEGIES
    from decoding.verifiers import VERIFIERS

    device = pick_device("auto")
    free = free_bytes(device)
    return {
        "targets": [
            {
                "id": item.id,
                "title": item.title,
                "notes": [item.help, *filter(None, [misfit_of(item.id, free, device.type)])],
            }
            for item in targets()
        ],
        "drafters": [
            {
                "id": item.id,
                "title": item.title,
                "kind": item.kind,
                "notes": [item.help, f"{item.kind}, {'with' if item.gives_logprobs else 'without'} log-probabilities"],
            }
            for item in drafters()
        ],
        "drafter kinds": [
            {"id": kind, "title": what, "kind": steps, "notes": [steps]} for kind, what, steps in drafter_kinds()
        ],
        "strategies": [
            {
                "id": name,
                "title": strategy.title,
                "notes": [
                    strategy.paper,
                    f"needs a {' or '.join(sorted(strategy.needs))} drafter"
                    + (" with log-probabilities" if strategy.needs_logprobs else "")
                    if strategy.needs
                    else "needs no drafter",
                    *([f"{strategy.retrieval} stands beside it"] if strategy.retrieval else []),
                    *([f"candidates: {' or '.join(sorted(strategy.candidates))}"] if strategy.needs else []),
                    *(option.describe() for option in options_of(strategy.settings_class).values()),
                ],
            }
            for name, strategy in STRATEGIES.items()
        ],
        "verifiers": [
            {
                "id": name,
                "title": verifier.title,
                "notes": [
                    "temperature 0" if verifier.greedy else "temperature above 0",
                    f"lossless for {verifier.lossless_for}",
                ],
            }
            for name, verifier in VERIFIERS.items()
        ],
    }

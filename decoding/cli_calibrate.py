"""`python -m decoding calibrate`: measures the thresholds of a pair, and keeps them."""

import argparse
import json
import sys
from pathlib import Path

from decoding.errors import BadRequest

HELP = "measure the pruning thresholds of a target and its drafter (Graft), once"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `calibrate`."""
    parser.add_argument("--target", metavar="ID", help="preset, Hub id or folder (default: the embedded SmolLM2-135M)")
    parser.add_argument("--drafter", metavar="ID", help="see `list` (default: the strategy's usual one)")
    parser.add_argument("--strategy", metavar="NAME", default="graft", help="default: %(default)s")
    parser.add_argument("--prompts", metavar="F", type=Path, help="UTF-8 file, a prompt on every line (default: five)")
    parser.add_argument("--max-new-tokens", metavar="N", type=int, help="tokens of every prompt's answer (default: 96)")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto", help="default: %(default)s")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="end with one JSON object")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    from decoding.calibrate import PROMPTS, TOKENS, details, measure
    from decoding.calibration import Calibration, matrix_path
    from decoding.drafters.transition_matrix import TransitionMatrix
    from decoding.model_store import ModelStore
    from decoding.models import DEFAULT_TARGET
    from decoding.strategies import make_strategy

    kind = type(make_strategy(args.strategy, {}))
    target_id = args.target or DEFAULT_TARGET
    prompts = PROMPTS if args.prompts is None else _lines(args.prompts)
    models = ModelStore()
    info = models.choose_drafter(target_id, args.drafter, kind)
    if info is None or not kind.thresholds:
        raise BadRequest(f"{kind.title} has no thresholds to calibrate.", "Try --strategy graft.")
    target = models.target(target_id, args.dtype, args.device, _report)
    drafter, retrieval = models.drafter(info.id, target, _report), models.retrieval(kind, target, _report)
    tokens = TOKENS if args.max_new_tokens is None else args.max_new_tokens
    fits = measure(target, drafter, retrieval, kind.name, {}, prompts, tokens, _report)
    thresholds = {name: fit.threshold for name, fit in fits.items()}
    path = Calibration(kind.name, target_id, info.id, thresholds, details(fits, len(prompts))).save()
    if isinstance(retrieval, TransitionMatrix):
        retrieval.save(matrix_path(target_id))
    for name, fit in fits.items():
        how_well = "no rounds to compare" if fit.discrimination is None else f"tells {fit.discrimination:.0%} of pairs"
        print(f"{name} = {fit.threshold:.3f}  ({fit.rounds} rounds, {how_well})")
    print(f"kept in {path}; runs of this pair take them where a threshold is below 0")
    if args.json:
        print(json.dumps({"path": str(path), "thresholds": thresholds, **details(fits, len(prompts))}))
    return 0


def _lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadRequest(f"The prompts {path} cannot be read: {reason}.", "Check the file.") from None


def _report(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)

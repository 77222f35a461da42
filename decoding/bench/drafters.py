"""How good drafters are: agreement with the target by position, tokens per round of chains and trees, calibration.

The target writes each answer once, plainly; every tree is then replayed on that text without it (see
`decoding.replay`: exact for greedy text, exact in distribution for sampled text; a transition matrix then misses what
the target says after rejected nodes). Nothing is timed here.
"""

import argparse
from typing import Any

from decoding.bench import measured_prompts
from decoding.bench.drafter_figures import DrafterFigures
from decoding.bench.drafter_tables import drafter_tables
from decoding.bench.drafter_trees import configs_for
from decoding.bench.measured_prompts import Measured, Progress, circumstances, fitting_prompts, read_questions
from decoding.bench.setup import load_target, say
from decoding.catalogue import drafter_info, drafters, target_info
from decoding.drafter_loading import load_drafter
from decoding.drafters.base import StepwiseDrafter
from decoding.errors import BadRequest
from decoding.fit import DrafterInfo, require_fit
from decoding.loop import Request
from decoding.replay import record, require_replayable
from decoding.sampling import Sampling
from decoding.strategies import STRATEGIES
from decoding.target import Target
from decoding.verifiers import make_verifier

PEER = "prompt-lookup"
"""Measured beside the drafters made for a target, unless drafters are named: what costs nothing is the bar."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    measured_prompts.add_arguments(parser)
    parser.add_argument("--drafters", metavar="ID", nargs="+",
                        help=f"default: all that are made for the target, and {PEER}")  # fmt: skip
    parser.add_argument("--temperatures", metavar="T", nargs="+", type=float, default=[0.0, 1.0], help="default: 0 1")
    parser.add_argument("--depth", metavar="N", type=int, default=5,
                        help="positions judged of a stepwise drafter (default %(default)s)")  # fmt: skip
    parser.add_argument("--stride", metavar="N", type=int, default=1,
                        help="judge agreement at every N-th token of a text (default: at each)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of sampled texts; default: %(default)s")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Prints a Markdown table for each drafter; the result holds the same figures, and more of them."""
    for name in ("depth", "stride"):
        if getattr(args, name) < 1:
            raise BadRequest(f"--{name} is {getattr(args, name)}.", "It must be at least 1.")
    samplings = [Sampling(temperature) for temperature in dict.fromkeys(args.temperatures)]
    questions = read_questions(args)
    infos = choose_drafters(args.target, args.drafters, (PEER,))
    target = load_target(args.target, args.dtype, args.device)
    loaded = [load_drafter(info.id, target, say) for info in infos]
    for drafter in loaded:
        require_replayable(drafter)
    measured = fitting_prompts(target, questions, args)
    progress = Progress(len(samplings) * len(measured.prompts))
    rows: list[dict[str, Any]] = [{"drafter": info.id, "kind": info.kind, "temperatures": []} for info in infos]
    for sampling in samplings:
        figures = [
            DrafterFigures(drafter, configs_for(info), args.depth, args.stride, lambda name: _source(name, target))
            for drafter, info in zip(loaded, infos, strict=True)
        ]
        _judge(target, measured, sampling, figures, args, progress)
        for row, figure in zip(rows, figures, strict=True):
            row["temperatures"].append(figure.result(sampling.temperature))
    result = {
        "benchmark": "drafters",
        **circumstances(target, measured, args),
        "seed": args.seed,
        "stride": args.stride,
        "drafters": rows,
    }
    for row in rows:
        print(drafter_tables(row, measured.counts))
    measured_prompts.write_result(args.out, result)
    return result


def choose_drafters(target_id: str, given: list[str] | None, peers: tuple[str, ...] = ()) -> list[DrafterInfo]:
    """The drafters to judge: those `given`, else those made for the target and the `peers`.

    Raises Incompatible for one that does not fit, BadRequest where there is none, before anything loads.
    """
    target = target_info(target_id)
    names = given or [*(info.id for info in drafters() if target.id in info.made_for), *peers]
    if not names:
        raise BadRequest(f"No drafter is made for {target.title}.", "Name some with --drafters.")
    infos = [drafter_info(name) for name in dict.fromkeys(names)]
    for info in infos:
        require_fit(target, info, STRATEGIES["linear"])  # which takes a drafter of any kind
    return infos


def _judge(
    target: Target,
    measured: Measured,
    sampling: Sampling,
    figures: list[DrafterFigures],
    args: argparse.Namespace,
    progress: Progress,
) -> None:
    """Has the target answer every prompt once, and judges all drafters on the answer."""
    sources = [source for figure in figures for source in figure.sources]
    taps = tuple(sorted({tap for source in sources for tap in source.taps}))
    opinions = max(source.wants_prompt_next for source in sources)
    for index, prompt in enumerate(measured.prompts):
        request = Request(prompt.question.prompt, prompt.ids, args.max_new_tokens, args.seed + index)
        recording = record(target, make_verifier(None, sampling), request, taps, opinions)
        for figure in figures:
            figure.add(prompt.question.category, recording)
        what = f"{prompt.question.category} {prompt.question.id} at temperature {sampling.temperature:g}"
        progress.step(f"{what}: {len(recording.output_ids)} tokens")


def _source(name: str, target: Target) -> StepwiseDrafter:
    """A retrieval source for one row of figures: what it learns from a text, another row must not know yet."""
    source = load_drafter(name, target, say)
    if not isinstance(source, StepwiseDrafter):
        raise TypeError(f"{name} is no stepwise source")
    return source

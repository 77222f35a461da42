"""Decoding time by category: plain decoding, Hugging Face's generate, its prompt lookup and assisted form, and trees.

All ways run prompt by prompt in turn, in one process, on one model in one dtype, greedily. Only decoding is timed (see
`decoding.bench.speed_ways` for the convention, `decoding.bench.speed_figures` for what a speedup is).
"""

import argparse
import time
from typing import Any, NamedTuple

from decoding.bench import measured_prompts
from decoding.bench.measured_prompts import (
    Measured,
    MeasuredPrompt,
    Progress,
    circumstances,
    fitting_prompts,
    read_questions,
)
from decoding.bench.setup import prompt_ids, say
from decoding.bench.speed_figures import Rows, speed_table, typical, way_figures
from decoding.bench.speed_ways import ASSISTED, GENERATE, LOOKUP, PLAIN, Way, generate, in_turn, ours, parse_config
from decoding.catalogue import usual_drafter
from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.base import Drafter
from decoding.errors import BadRequest, Incompatible
from decoding.fit import DrafterInfo
from decoding.measuring import Question
from decoding.model_config import CAUSAL_LM
from decoding.model_store import ModelStore
from decoding.run import WARM_UP
from decoding.shipped import SHIPPED
from decoding.strategies import STRATEGIES, make_strategy
from decoding.target import Target

WARM_UP_TOKENS = 12


class Started(NamedTuple):
    """The models, and what loading them took."""

    target: Target
    drafters: dict[str, Drafter]
    seconds: dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    measured_prompts.add_arguments(parser)
    parser.add_argument("--config", metavar="STRATEGY[:DRAFTER[:KEY=VALUE,…]]", action="append", dest="configs",
                        help="a way of ours, repeatable (default: every strategy with its usual drafter)")  # fmt: skip
    parser.add_argument("--prompt-lookup-tokens", metavar="N", type=int, default=8,
                        help="of Hugging Face's prompt lookup, 0 to leave it out; default: %(default)s")  # fmt: skip
    parser.add_argument("--assistant", metavar="ID",
                        help="a small language model for Hugging Face's assisted generation, none to leave it out; "
                             "default: the one that is made for the target")  # fmt: skip
    parser.add_argument("--no-generate", action="store_true",
                        help="leave plain `generate` out, which takes most of the time: a speedup is then over our own "
                             "plain decoding, and the same where that is the faster")  # fmt: skip
    parser.add_argument("--repeats", metavar="N", type=int, default=1,
                        help="runs of every prompt by every way, the median counts; default: %(default)s")  # fmt: skip


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Prints a Markdown table; the result holds the same figures, and more of them."""
    for name, least in (("repeats", 1), ("prompt_lookup_tokens", 0)):
        if getattr(args, name) < least:
            raise BadRequest(f"--{name.replace('_', '-')} is {getattr(args, name)}.", f"It must be at least {least}.")
    questions = read_questions(args)
    contenders = [parse_config(text) for text in dict.fromkeys(args.configs or usual_configs(args.target))]
    models = ModelStore()
    infos = [models.choose_drafter(args.target, c.drafter, STRATEGIES[c.strategy]) for c in contenders]
    started = _start(models, [info for info in infos if info is not None], args)
    target = started.target
    measured = fitting_prompts(target, questions, args)
    ways = [ours(PLAIN, target, None, lambda: make_strategy("ar", {}))]
    if not args.no_generate:
        ways.append(generate(GENERATE, target, {}))
    if args.prompt_lookup_tokens:
        ways.append(generate(LOOKUP, target, {"prompt_lookup_num_tokens": args.prompt_lookup_tokens}))
    if (assistant := _assistant(models, target, args)) is not None:
        ways.append(generate(ASSISTED, target, {"assistant_model": assistant}))
    drafter_ids = [info.id if info is not None else None for info in infos]
    for contender, drafter_id in zip(contenders, drafter_ids, strict=True):
        drafter = started.drafters[drafter_id] if drafter_id is not None else None
        retrieval = models.retrieval(STRATEGIES[contender.strategy], target, say)
        ways.append(ours(contender.text, target, drafter, contender.make, retrieval))
    rows = _time(ways, measured, target, args)
    figures = [way_figures(rows, way.name) for way in ways]
    for figure, contender, drafter_id in zip(figures[-len(contenders) :], contenders, drafter_ids, strict=True):
        settings = contender.make().settings.as_dict()
        figure |= {"strategy": contender.strategy, "drafter": drafter_id, "settings": settings}
    result = {
        "benchmark": "speed",
        **circumstances(target, measured, args),
        "repeats": args.repeats,
        "prompt_lookup_tokens": args.prompt_lookup_tokens,
        "start_seconds": started.seconds,
        "ways": figures,
    }
    print(speed_table(figures, measured.counts))
    measured_prompts.write_result(args.out, result)
    return result


def _assistant(models: ModelStore, target: Target, args: argparse.Namespace) -> Any:
    """The model for assisted generation; None where it is left out or none is made for the target.

    Raises Incompatible for a drafter that is no language model.
    """
    name = args.assistant
    if name is None:
        name = next((s.id for s in SHIPPED if s.target == args.target and s.kind == CAUSAL_LM), "none")
    if name == "none":
        return None
    drafter = models.drafter(name, target, say)
    if not isinstance(drafter, Autoregressive):
        raise Incompatible(f"{name} is no language model.", "Give --assistant a small model with the same vocabulary.")
    return drafter.model.model


def usual_configs(target_id: str) -> list[str]:
    """Every strategy that drafts, with the drafter it takes for this target where none is named."""
    found = []
    for name, strategy in STRATEGIES.items():
        drafter = usual_drafter(target_id, strategy)
        if drafter is not None:
            found.append(f"{name}:{drafter}")
    return found


def _start(models: ModelStore, infos: list[DrafterInfo], args: argparse.Namespace) -> Started:
    """Loads everything; seconds from the files in the cache to models that are ready, libraries imported before."""
    start = time.perf_counter()
    target = models.target(args.target, args.dtype, args.device, say)
    seconds: dict[str, Any] = {"target": time.perf_counter() - start, "drafters": {}}
    loaded = {}
    for info in infos:
        before = time.perf_counter()
        loaded[info.id] = models.drafter(info.id, target, say)
        seconds["drafters"].setdefault(info.id, time.perf_counter() - before)
    seconds["total"] = time.perf_counter() - start
    return Started(target, loaded, seconds)


def _time(ways: list[Way], measured: Measured, target: Target, args: argparse.Namespace) -> Rows:
    """Every prompt by every way, `--repeats` times; a warm-up run of each goes before and is not counted."""
    warm_up = MeasuredPrompt(Question("warm-up", "", WARM_UP), prompt_ids(target, WARM_UP))
    for way in ways:
        say(f"warming up: {way.name}")
        way.run(warm_up, min(WARM_UP_TOKENS, args.max_new_tokens))
    progress = Progress(len(measured.prompts))
    rows = []
    for index, prompt in enumerate(measured.prompts):
        turns = [
            {way.name: way.run(prompt, args.max_new_tokens) for way in in_turn(ways, index * args.repeats + repeat)}
            for repeat in range(args.repeats)
        ]
        runs = {way.name: typical([turn[way.name] for turn in turns]) for way in ways}
        rows.append((prompt.question.category, runs))
        progress.step(f"{prompt.question.category} {prompt.question.id}: {len(runs[PLAIN].output_ids)} tokens")
    return rows

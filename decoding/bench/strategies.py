"""Which of the orders that the papers claim hold for a target and its drafters: tokens per round, and speed by cost.

The target writes each answer once, plainly and greedily. What learns nothing from the target's opinions is replayed on
that text, exactly (see `decoding.replay`); what retrieves by a transition matrix is decoded, the matrix as it ships at
the beginning of every run. A speed is tokens over what their rounds cost. Verifying costs what a tree of as many nodes
took at that context, measured once before (`decoding.round_costs`), and so does the draft of a one-pass drafter: these
figures are free of the run's noise. A stepwise draft costs the seconds of the stages draft and retrieve as measured in
this very run. Whatever else a round does is not counted. Figures are means over prompts; ± is the standard error of
the mean difference, prompt by prompt.
"""

import argparse
from typing import Any

from decoding.bench import measured_prompts
from decoding.bench.drafters import choose_drafters
from decoding.bench.measured_prompts import Measured, Progress, circumstances, fitting_prompts, read_questions
from decoding.bench.setup import load_target, prompt_ids, say
from decoding.bench.speed import WARM_UP_TOKENS
from decoding.bench.strategy_claims import claims_table, judge
from decoding.bench.strategy_plans import plan_for
from decoding.bench.strategy_ways import WayRuns, most_nodes
from decoding.cost_probe import described, measure
from decoding.drafter_loading import load_drafter
from decoding.drafters.base import Drafter
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.errors import BadRequest
from decoding.fit import DrafterInfo
from decoding.loop import Request
from decoding.replay import record
from decoding.run import WARM_UP, calibrated
from decoding.sampling import Sampling
from decoding.settings import Settings
from decoding.strategies.base import Strategy
from decoding.target import Target
from decoding.verifiers import make_verifier

BUDGETS = (8, 16, 32, 64, 128)
COST_SECONDS = 30.0
"""For measuring the costs, where that takes so long."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    measured_prompts.add_arguments(parser)
    parser.add_argument("--drafters", metavar="ID", nargs="+", help="default: all that are made for the target")
    parser.add_argument("--budgets", metavar="N", nargs="+", type=int, default=list(BUDGETS),
                        help=f"nodes of the trees compared; default: {' '.join(map(str, BUDGETS))}")  # fmt: skip


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Prints the claims as a Markdown table; the result holds them and the figures of every way."""
    budgets = sorted(set(args.budgets))
    for budget in budgets:
        if not 1 <= budget <= 1024:
            raise BadRequest(f"--budgets names {budget}.", "A tree has from 1 to 1024 drafted nodes.")
    questions = read_questions(args)
    infos = choose_drafters(args.target, args.drafters)
    target = load_target(args.target, args.dtype, args.device)
    drafters = [load_drafter(info.id, target, say) for info in infos]
    measured = fitting_prompts(target, questions, args)
    categories = [name for name, count in measured.counts.items() if count]
    runs = [_runs(target, drafter, info, budgets, categories) for drafter, info in zip(drafters, infos, strict=True)]
    _run_all(target, measured, runs, args)
    rows = [
        {
            "drafter": info.id,
            "kind": info.kind,
            "costs": each.costs.as_json() if each.costs is not None else None,
            "ways": each.results(),
            "claims": [judge(claim, each.figures) for claim in each.plan.claims],
        }
        for info, each in zip(infos, runs, strict=True)
    ]
    result = {
        "benchmark": "strategies",
        **circumstances(target, measured, args),
        "budgets": budgets,
        "drafters": rows,
    }
    print(claims_table(rows))
    measured_prompts.write_result(args.out, result)
    return result


def _runs(target: Target, drafter: Drafter, info: DrafterInfo, budgets: list[int], categories: list[str]) -> WayRuns:
    """The ways of one drafter. Costs are measured here, not taken from those kept: larger trees than pay are needed,
    and a table of another hour would be set against seconds of this one."""
    plan = plan_for(drafter, budgets, categories)
    costs = None
    if plan.needs_costs:
        say(f"measuring what rounds with {info.id} cost")
        costs = measure(target, drafter, COST_SECONDS, most_nodes(plan) + 1)
        say(f"at {costs.contexts[0]} positions: {described(costs)}")

    def strategy_of(title: str) -> Strategy[Settings]:
        _, config = plan.ways[title]
        return calibrated(config.make(), target.name, info.id)

    matrix = load_drafter(TransitionMatrix.name, target, say)
    if not isinstance(matrix, TransitionMatrix):
        raise TypeError(f"{matrix.name} is no transition matrix")
    return WayRuns(target, drafter, matrix, plan, strategy_of, costs)


def _run_all(target: Target, measured: Measured, runs: list[WayRuns], args: argparse.Namespace) -> None:
    """Has the target answer every prompt once, and runs all ways of all drafters on it; a warm-up is not counted."""
    taps = tuple(sorted({tap for each in runs for tap in each.drafter.taps}))
    verifier = make_verifier(None, Sampling())
    say("warming up")
    warm_up = Request(WARM_UP, prompt_ids(target, WARM_UP), min(WARM_UP_TOKENS, args.max_new_tokens))
    heard = record(target, verifier, warm_up, taps)
    for each in runs:
        each.outcomes(heard)
    progress = Progress(len(measured.prompts))
    for prompt in measured.prompts:
        request = Request(prompt.question.prompt, prompt.ids, args.max_new_tokens)
        recording = record(target, verifier, request, taps)
        for each in runs:
            each.add(prompt.question.category, recording)
        progress.step(f"{prompt.question.category} {prompt.question.id}: {len(recording.output_ids)} tokens")

"""Warm-up (Graft, C.3): decodes prompts with whole drafts, to measure thresholds and to fill the retrieval source.

The paper takes five rounds of ShareGPT; here it is five prompts of this project, or those of the user.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decoding.drafters.base import Drafter, StepwiseDrafter
from decoding.errors import BadRequest
from decoding.loop import Request, decode
from decoding.prompts import encode_prompt
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.strategies.graft_gates import Fit, Sample, fit_block, fit_gates
from decoding.target import Target
from decoding.types import Round
from decoding.verifiers import make_verifier

PROMPTS = (
    "Write a Python function that returns the n-th Fibonacci number, and explain how it works.",
    "A shop sells pens at 3 for 2 euros. How much do 21 pens cost? Show each step.",
    "Summarise in three sentences why leaves turn yellow in autumn.",
    "Plan a weekend in a small town by the sea for a family with two children.",
    "Translate to French, then explain the grammar: The train that I wanted to take has already left.",
)
TOKENS = 96


@dataclass(frozen=True)
class Way:
    """How a strategy is measured: settings of its whole draft, and what is read off the rounds."""

    whole: Mapping[str, object]
    fit: Callable[[Sequence[Sample]], dict[str, Fit]]


WAYS: dict[str, Way] = {
    "graft": Way({"prune": False, "retrieve": False}, fit_gates),
    "graft-block": Way({"prune": False, "retrieve": False}, fit_block),
}
"""By strategy. Each records the `confidence` of its drafts, and `Strategy.thresholds` are what is fitted."""


def measure(
    target: Target,
    drafter: Drafter,
    retrieval: StepwiseDrafter | None,
    strategy: str,
    settings: Mapping[str, object],
    prompts: Sequence[str] = PROMPTS,
    max_new_tokens: int = TOKENS,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, Fit]:
    """The fits of the strategy's thresholds over greedy runs of `prompts`; `retrieval` learns from the same runs.

    Raises BadRequest for a strategy without thresholds and where there is no prompt.
    """
    if strategy not in WAYS:
        raise BadRequest(f"{strategy} has no thresholds to calibrate.", f"Choose one of: {', '.join(WAYS)}.")
    if not prompts:
        raise BadRequest("There are no prompts to calibrate with.", "Give a file with a prompt on every line.")
    way = WAYS[strategy]
    samples: list[Sample] = []
    for number, prompt in enumerate(prompts, start=1):
        report(f"warm-up {number} of {len(prompts)}")
        request = Request(prompt, encode_prompt(target.tokenizer, prompt), max_new_tokens)
        whole = make_strategy(strategy, {**settings, **way.whole})
        for event in decode(target, drafter, whole, make_verifier(None, Sampling()), request, retrieval=retrieval):
            if isinstance(event, Round) and "confidence" in event.decision:
                samples.append(Sample(event.decision["confidence"], event.verdict.accepted))
    return way.fit(samples)


def details(fits: Mapping[str, Fit], prompts: int) -> dict[str, Any]:
    """What a calibration file tells beside the thresholds."""
    return {
        "prompts": prompts,
        "rounds": {name: fit.rounds for name, fit in fits.items()},
        "discrimination": {name: fit.discrimination for name, fit in fits.items()},
    }

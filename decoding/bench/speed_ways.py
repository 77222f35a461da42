"""The ways of decoding that `bench speed` sets against each other, each as one timed run of one prompt.

The convention is one for all: the clock starts when the first new tokens are there (the prompt has been read, by the
drafter too) and stops when the run has returned; the tokens that came first are not counted. Ours always begins with
one token. Hugging Face's prompt lookup drafts behind the prompt at once and may begin with several.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from decoding.bench.measured_prompts import MeasuredPrompt
from decoding.drafters.base import Drafter, StepwiseDrafter
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.errors import BadRequest
from decoding.loop import Request, decode
from decoding.sampling import Sampling
from decoding.settings import Settings
from decoding.strategies import STRATEGIES, make_strategy
from decoding.strategies.base import Strategy
from decoding.target import Target
from decoding.types import Round, Summary
from decoding.verifiers import make_verifier

PLAIN = "plain"
GENERATE = "generate"
LOOKUP = "generate, prompt lookup"
ASSISTED = "generate, assisted"


class Timed(NamedTuple):
    """One run of one prompt."""

    output_ids: tuple[int, ...]
    first: int
    """Tokens that were there when the clock started."""
    prefill_seconds: float
    """From the call until then."""
    decode_seconds: float
    rounds: int | None
    """Target passes after the prefill; None where they cannot be seen."""

    @property
    def tokens(self) -> int:
        """Tokens written while the clock ran."""
        return len(self.output_ids) - self.first


class Way(NamedTuple):
    """A way of decoding: its name in tables, and a run of a prompt with so many new tokens at most."""

    name: str
    run: Callable[[MeasuredPrompt, int], Timed]


class Contender(NamedTuple):
    """A `--config`, taken apart."""

    text: str
    strategy: str
    drafter: str | None
    """None takes the strategy's usual one."""
    settings: dict[str, str]

    def make(self) -> Strategy[Settings]:
        """A fresh strategy; raises UnknownName or BadRequest."""
        return make_strategy(self.strategy, self.settings)


def parse_config(text: str) -> Contender:
    """`strategy:drafter:key=value,...`; drafter and settings may be left out. Raises BadRequest."""
    strategy, _, rest = text.partition(":")
    drafter, _, listed = rest.partition(":")
    settings = {}
    for item in filter(None, listed.split(",")):
        name, equals, value = item.partition("=")
        if not equals:
            raise BadRequest(
                f"--config {text!r}: {item!r} is not of the form key=value.",
                "For example: --config ddtree:my/drafter:budget=16",
            )
        settings[name.strip()] = value
    contender = Contender(text, strategy.strip(), drafter.strip() or None, settings)
    if not STRATEGIES[contender.make().name].needs:
        raise BadRequest(f"--config {text!r} is plain decoding.", "It is always measured; give one that drafts.")
    return contender


def ours(
    name: str,
    target: Target,
    drafter: Drafter | None,
    make: Callable[[], Strategy[Settings]],
    retrieval: StepwiseDrafter | None = None,
) -> Way:
    """Decoding through our loop. What was learnt in earlier runs is forgotten first: every run starts alike."""
    verifier = make_verifier(None, Sampling())

    def run(prompt: MeasuredPrompt, count: int) -> Timed:
        for source in (drafter, retrieval):
            if isinstance(source, TransitionMatrix):
                source.clear()
        request = Request(prompt.question.prompt, prompt.ids, count)
        start = time.perf_counter()
        events = decode(target, drafter, make(), verifier, request, retrieval=retrieval)
        next(events)
        first = time.perf_counter()
        *rounds, last = events
        end = time.perf_counter()
        assert isinstance(last, Summary)
        passes = sum(isinstance(item, Round) for item in rounds)
        return Timed(last.output_ids, 1, first - start, end - first, passes)

    return Way(name, run)


def generate(name: str, target: Target, options: dict[str, Any]) -> Way:
    """Hugging Face's greedy `generate` on the same model, ending at the same tokens; `options` are added."""

    def run(prompt: MeasuredPrompt, count: int) -> Timed:
        ids = torch.tensor([prompt.ids], device=target.device)
        seen = _FirstTokens()
        start = time.perf_counter()
        with torch.inference_mode():
            output = target.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=count,
                do_sample=False,
                eos_token_id=list(target.end_ids) or None,
                pad_token_id=0,
                streamer=seen,
                **options,
            )
        new = tuple(output[0, ids.shape[1] :].tolist())
        end = time.perf_counter()
        return Timed(new, seen.count, seen.at - start, end - seen.at, None)

    return Way(name, run)


class _FirstTokens:
    """A streamer that notes when the first new tokens came, and how many."""

    def __init__(self) -> None:
        self.at = 0.0
        self.count = 0
        self._calls = 0

    def put(self, tokens: torch.Tensor) -> None:
        """Called with the prompt, then with the new tokens of each step, which are on the host by then."""
        self._calls += 1
        if self._calls == 2:
            self.at, self.count = time.perf_counter(), tokens.numel()

    def end(self) -> None:
        """Nothing to flush."""


def in_turn(ways: Sequence[Way], turn: int) -> list[Way]:
    """All ways, another one first at every turn: what runs first finds other caches than what runs last."""
    first = turn % len(ways)
    return [*ways[first:], *ways[:first]]

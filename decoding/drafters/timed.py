"""Drafters seen through a clock: a strategy's calls to its drafter are charged to the stage `draft`."""

from torch import Tensor

from decoding.drafters.base import Candidates, Drafter, Observation, OnePassDrafter, StepwiseDrafter
from decoding.stage_clock import StageClock
from decoding.template import Template
from decoding.types import Ints, Marginals, Tree


def timed(drafter: Drafter, clock: StageClock) -> Drafter:
    """A view of `drafter` of the same kind, for the strategy of one run."""
    if isinstance(drafter, OnePassDrafter):
        return _TimedOnePass(drafter, clock)
    if isinstance(drafter, StepwiseDrafter):
        return _TimedStepwise(drafter, clock)
    raise TypeError(f"{type(drafter).__name__} is neither a one-pass nor a stepwise drafter")


class _Timed(Drafter):
    def __init__(self, drafter: Drafter, clock: StageClock) -> None:
        self.inner = drafter
        self.clock = clock
        self.name = drafter.name
        self.vocab_size = drafter.vocab_size
        self.taps = drafter.taps
        self.wants_prompt_next = drafter.wants_prompt_next
        self.source = drafter.source
        self.gives_logprobs = drafter.gives_logprobs

    def begin(self, capacity: int) -> None:
        self.inner.begin(capacity)

    def observe(self, observation: Observation) -> None:
        self.inner.observe(observation)


class _TimedOnePass(_Timed, OnePassDrafter):
    inner: OnePassDrafter

    @property
    def positions(self) -> int:  # type: ignore[override]
        return self.inner.positions

    def marginals(self, root: int, k: int) -> Marginals:
        with self.clock.stage("draft"):
            return self.inner.marginals(root, k)

    def logits(self, root: int) -> Tensor:
        with self.clock.stage("draft"):
            return self.inner.logits(root)


class _TimedStepwise(_Timed, StepwiseDrafter):
    inner: StepwiseDrafter

    def start(self, root: int, k: int) -> Candidates:
        with self.clock.stage("draft"):
            return self.inner.start(root, k)

    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        with self.clock.stage("draft"):
            return self.inner.expand(tokens, parents, k)

    def start_logits(self, root: int) -> Tensor | None:
        with self.clock.stage("draft"):
            return self.inner.start_logits(root)

    def expand_logits(self, tokens: Ints, parents: Ints) -> Tensor | None:
        with self.clock.stage("draft"):
            return self.inner.expand_logits(tokens, parents)

    def fill(self, root: int, template: Template) -> Tree:
        with self.clock.stage("draft"):
            return self.inner.fill(root, template)

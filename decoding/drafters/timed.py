"""Drafters seen through a clock: a strategy's calls to a drafter are charged to one stage."""

from collections.abc import Callable

from torch import Tensor

from decoding.drafters.base import (
    Candidates,
    Distributions,
    Drafter,
    Filled,
    Observation,
    OnePassDrafter,
    StepwiseDrafter,
)
from decoding.kernels.sequel import Sequel
from decoding.sampling import Sampling
from decoding.stage_clock import StageClock
from decoding.template import Template
from decoding.types import Ints, Marginals


def timed(drafter: Drafter, clock: StageClock) -> Drafter:
    """A view of a run's main drafter, of the same kind; its calls are charged to `draft`."""
    if isinstance(drafter, OnePassDrafter):
        return _TimedOnePass(drafter, clock, "draft")
    if isinstance(drafter, StepwiseDrafter):
        return _TimedStepwise(drafter, clock, "draft")
    raise TypeError(f"{type(drafter).__name__} is neither a one-pass nor a stepwise drafter")


def timed_retrieval(source: StepwiseDrafter, clock: StageClock) -> StepwiseDrafter:
    """A view of the retrieval source beside it; charged to `retrieve`.

    On CUDA that is the time on the main stream, thus what retrieval adds to the round: what runs beside the drafter
    on a stream of its own does not count.
    """
    return _TimedStepwise(source, clock, "retrieve")


class _Timed(Drafter):
    def __init__(self, drafter: Drafter, clock: StageClock, stage: str) -> None:
        self.inner = drafter
        self.clock = clock
        self.stage = stage
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

    @property
    def draft_tokens(self) -> Ints | None:  # type: ignore[override]
        return self.inner.draft_tokens

    def marginals(self, root: int, k: int) -> Marginals:
        with self.clock.stage(self.stage):
            return self.inner.marginals(root, k)

    def sequel(self) -> Sequel:
        with self.clock.stage(self.stage):
            return self.inner.sequel()

    def logits(self, root: int) -> Tensor:
        with self.clock.stage(self.stage):
            return self.inner.logits(root)

    def distributions(self, root: int, k: int, sampling: Sampling) -> Distributions:
        with self.clock.stage(self.stage):
            return self.inner.distributions(root, k, sampling)


class _TimedStepwise(_Timed, StepwiseDrafter):
    inner: StepwiseDrafter

    def start(self, root: int, k: int) -> Candidates:
        with self.clock.stage(self.stage):
            return self.inner.start(root, k)

    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        with self.clock.stage(self.stage):
            return self.inner.expand(tokens, parents, k)

    def look_up(self, given: Ints, template: Template) -> Filled:
        with self.clock.stage(self.stage):
            return self.inner.look_up(given, template)

    def successors(self) -> Ints | None:
        return self.inner.successors()

    def look_up_soon(self, given: Ints, template: Template) -> Callable[[], Filled]:
        with self.clock.stage(self.stage):
            return self.clock.charge(self.stage, self.inner.look_up_soon(given, template))

    def start_logits(self, root: int) -> Tensor | None:
        with self.clock.stage(self.stage):
            return self.inner.start_logits(root)

    def expand_logits(self, tokens: Ints, parents: Ints) -> Tensor | None:
        with self.clock.stage(self.stage):
            return self.inner.expand_logits(tokens, parents)

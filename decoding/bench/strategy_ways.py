"""Runs every way of a plan on one prompt after the other: replayed on the recorded text where that is exact."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from decoding.bench.marginals_as_steps import MarginalsAsSteps
from decoding.bench.position_marginals import PositionMarginals
from decoding.bench.strategy_figures import Outcome, WayFigures, outcome
from decoding.bench.strategy_plans import How, Plan
from decoding.drafters.base import Drafter, OnePassDrafter
from decoding.drafters.timed import timed
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.loop import Request, decode
from decoding.replay import Recording, replay
from decoding.round_costs import RoundCosts
from decoding.sampling import Sampling
from decoding.settings import Settings
from decoding.stage_clock import StageClock
from decoding.strategies.base import Strategy
from decoding.target import Target
from decoding.types import Round, Summary
from decoding.verifiers import make_verifier

MOST_CHOICES = 16
"""More candidates of a node than any strategy of a plan asks for beside its budget."""

StrategyOf = Callable[[str], Strategy[Settings]]
"""The title of a way to a fresh strategy."""


def most_nodes(plan: Plan) -> int:
    """Drafted nodes of the largest tree of a plan, those left out that go by the costs themselves."""
    strategies = [config.make() for _, config in plan.ways.values()]
    return max(strategy.max_nodes for strategy in strategies if not strategy.wants_costs)


class WayRuns:
    """The ways of one drafter and what they have come to so far."""

    def __init__(
        self,
        target: Target,
        drafter: Drafter,
        matrix: TransitionMatrix,
        plan: Plan,
        strategy_of: StrategyOf,
        costs: RoundCosts | None,
    ) -> None:
        """`matrix` is what stands beside the drafter, and what drafts alone; it forgets before every run."""
        self.plan = plan
        self.costs = costs
        self.drafter = drafter
        self.figures: Mapping[str, WayFigures] = {title: WayFigures() for title in plan.ways}
        self._target = target
        self._matrix = matrix
        self._strategy_of = strategy_of
        replayed = [strategy_of(title) for title, (how, _) in plan.ways.items() if not how.decodes]
        self._columns = max([MOST_CHOICES, *(strategy.columns for strategy in replayed)])

    def add(self, category: str, recording: Recording) -> None:
        """Runs every way on a prompt and keeps what it came to."""
        for title, result in self.outcomes(recording).items():
            self.figures[title].rows.append((category, result))

    def outcomes(self, recording: Recording) -> dict[str, Outcome]:
        """Runs every way on a prompt, for which plain decoding wrote `recording`."""
        drafter = self.drafter
        table = PositionMarginals(drafter, recording, self._columns) if isinstance(drafter, OnePassDrafter) else None
        return {title: self._outcome(title, recording, table) for title in self.plan.ways}

    def _outcome(self, title: str, recording: Recording, table: PositionMarginals | None) -> Outcome:
        how, _ = self.plan.ways[title]
        strategy, costs = self._strategy_of(title), self.costs
        source: Drafter | None = self.drafter if strategy.needs else None
        if how is How.RETRIEVED:
            source = self._matrix
        elif how is How.OVER_MARGINALS and table is not None:
            source, costs = MarginalsAsSteps(table, self._columns), None
        elif how is How.REPLAYED and table is not None and source is not None:
            source = table
        if how.decodes:
            rounds, output = self._decoded(source, strategy, recording)
        else:
            rounds, output = list(self._replayed(source, strategy, recording)), recording.output_ids
        return outcome(rounds, costs, isinstance(source, OnePassDrafter), output == recording.output_ids)

    def _replayed(self, source: Drafter | None, strategy: Strategy[Settings], recording: Recording) -> Iterator[Round]:
        clock = StageClock(self._target.device)
        view = timed(source, clock) if source is not None else None
        for item in replay(recording, view, strategy):
            yield replace(item, seconds=clock.take())

    def _decoded(
        self, source: Drafter | None, strategy: Strategy[Settings], recording: Recording
    ) -> tuple[list[Round], tuple[int, ...]]:
        for learnt in (self._matrix, source):
            if isinstance(learnt, TransitionMatrix):
                learnt.clear()
        strategy.costs = self.costs
        request = Request("", recording.prompt_ids, recording.max_new_tokens)
        retrieval = self._matrix if strategy.retrieval is not None else None
        verifier = make_verifier(None, Sampling())
        _, *rounds, last = decode(self._target, source, strategy, verifier, request, retrieval=retrieval)
        assert isinstance(last, Summary)
        return [item for item in rounds if isinstance(item, Round)], last.output_ids

    def results(self) -> list[dict[str, Any]]:
        """JSON values: every way with how it was run."""
        return [
            {
                "way": title,
                "how": how.value,
                "strategy": config.strategy,
                "settings": self._strategy_of(title).settings.as_dict(),
                **self.figures[title].result(),
            }
            for title, (how, config) in self.plan.ways.items()
        ]

"""What is added up of one drafter at one temperature: agreement, tokens per round, calibration."""

from collections.abc import Callable
from typing import Any

from decoding.bench.agreement import Agreement, judge_marginals, judge_steps
from decoding.bench.by_category import by_category, mean_and_pooled
from decoding.bench.calibration import Calibration
from decoding.bench.drafter_trees import Config
from decoding.bench.position_marginals import PositionMarginals
from decoding.drafters.base import Drafter, OnePassDrafter, StepwiseDrafter
from decoding.replay import Recording, replay
from decoding.strategies import STRATEGIES

RetrievalOf = Callable[[str], StepwiseDrafter]
"""The id of a retrieval source to a fresh one."""


class ConfigFigures:
    """Replayed rounds of one drafter in one configuration of trees."""

    def __init__(self, config: Config, gives_logprobs: bool, retrieval_of: RetrievalOf) -> None:
        self.config = config
        name = STRATEGIES[config.strategy].retrieval
        self.retrieval = retrieval_of(name) if name is not None else None
        self._calibration = Calibration() if gives_logprobs and self.retrieval is None else None
        self._rows: list[tuple[str, tuple[float, float]]] = []

    def add(self, category: str, recording: Recording, drafter: Drafter) -> None:
        """Replays a text."""
        rounds, written = 0, 1
        for item in replay(recording, drafter, self.config.make(), self.retrieval):
            if self._calibration is not None:
                self._calibration.add(item.tree, item.verdict.path, len(recording.output_ids) - written)
            rounds, written = rounds + 1, written + len(item.emitted)
        self._rows.append((category, (written - 1, rounds)))

    def result(self) -> dict[str, Any]:
        """`tokens_per_round`: bonus included, the first token of a text not counted (it belongs to the prefill)."""
        return {
            "title": self.config.title,
            "strategy": self.config.strategy,
            "settings": self.config.make().settings.as_dict(),
            "tokens_per_round": by_category(self._rows, mean_and_pooled),
            "calibration": self._calibration.result() if self._calibration is not None else None,
        }


class DrafterFigures:
    """All figures of one drafter at one temperature."""

    def __init__(
        self, drafter: Drafter, configs: tuple[Config, ...], depth: int, stride: int, retrieval_of: RetrievalOf
    ) -> None:
        self.drafter = drafter
        self._stride = stride
        self._configs = [ConfigFigures(config, drafter.gives_logprobs, retrieval_of) for config in configs]
        self._agreement = Agreement(drafter.positions if isinstance(drafter, OnePassDrafter) else depth)
        self._depth = depth

    @property
    def sources(self) -> list[Drafter]:
        """All that observe the text."""
        return [self.drafter, *(part.retrieval for part in self._configs if part.retrieval is not None)]

    def add(self, category: str, recording: Recording) -> None:
        """Judges the drafter on a text."""
        drafter = self.drafter
        if isinstance(drafter, OnePassDrafter):
            widest = max(figures.config.make().columns for figures in self._configs)
            table = PositionMarginals(drafter, recording, widest)
            judge_marginals(self._agreement, table, recording, self._stride)
            drafter = table
        elif isinstance(drafter, StepwiseDrafter):
            judge_steps(self._agreement, drafter, recording, self._depth, self._stride)
        for figures in self._configs:
            figures.add(category, recording, drafter)

    def result(self, temperature: float) -> dict[str, Any]:
        """JSON values; see the parts."""
        return {
            "temperature": temperature,
            "agreement": self._agreement.result(),
            "trees": [figures.result() for figures in self._configs],
        }

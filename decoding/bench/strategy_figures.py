"""What a strategy came to on every prompt: tokens per round, and tokens per second by what its rounds cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from decoding.bench.by_category import ALL, by_category, mean_and_pooled
from decoding.round_costs import RoundCosts
from decoding.types import Round

STEP_STAGES = ("draft", "retrieve")
"""Stages of a round whose measured seconds are the cost of a stepwise draft."""


class Outcome(NamedTuple):
    """One prompt, decoded in one way. The first token belongs to the prefill and is not counted."""

    tokens: int
    """Emitted, bonus included."""
    rounds: int
    nodes: int
    """Drafted in all rounds, roots not counted."""
    milliseconds: float | None
    """What the rounds cost; None where costs were not measured."""
    same_output: bool
    """Whether the text is that of plain decoding."""


def outcome(rounds: Sequence[Round], costs: RoundCosts | None, one_pass: bool, same_output: bool) -> Outcome:
    """Adds up the rounds of one prompt; see `round_milliseconds`."""
    spent = None if costs is None else sum(round_milliseconds(item, costs, one_pass) for item in rounds)
    tokens, nodes = sum(len(item.emitted) for item in rounds), sum(item.tree.drafted for item in rounds)
    return Outcome(tokens, len(rounds), nodes, spent, same_output)


def round_milliseconds(item: Round, costs: RoundCosts, one_pass: bool) -> float:
    """Verifying by the cost curve, at the round's nodes and context. Drafting: of a one-pass drafter by the curve too,
    where the round drafted; of a stepwise drafter, and of the look-ups beside it, the seconds measured in the run."""
    verifying = float(costs.verify(item.cache_before, item.tree.drafted)[-1])
    if not one_pass:
        return verifying + 1000 * sum(item.seconds.get(stage, 0.0) for stage in STEP_STAGES)
    return verifying + (costs.draft(item.cache_before) if item.marginals is not None else 0.0)


@dataclass
class WayFigures:
    """The outcomes of one way."""

    rows: list[tuple[str, Outcome]] = field(default_factory=list)
    """Category and outcome of every prompt."""

    def of_prompts(self, figure: str, category: str = ALL) -> list[float]:
        """`tokens_per_round` or `tokens_per_second` of every prompt of a category that has any rounds; nothing where
        the figure was not measured."""
        asked = [one for name, one in self.rows if category in (ALL, name)]
        pairs = [_ratio(figure, one) for one in asked]
        return [pair[0] / pair[1] for pair in pairs if pair is not None and pair[1]]

    def result(self) -> dict[str, Any]:
        """JSON values; see `Outcome` and `by_category.mean_and_pooled`."""
        rounds = sum(one.rounds for _, one in self.rows)
        timed = all(one.milliseconds is not None for _, one in self.rows)
        return {
            "tokens_per_round": self._by_category("tokens_per_round"),
            "tokens_per_second": self._by_category("tokens_per_second") if timed else None,
            "nodes_per_round": sum(one.nodes for _, one in self.rows) / rounds if rounds else None,
            "same_output": sum(one.same_output for _, one in self.rows),
            "prompts": len(self.rows),
        }

    def _by_category(self, figure: str) -> dict[str, Any]:
        return by_category([(name, _ratio(figure, one) or (0, 0)) for name, one in self.rows], mean_and_pooled)


def _ratio(figure: str, one: Outcome) -> tuple[float, float] | None:
    """Numerator and denominator of a figure."""
    if figure == "tokens_per_round":
        return one.tokens, one.rounds
    return None if one.milliseconds is None else (one.tokens, one.milliseconds / 1000)

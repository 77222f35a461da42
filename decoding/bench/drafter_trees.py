"""Which trees `bench drafters` grows with a drafter, by what the drafter can do. One line adds a tree."""

from typing import NamedTuple

from decoding.fit import DrafterInfo
from decoding.settings import Settings, Value
from decoding.strategies import STRATEGIES, make_strategy
from decoding.strategies.base import Strategy


class Config(NamedTuple):
    """A strategy with its settings, and what a table calls it."""

    title: str
    strategy: str
    settings: dict[str, Value]

    def make(self) -> Strategy[Settings]:
        """A fresh strategy: some of them adapt as they run."""
        return make_strategy(self.strategy, self.settings)


ONE_PASS = (
    Config("chain", "linear", {"budget": 64}),  # no longer than the drafter's block
    Config("ddtree 8", "ddtree", {"budget": 8}),
    Config("ddtree 16", "ddtree", {"budget": 16}),
    Config("ddtree 32", "ddtree", {"budget": 32}),
    Config("ddtree 64", "ddtree", {"budget": 64}),
    Config("ddtree 128", "ddtree", {"budget": 128}),
    Config("in sequence 8", "ddtree-graft", {"budget": 8, "retrieve": False}),  # DDTree's where there is no such head
    Config("in sequence 32", "ddtree-graft", {"budget": 32, "retrieve": False}),
    Config("with grafts 16", "ddtree-graft", {"budget": 16}),
    Config("with grafts 64", "ddtree-graft", {"budget": 64}),
    Config("grafts alone 16", "ddtree-graft", {"budget": 16, "draft": False}),
    Config("grafts alone 64", "ddtree-graft", {"budget": 64, "draft": False}),
)
STEPWISE = (
    Config("chain 5", "linear", {"budget": 5}),
    Config("best-first 60", "eagle", {"top_k": 10, "depth": 7, "budget": 60}),
)
RETRIEVAL = (
    Config("chain 5", "linear", {"budget": 5}),
    Config("chain 10", "linear", {"budget": 10}),
)
"""Stepwise without log-probabilities."""


def configs_for(drafter: DrafterInfo) -> tuple[Config, ...]:
    """The configurations for a drafter; a strategy that this version does not have is passed over."""
    stepwise = STEPWISE if drafter.gives_logprobs else RETRIEVAL
    table = ONE_PASS if drafter.kind == "one-pass" else stepwise
    return tuple(config for config in table if config.strategy in STRATEGIES)

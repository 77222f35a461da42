"""The strategies: one glance shows what exists, in the order in which it is offered."""

from collections.abc import Mapping
from typing import Any

from decoding.errors import UnknownName
from decoding.settings import parse_settings
from decoding.strategies.ar import AR
from decoding.strategies.base import Strategy
from decoding.strategies.ddtree import DDTree
from decoding.strategies.fixed import Fixed
from decoding.strategies.linear import Linear
from decoding.strategies.recycle import Recycle
from decoding.strategies.sampled import Sampled

STRATEGIES: dict[str, type[Strategy[Any]]] = {
    "ar": AR,
    "linear": Linear,
    "fixed": Fixed,
    "recycle": Recycle,
    "ddtree": DDTree,
    "sampled": Sampled,
}


def make_strategy(name: str, settings: Mapping[str, object]) -> Strategy[Any]:
    """The strategy `name` with `settings` from text or JSON; raises UnknownName or BadRequest."""
    if name not in STRATEGIES:
        raise UnknownName("strategy", name, STRATEGIES)
    chosen = STRATEGIES[name]
    return chosen(parse_settings(chosen.settings_class, settings))

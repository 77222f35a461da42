"""The strategies: one glance shows what exists, in the order in which it is offered."""

from collections.abc import Mapping
from typing import Any

from decoding.errors import UnknownName
from decoding.settings import parse_settings
from decoding.strategies.ar import AR
from decoding.strategies.auto import Auto
from decoding.strategies.base import Strategy
from decoding.strategies.ddd import DDD
from decoding.strategies.ddtree import DDTree
from decoding.strategies.ddtree_graft import DDTreeGraft
from decoding.strategies.dynatree import DynaTree
from decoding.strategies.eagle import Eagle
from decoding.strategies.echo import Echo
from decoding.strategies.fixed import Fixed
from decoding.strategies.graft import Graft
from decoding.strategies.graft_block import GraftBlock
from decoding.strategies.linear import Linear
from decoding.strategies.lookahead import Lookahead
from decoding.strategies.opt_tree import OptTree
from decoding.strategies.pld import PLD
from decoding.strategies.recycle import Recycle
from decoding.strategies.sam import Sam
from decoding.strategies.sampled import Sampled
from decoding.strategies.svip import SVIP

STRATEGIES: dict[str, type[Strategy[Any]]] = {
    "ar": AR,
    "linear": Linear,
    "fixed": Fixed,
    "pld": PLD,
    "recycle": Recycle,
    "sam": Sam,
    "lookahead": Lookahead,
    "ddtree": DDTree,
    "eagle": Eagle,
    "dynatree": DynaTree,
    "opt_tree": OptTree,
    "ddd": DDD,
    "echo": Echo,
    "svip": SVIP,
    "graft": Graft,
    "graft-block": GraftBlock,
    "sampled": Sampled,
    "ddtree-graft": DDTreeGraft,
    "auto": Auto,
}


def make_strategy(name: str, settings: Mapping[str, object]) -> Strategy[Any]:
    """The strategy `name` with `settings` from text or JSON; raises UnknownName or BadRequest."""
    if name not in STRATEGIES:
        raise UnknownName("strategy", name, STRATEGIES)
    chosen = STRATEGIES[name]
    return chosen(parse_settings(chosen.settings_class, settings))

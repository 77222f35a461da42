"""DynaTree's settings, and its two rules as functions of a layer: which nodes to expand, and how widely."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from decoding.errors import BadRequest
from decoding.settings import Settings, option
from decoding.strategies.dynatree_control import Controls
from decoding.types import Floats

STOP, REMOVE, OFF = "stop", "remove", "off"


@dataclass(frozen=True)
class DynaTreeSettings(Settings):
    """Defaults are those of the paper's runs (Appendix A) and, where it names none, of the authors' code.

    That code's own class defaults are tau_h .8, tau_l .3, branches 1/2/4, D_0 4.
    """

    budget: int = option(256, "N_max: most nodes drafted, the committed root not counted", low=1, high=1024)
    root_width: int = option(
        1, "tokens drafted right after the root: 1 as in Algorithm 1; 0 lets the breadth rule decide", low=0, high=16
    )
    dynamic_breadth: bool = option(True, "choose the number of children by confidence; else B_mid of every node")
    high_confidence: float = option(0.9, "tau_h: from this probability of the best child on, B_min", low=0, high=1)
    low_confidence: float = option(0.4, "tau_l: below this probability of the best child, B_max", low=0, high=1)
    min_branches: int = option(1, "B_min: children of a confident node", low=1, high=16)
    mid_branches: int = option(2, "B_mid: children of a node in between", low=1, high=16)
    max_branches: int = option(3, "B_max: children of an unsure node", low=1, high=16)
    dynamic_depth: bool = option(True, "stop unlikely paths early and go deeper on likely ones; else D_0 for all")
    base_depth: int = option(5, "D_0: levels below the first drafted token on every path", low=1, high=31)
    max_depth: int = option(8, "D_max: levels below the first drafted token on a likely path", low=2, high=32)
    stop_below: float = option(0.1, "rho_stop: a path less probable than this is not drafted further", low=0, high=1)
    deep_above: float = option(0.5, "rho_deep: probability that a path needs to go below D_0", low=0, high=1)
    version: str = option("v2", "of the paper: rho_deep itself goes deeper in v1 only", choices=("v1", "v2"))
    pruning: str = option(
        STOP, "paths below tau: their nodes kept as leaves, removed, or not looked at", choices=(STOP, REMOVE, OFF)
    )
    prune_below: float = option(0.05, "tau: least probability of a node's whole path", low=0, high=1)
    history: bool = option(True, "adapt D_0, tau_h and tau_l after every round")
    acceptance: str = option(
        "path", "a_r: committed tokens over the tree's depth, or over all its nodes", choices=("path", "nodes")
    )
    window: int = option(10, "W: rounds in the mean acceptance", low=1, high=1000)
    warm_up: int = option(5, "rounds before the first adaptation", low=1, high=1000)
    target_acceptance: float = option(0.7, "a*: acceptance above which drafting becomes bolder", low=0, high=1)
    depth_step: float = option(1.0, "eta_D: how far D_0 follows the acceptance", low=0, high=32)
    threshold_step: float = option(0.05, "eta_h: how far tau_h and tau_l follow the acceptance", low=0, high=1)

    @property
    def widest(self) -> int:
        """The most children a node can have."""
        return self.max_branches if self.dynamic_breadth else self.mid_branches

    def __post_init__(self) -> None:
        super().__post_init__()
        branches = self.min_branches, self.mid_branches, self.max_branches
        for holds, rule in (
            (branches == tuple(sorted(branches)), "min_branches <= mid_branches <= max_branches"),
            (self.low_confidence < self.high_confidence, "low_confidence < high_confidence"),
            (self.base_depth < self.max_depth, "base_depth < max_depth"),
            (self.stop_below < self.deep_above, "stop_below < deep_above"),
            (self.warm_up <= self.window, "warm_up <= window"),
        ):
            if not holds:
                raise BadRequest(f"These DynaTree settings do not satisfy {rule}.", "Change one of them.")


class Fate(IntEnum):
    """What becomes of a frontier node, in the order in which Algorithm 1 asks (lines 14 to 25)."""

    EXPANDED = 0
    PRUNED = 1
    """p(u) < tau."""
    AT_MAX_DEPTH = 2
    STOPPED = 3
    """p(u) < rho_stop."""
    AT_BASE_DEPTH = 4
    """At D_0, and not likely enough to go on."""


def fates(
    probability: NDArray[np.float64], depth: int, settings: DynaTreeSettings, controls: Controls
) -> NDArray[np.int64]:
    """The `Fate` of each node of the paper's `depth` by its path probability p(u), both `[nodes]` (section 3.3)."""
    base = controls.gate_depth
    pruned = probability < (0.0 if settings.pruning == OFF else settings.prune_below)
    if not settings.dynamic_depth:
        return np.select([pruned, np.full(len(pruned), depth >= base)], [Fate.PRUNED, Fate.AT_BASE_DEPTH], 0)
    likely = probability >= settings.deep_above if settings.version == "v1" else probability > settings.deep_above
    at_max = np.full(len(pruned), depth >= settings.max_depth)
    return np.select(
        [pruned, at_max, probability < settings.stop_below, (depth >= base) & ~likely],
        [Fate.PRUNED, Fate.AT_MAX_DEPTH, Fate.STOPPED, Fate.AT_BASE_DEPTH],
        Fate.EXPANDED,
    )


def widths(best_logprob: Floats, settings: DynaTreeSettings, controls: Controls) -> NDArray[np.int64]:
    """B(u) `[nodes]` by the confidence c(u) (section 3.3), from the log-probabilities of the best children."""
    confidence = np.exp(best_logprob.astype(np.float64))
    if not settings.dynamic_breadth:
        return np.full(len(confidence), settings.mid_branches)
    return np.select(
        [confidence >= controls.high_confidence, confidence < controls.low_confidence],
        [settings.min_branches, settings.max_branches],
        settings.mid_branches,
    )

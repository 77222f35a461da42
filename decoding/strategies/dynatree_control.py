"""DynaTree's history adaptation: proportional control of the drafting around a target acceptance (section 3.3)."""

from collections import deque
from typing import NamedTuple


class Controls(NamedTuple):
    """What the history moves: the arguments of ADJUST (Algorithm 1, line 7)."""

    base_depth: float
    """D_0. It moves in steps smaller than one; a depth is compared with it rounded to the nearest."""
    high_confidence: float
    """tau_h."""
    low_confidence: float
    """tau_l."""

    @property
    def gate_depth(self) -> int:
        """D_0 as depths are compared with it: rounded, a half up."""
        return int(self.base_depth + 0.5)


class Gains(NamedTuple):
    """The constants of the control."""

    target: float
    """a*, the acceptance aimed at."""
    depth_step: float
    """eta_D."""
    threshold_step: float
    """eta_h."""


def adjusted(now: Controls, mean_acceptance: float, gains: Gains, max_depth: int) -> Controls:
    """One step of proportional control (section 3.3, historical adjustment).

    D_0 <- clip(D_0 + eta_D (a - a*), 1, D_max - 1) and tau_h <- clip(tau_h - eta_h (a - a*), 0, 1). The paper gives
    no formula for tau_l, which its Algorithm 1 adjusts too: it takes the step of tau_h, so it never passes it.

    Example: D_0 4, tau_h .9, tau_l .4 and D_max 8, at a mean acceptance of .9 with a* .7, eta_D 1 and eta_h .05,
    become 4.2, .89 and .39.
    """
    error = mean_acceptance - gains.target
    return Controls(
        base_depth=_clip(now.base_depth + gains.depth_step * error, 1.0, max_depth - 1.0),
        high_confidence=_clip(now.high_confidence - gains.threshold_step * error, 0.0, 1.0),
        low_confidence=_clip(now.low_confidence - gains.threshold_step * error, 0.0, 1.0),
    )


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


class AcceptanceHistory:
    """The controls, and the acceptance of the last `window` rounds that moves them after every round.

    The paper's mean is over a full window and leaves the first rounds open. Here it is over what there is, and nothing
    moves before `warm_up` rounds (5 in the authors' code).
    """

    def __init__(self, start: Controls, gains: Gains, max_depth: int, window: int, warm_up: int) -> None:
        self.controls = start
        self.mean: float | None = None
        """Mean acceptance over the window; None before the first round."""
        self._gains, self._max_depth, self._warm_up = gains, max_depth, warm_up
        self._recent: deque[float] = deque(maxlen=window)

    def observe(self, acceptance: float) -> None:
        """Takes in the acceptance statistic a_r of a round, from 0 to 1."""
        self._recent.append(acceptance)
        self.mean = sum(self._recent) / len(self._recent)
        if len(self._recent) >= self._warm_up:
            self.controls = adjusted(self.controls, self.mean, self._gains, self._max_depth)

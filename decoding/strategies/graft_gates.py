"""Graft's gates: at a checkpoint d the draft goes on while c_d > tau_d (Equations 5 to 7), and how tau_d is calibrated.

c_d = exp(max_j S_{d,j}) is the drafter's probability of its best path down to that depth.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from decoding.strategies.graft_stages import STAGES, Stage

UNSET = -1.0
"""A threshold that nobody gave: the calibrated one of the pair is taken, else the paper's."""
PAPER_THRESHOLDS = {"tau_d0": 0.14, "tau_d1": 0.14, "tau_d5": 0.49}
"""Medians over the five data sets of Table 11 (Qwen3-8B)."""
DEFAULT_BLOCK_THRESHOLD = 0.3
"""Appendix F gives none. Below about this a drafted token is no better than the matrix's best successor."""
LEAST_SAMPLES = 20
TIE = 1e-12
"""Shares that differ by less are equal but for rounding."""


class Sample(NamedTuple):
    """One drafting round without any pruning."""

    confidence: Sequence[float]
    """c_0, c_1, ... as far as the draft went."""
    accepted: int
    """Drafted nodes that the target took."""


def threshold_name(stage: Stage) -> str:
    """The setting that holds the stage's tau."""
    return f"tau_{stage.name}"


class Fit(NamedTuple):
    """One calibrated gate."""

    threshold: float
    discrimination: float | None
    """Chance that a round worth going on with has the higher c_d of two (area under the ROC curve); None where all
    rounds were alike."""
    rounds: int


def fit_gates(samples: Sequence[Sample]) -> dict[str, Fit]:
    """Thresholds from dense rounds, shallow gates first; a deeper gate sees only what passed those above it.

    Going on at depth d was worth it where the target took a drafted node below it, at depth d + 2 of the tree or
    deeper. Gates that fewer than `LEAST_SAMPLES` rounds reach keep the paper's threshold.
    """
    fits: dict[str, Fit] = {}
    passed = list(samples)
    for stage in STAGES:
        name = threshold_name(stage)
        reached = [sample for sample in passed if len(sample.confidence) > stage.depth + 1]
        confidence = [sample.confidence[stage.depth] for sample in reached]
        worth_it = [sample.accepted > stage.depth + 1 for sample in reached]
        fits[name] = fit_gate(confidence, worth_it, PAPER_THRESHOLDS[name])
        passed = [s for s, c in zip(reached, confidence, strict=True) if c > fits[name].threshold]
    return fits


def fit_block(samples: Sequence[Sample]) -> dict[str, Fit]:
    """The threshold of `graft-block` from whole blocks: every position that the target came to is a sample, and
    keeping its token was worth it where the target took it."""
    places = [(s, place) for s in samples for place in range(min(s.accepted + 1, len(s.confidence)))]
    confidence = [sample.confidence[place] for sample, place in places]
    taken = [place < sample.accepted for sample, place in places]
    return {"tau_block": fit_gate(confidence, taken, DEFAULT_BLOCK_THRESHOLD)}


def fit_gate(confidence: Sequence[float], worth_it: Sequence[bool], otherwise: float) -> Fit:
    """The threshold with the largest share of right passes plus share of right stops (Youden's J).

    The paper calibrates "in the spirit of ECHO" and states no rule. Ties go to the lowest threshold, which prunes
    least; so where going on was always worth it, nothing is pruned. `otherwise` is kept where samples are too few.
    Confidences .1, .2, .6, .8, of which the last two were worth it: .2.
    """
    count = len(confidence)
    if count < LEAST_SAMPLES:
        return Fit(otherwise, None, count)
    value, good = np.asarray(confidence, np.float64), np.asarray(worth_it, np.bool_)
    edges = np.concatenate([[0.0], np.unique(value)])
    passes = value[None, :] > edges[:, None]
    right = [(passes[:, kind] == wanted).mean(axis=1) for kind, wanted in ((good, True), (~good, False)) if kind.any()]
    total = np.sum(right, axis=0)
    threshold = float(edges[int(np.argmax(total >= total.max() - TIE))])
    return Fit(threshold, _discrimination(value[good], value[~good]), count)


def _discrimination(good: np.ndarray, bad: np.ndarray) -> float | None:
    if not len(good) or not len(bad):
        return None
    higher = (good[:, None] > bad[None, :]).mean() + (good[:, None] == bad[None, :]).mean() / 2
    return float(higher)

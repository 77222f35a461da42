"""Whether a drafter's probabilities mean what they say: predicted against actual acceptance of the nodes of its trees.

A node's prediction is the probability of its whole path under the drafter; it is right where the target's text goes
through it. The expected accepted length of a tree is the sum of its nodes' predictions (DDTree, Proposition 1).
"""

from typing import Any

import numpy as np

from decoding.tree import cumulative_logprob, depths
from decoding.types import Ints, Tree

BINS = 10
"""Of equal width, over predicted probabilities from 0 to 1."""


class Calibration:
    """Adds up trees that have log-probabilities."""

    def __init__(self) -> None:
        self._nodes = np.zeros(BINS, np.int64)
        self._predicted = np.zeros(BINS)
        self._right = np.zeros(BINS, np.int64)
        self._rounds = 0

    def add(self, tree: Tree, path: Ints, coming: int) -> None:
        """`path` are the accepted nodes, the root first. `coming` tokens of the text follow the root: nodes deeper
        than that cannot be judged and are left out."""
        judged = (depths(tree.parent) <= coming) & (np.arange(len(tree)) > 0)
        predicted = np.exp(cumulative_logprob(tree)[judged].astype(np.float64))
        if np.isnan(predicted).any():
            raise ValueError("the tree has nodes without a log-probability")
        right = np.isin(np.flatnonzero(judged), path)
        place = np.minimum((predicted * BINS).astype(np.int64), BINS - 1)
        self._nodes += np.bincount(place, minlength=BINS)
        self._predicted += np.bincount(place, predicted, BINS)
        self._right += np.bincount(place[right], minlength=BINS)
        self._rounds += 1

    def result(self) -> dict[str, Any]:
        """`expected_accepted` and `accepted`: drafted nodes per round, bonus excluded, predicted and actual.

        `ece`: expected calibration error, the mean over nodes of |predicted - right| of their bins (Guo et al.,
        ICML 2017, Equation 3). Each bin has its number of nodes, their mean prediction and the share that was right.
        None where nothing was added.
        """
        nodes, rounds = int(self._nodes.sum()), self._rounds
        columns = (self._nodes.tolist(), self._predicted.tolist(), self._right.tolist())
        bins = [
            {"nodes": n, "predicted": predicted / n if n else None, "right": right / n if n else None}
            for n, predicted, right in zip(*columns, strict=True)
        ]
        return {
            "expected_accepted": float(self._predicted.sum()) / rounds if rounds else None,
            "accepted": int(self._right.sum()) / rounds if rounds else None,
            "ece": float(np.abs(self._predicted - self._right).sum()) / nodes if nodes else None,
            "bins": bins,
        }

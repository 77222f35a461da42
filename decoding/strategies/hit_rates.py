"""How often what retrieval proposes is what the target says next, measured as the rounds go.

For a node that the target accepted its next token is known, and so is the row of the matrix that was read when the
round was planned. Every entry of that row is then a trial: the target said it, or not. Trials are kept apart by the
rank in the row and by how likely the drafter thinks the same token, for two proposals that agree are worth more than
either; and the first position apart from the later ones, for only there did the drafter know the token before.

Drafted tokens that the row does not hold are counted too: where drafter and matrix disagree, the drafter is right less
often than it says.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoding.kernels.grafted_selection import Weights
from decoding.kernels.hit_counts import Counts, Heard, count_hits
from decoding.template import CHOICES

FLOORS = np.array([0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5])
"""Least probability under the drafter of each band. What lies in the first one counts as not drafted."""
BANDS = len(FLOORS)
LATER, BEYOND, ALONE = BANDS, 2 * BANDS, 2 * BANDS + 1
"""Lines of the table: 0 on for the first position, `LATER` on for later ones, `BEYOND` the drafted positions, and
`ALONE` for plans without a draft."""
_FIRST_RANK = ((0.07, 0.10, 0.19, 0.31, 0.35, 0.62, 0.92), (0.10, 0.23, 0.30, 0.40, 0.47, 0.67, 0.93))
_LATER_RANKS = (0.01, 0.05, 0.08, 0.12, 0.18, 0.32, 0.72)
_BEYOND = (0.60, 0.07, 0.04, 0.02, 0.02, 0.01, 0.01, 0.01)
_FALL = 0.8
PRIOR_DRAFTED = (0.36, 0.45, 0.48, 0.60, 0.68, 0.74, 0.94)
PRIOR_TRIALS = 12.0
MEMORY = 500.0
"""Trials of one kind after which an old one counts 1/e."""


def prior_rates() -> NDArray[np.float64]:
    """`[2 * BANDS + 2, 8]` what is believed before the first trial; smoothed from 4,000 tokens that the default target
    wrote after 56 training prompts of all sorts, under its block drafter and its warmed matrix. In a band, each rank
    from the third on has `_FALL` of the one before."""
    falling = np.outer(_LATER_RANKS, _FALL ** np.arange(CHOICES - 1))
    parts = [np.column_stack([first, falling]) for first in _FIRST_RANK]
    return np.concatenate([*parts, np.array([_BEYOND, _BEYOND])])


class HitRates:
    """Decaying counts of hits and trials, begun with a prior worth `PRIOR_TRIALS` trials of each kind."""

    def __init__(self) -> None:
        prior = prior_rates()
        self._counts = Counts(
            hits=prior * PRIOR_TRIALS,
            trials=np.full(prior.shape, PRIOR_TRIALS),
            drafted_hits=np.array(PRIOR_DRAFTED) * PRIOR_TRIALS,
            drafted_mass=np.full(BANDS, PRIOR_TRIALS),
        )

    @property
    def retrieved(self) -> NDArray[np.float64]:
        """`[2 * BANDS + 2, 8]` the share of right entries by band and rank."""
        rates: NDArray[np.float64] = self._counts.hits / self._counts.trials
        return rates

    @property
    def drafted(self) -> NDArray[np.float64]:
        """`[BANDS]` tokens that were only drafted and right, over the drafter's mass on such tokens; at most 1, and
        never falling from band to band: a token that the drafter thinks likelier must not weigh less."""
        share = np.maximum.accumulate(self._counts.drafted_hits / self._counts.drafted_mass)
        return np.minimum(share, 1.0)

    def weights(self) -> Weights:
        """As the planner takes them."""
        with np.errstate(divide="ignore"):
            logs = [np.log(part).astype(np.float32) for part in (self.retrieved, FLOORS, self.drafted)]
        return Weights(*logs)

    def learn(self, heard: Heard) -> None:
        """Counts every entry of the rows of a round's accepted nodes, and the drafter's mass beside them. An empty row
        says nothing."""
        count_hits(self._counts, heard, FLOORS, MEMORY)

    def as_json(self) -> dict[str, Any]:
        """For a decision: the rates as they stand."""
        return {"retrieved": np.round(self.retrieved, 3).tolist(), "drafted": np.round(self.drafted, 3).tolist()}

"""How often each of a node's candidates is the accepted one, measured as a run goes (Sequoia, section 3.1)."""

import numpy as np

PRIOR_NODES = 8
"""How many nodes the guess that a run starts from counts for."""


class RankAcceptance:
    """Sequoia's positional acceptance vector: entry k is the share of visited nodes whose k-th candidate was accepted.

    The guess before anything was measured is geometric: each further candidate takes the same share `first` of what
    the ones before it have left.
    """

    def __init__(self, first: float, ranks: int) -> None:
        self._accepted = PRIOR_NODES * first * (1.0 - first) ** np.arange(ranks)
        self._visited = np.full(ranks, float(PRIOR_NODES))

    def count(self, offered: int, accepted: int | None) -> None:
        """One more visited node with so many candidates; `accepted` is the place of the accepted one, from 0."""
        self._visited[:offered] += 1
        if accepted is not None:
            self._accepted[accepted] += 1

    def vector(self) -> list[float]:
        """`[ranks]`, never rising: a later candidate that was luckier so far is taken for as good as those before."""
        shares = self._accepted / self._visited
        return [float(share) for share in np.minimum.accumulate(shares)]

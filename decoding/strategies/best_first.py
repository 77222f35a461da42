"""The most probable prefixes of independent positions (DDTree, Proposition 2)."""

import numpy as np

from decoding.kernels.selection import Prefixes, pop_prefixes
from decoding.types import Floats

__all__ = ["Prefixes", "best_prefixes"]


def best_prefixes(logprob: Floats, budget: int) -> Prefixes:
    """The `budget` prefixes of highest probability (DDTree, Algorithm 1), in the order in which they are popped.

    `logprob` `[positions, k]` holds the log-probabilities (nats) of each position's tokens, best first; by Lemma 1
    `k = min(budget, vocab)` is enough. Entries of -inf are impossible tokens and are never taken, so fewer than
    `budget` prefixes come back when no more of them have a probability above zero.

    Order: score descending; then the shorter first, so that a parent always precedes its children; then the ranks
    compared from the last position back, so that siblings follow their rank.

    Example: rows log [.6, .4] and log [.9, .1] with budget 3 give .6, .54 = .6 * .9 and .4, with parents -1, 0, -1.
    """
    prefixes: Prefixes = pop_prefixes(np.ascontiguousarray(logprob, np.float32), max(budget, 0))
    return prefixes

"""From a drafter's logits to the candidates it proposes."""

import numpy as np
from torch import Tensor

from decoding.drafters.base import Candidates
from decoding.errors import NonFiniteLogits
from decoding.topk import Likeliest, likeliest
from decoding.types import Ints


def no_candidates(rows: int, k: int) -> Candidates:
    """Nothing proposed below any of `rows` nodes."""
    return Candidates(np.full((rows, k), -1, np.int32), np.full((rows, k), np.nan, np.float32))


def best_candidates(logits: Tensor, k: int, name: str, ids: Ints | None = None) -> Candidates:
    """The `k` most likely columns of each row of float32 `logits` `[rows, vocab]`, at temperature 1; one copy to the
    host. The columns stand for the tokens `ids` `[vocab]`, or for themselves; beyond them there is no candidate.

    Raises NonFiniteLogits, naming the drafter `name`.
    """
    best = likeliest(logits, k)
    found = no_candidates(len(logits), k)
    kept = best.token.shape[1]
    found.token[:, :kept], found.logprob[:, :kept] = best.token if ids is None else ids[best.token], best.logprob
    require_finite(best, name)
    return found


def require_finite(best: Likeliest, name: str) -> None:
    """Raises NonFiniteLogits, naming the drafter `name`."""
    if not np.isfinite(best.peak).all():
        raise NonFiniteLogits(f"The drafter {name} gave NaN or infinite logits.", "Try dtype float32.")

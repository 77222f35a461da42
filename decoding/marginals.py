"""Logits of a one-pass drafter to `Marginals`: exact top-k and exact normaliser, one copy to the host."""

import numpy as np
import torch
from torch import Tensor

from decoding.errors import NonFiniteLogits
from decoding.topk import Likeliest, likeliest
from decoding.types import Ints, Marginals


def top_marginals(logits: Tensor, k: int) -> Marginals:
    """The top-k of each row of `logits` `[positions, vocab]` (DDTree, Lemma 1), normalised over the whole vocabulary.

    `k` is clipped to the vocabulary. Entries of -inf (masked tokens) are allowed and have probability zero. Equal
    logits come in the order of their token ids; on a CPU that also decides which of several equal last ones is kept.

    Raises:
        NonFiniteLogits: a row holds NaN or +inf, or nothing but -inf.
    """
    if logits.ndim != 2 or logits.shape[1] == 0 or k < 1:
        raise ValueError(f"logits must be [positions, vocab] and k at least 1, not {tuple(logits.shape)} and {k}")
    return marginals_of(likeliest(logits.detach().to(torch.float32), k))


def marginals_of(best: Likeliest, ids: Ints | None = None) -> Marginals:
    """The same of rows that were read already; of tokens that stand for others, with the `ids` `[kept]` of these."""
    token, logprob, peak = best
    finite = np.isfinite(peak)
    if not finite.all():
        bad = int(finite.argmin())
        raise NonFiniteLogits(
            f"The drafter's logits at position {bad + 1} of the block hold {_describe(float(peak[bad]))}.",
            "Load the drafter in float32 (or bfloat16 instead of float16), and check that its weights fit the target.",
        )
    return Marginals(token if ids is None else ids[token], logprob)


def _describe(peak: float) -> str:
    return {np.inf: "+inf", -np.inf: "nothing but -inf"}.get(peak, "NaN")

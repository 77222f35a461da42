"""Logits of a one-pass drafter to `Marginals`: exact top-k and exact normaliser, one copy to the host."""

import numpy as np
import torch
from torch import Tensor

from decoding.errors import NonFiniteLogits
from decoding.host_rows import read_rows
from decoding.topk import log_mass, top_k
from decoding.types import Marginals


def top_marginals(logits: Tensor, k: int) -> Marginals:
    """The top-k of each row of `logits` `[positions, vocab]` (DDTree, Lemma 1), normalised over the whole vocabulary.

    `k` is clipped to the vocabulary. Entries of -inf (masked tokens) are allowed and have probability zero. Equal
    logits come in the order of their token ids; on a CPU that also decides which of several equal last ones is kept.

    Raises:
        NonFiniteLogits: a row holds NaN or +inf, or nothing but -inf.
    """
    if logits.ndim != 2 or logits.shape[1] == 0 or k < 1:
        raise ValueError(f"logits must be [positions, vocab] and k at least 1, not {tuple(logits.shape)} and {k}")
    k = min(k, logits.shape[1])
    logits = logits.detach().to(torch.float32)
    if logits.device.type == "cpu":
        best = read_rows(logits, k)
        value, token, relative = best.value, best.column.astype(np.int32), best.normaliser[:, None].astype(np.float32)
    else:
        values, columns = top_k(logits, k)
        mass = log_mass(logits, values[:, 0])
        # One copy: the ids travel as bits among the floats.
        packed = torch.cat((values, mass[:, None], columns.to(torch.int32).view(torch.float32)), dim=1).cpu().numpy()
        value, relative, token = packed[:, :k], packed[:, k : k + 1], packed[:, k + 1 :].view(np.int32)
    bad = np.flatnonzero(~np.isfinite(value[:, 0]))
    if len(bad):
        raise NonFiniteLogits(
            f"The drafter's logits at position {bad[0] + 1} of the block hold {_describe(float(value[bad[0], 0]))}.",
            "Load the drafter in float32 (or bfloat16 instead of float16), and check that its weights fit the target.",
        )
    # The largest is subtracted first because the two sides are close; rounding must not give a probability above 1.
    return Marginals(token, np.minimum(value - value[:, :1] - relative, 0.0, dtype=np.float32))


def _describe(peak: float) -> str:
    return {np.inf: "+inf", -np.inf: "nothing but -inf"}.get(peak, "NaN")

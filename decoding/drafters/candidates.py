"""From a drafter's logits to the candidates it proposes."""

import numpy as np
import torch
from torch import Tensor

from decoding.drafters.base import Candidates
from decoding.errors import NonFiniteLogits
from decoding.topk import top_k


def no_candidates(rows: int, k: int) -> Candidates:
    """Nothing proposed below any of `rows` nodes."""
    return Candidates(np.full((rows, k), -1, np.int32), np.full((rows, k), np.nan, np.float32))


def best_candidates(logits: Tensor, k: int, name: str) -> Candidates:
    """The `k` most likely columns of each row of float32 `logits` `[rows, vocab]`, at temperature 1; one copy to the
    host. Beyond the vocabulary there is no candidate. Raises NonFiniteLogits, naming the drafter `name`."""
    kept = min(k, logits.shape[1])
    best = top_k(logits, kept)
    logprob = best.values - logits.logsumexp(-1, keepdim=True)
    packed = torch.cat([logprob.view(torch.int32), best.indices.to(torch.int32)], dim=1).cpu().numpy()
    found = no_candidates(len(packed), k)
    found.logprob[:, :kept] = np.minimum(packed[:, :kept].view(np.float32), 0.0)
    found.token[:, :kept] = packed[:, kept:]
    if not np.isfinite(found.logprob[:, 0]).all():
        raise NonFiniteLogits(f"The drafter {name} gave NaN or infinite logits.", "Try dtype float32.")
    return found

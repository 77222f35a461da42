"""Temporary stand-in until the real module is merged: same name, same signature."""

from torch import Tensor

from decoding.types import Marginals


def top_marginals(logits: Tensor, k: int) -> Marginals:
    """The `min(k, vocab)` most likely tokens of each row of float32 logits `[positions, vocab]`."""
    top = logits.log_softmax(-1).topk(min(k, logits.shape[-1]), dim=-1)
    return Marginals(top.indices.cpu().numpy(), top.values.cpu().numpy())

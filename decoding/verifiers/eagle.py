"""EAGLE's rule: every candidate counts as certain (q = 1) and is accepted with the target's probability of it."""

import torch
from torch import Tensor

from decoding.sampling import draw
from decoding.verifiers.residual import chance, without
from decoding.verifiers.top_down import Choice, TopDown


class Eagle(TopDown):
    """The sampling rule of the EAGLE reference code (arXiv 2401.15077, 2406.16858), written for deterministic trees.

    A candidate x is accepted with probability p(x), which is p(x) / q(x) for a q that is certain of x; else p loses x
    and is renormalised. Why it is lossless: this draws from p by asking "is it x?" one token at a time, and the
    candidates only decide which tokens are asked for. So it holds for any tree that was grown before the draws,
    sampled ones included, and accepts exactly as often as sample-and-match.
    """

    name = "eagle"
    title = "EAGLE's rule"
    lossless_for = "any tree"

    def choose(self, target: Tensor, draft: Tensor | None, candidates: list[int], rng: torch.Generator) -> Choice:
        left = target
        for place, token in enumerate(candidates):
            if chance(float(left[token]), rng, left.device):
                return Choice(place, token)
            left = without(left, token)
        return Choice(None, int(draw(left[None], rng)))

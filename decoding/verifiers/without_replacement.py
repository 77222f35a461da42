"""Rejection for candidates drawn without replacement: both distributions lose what was rejected (Sequoia)."""

import torch
from torch import Tensor

from decoding.draws import Drawn
from decoding.sampling import draw
from decoding.verifiers.residual import chance, residual, without
from decoding.verifiers.top_down import Choice, TopDown


class WithoutReplacement(TopDown):
    """Sequoia (arXiv 2402.12374), section 3.2 and its verification algorithm.

    As multi-round rejection, but after x was rejected q loses it too and is renormalised: that is what the next
    candidate was drawn from. Why it is lossless: given the candidates rejected so far, the next one follows the
    current q; accepting it emits min(p, q), and whichever token is rejected instead, p becomes the same
    norm(max(p - q, 0)), which is what is missing.

    Where nothing is left of q, Sequoia goes on with uniform draws among the other tokens; here a node then has no
    further candidates. How many there are follows from q alone, so the argument holds.
    """

    name = "without-replacement"
    title = "Rejection without replacement"
    lossless_for = "trees whose candidates are drawn without replacement"
    needs_candidates = frozenset({Drawn.DISTINCT})

    def choose(self, target: Tensor, draft: Tensor | None, candidates: list[int], rng: torch.Generator) -> Choice:
        assert draft is not None
        left = target
        for place, token in enumerate(candidates):
            if chance(float(left[token] / draft[token]), rng, left.device):
                return Choice(place, token)
            left = residual(left, draft).probs
            draft = without(draft, token)
        return Choice(None, int(draw(left[None], rng)))

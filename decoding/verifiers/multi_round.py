"""Multi-round rejection: candidates drawn independently from the drafter are tried one after the other (SpecInfer)."""

import torch
from torch import Tensor

from decoding.draws import Drawn
from decoding.sampling import draw
from decoding.verifiers.residual import chance, residual
from decoding.verifiers.top_down import Choice, TopDown


class MultiRound(TopDown):
    """SpecInfer (arXiv 2305.09781), Algorithm 2: multi-step speculative sampling.

    A candidate x is accepted with probability min(1, p(x) / q(x)); else p becomes norm(max(p - q, 0)) and the next
    one is tried; after the last one the token is drawn from what p has become. Why it is lossless: a round emits x
    with probability q(x) min(1, p(x) / q(x)) = min(p(x), q(x)), and otherwise goes on with just what p lacks, in the
    right proportions; the next candidate is again drawn from q, whatever was rejected. SpecInfer tries the candidates
    in random order; independent draws are exchangeable, so the order of drawing does as well.

    A candidate that comes again after its rejection has no mass left in p and is rejected, but p changes once more.
    """

    name = "multi-round"
    title = "Multi-round rejection"
    lossless_for = "trees whose candidates are drawn independently, with replacement"
    needs_candidates = frozenset({Drawn.INDEPENDENT})

    def choose(self, target: Tensor, draft: Tensor | None, candidates: list[int], rng: torch.Generator) -> Choice:
        assert draft is not None
        left = target
        for place, token in enumerate(candidates):
            if chance(float(left[token] / draft[token]), rng, left.device):
                return Choice(place, token)
            left = residual(left, draft).probs
        return Choice(None, int(draw(left[None], rng)))

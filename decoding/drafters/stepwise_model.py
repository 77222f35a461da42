"""A stepwise drafter that is a model: what it proposes are the most likely tokens of its logits."""

from abc import abstractmethod

import torch
from torch import Tensor

from decoding.drafters.base import Candidates, StepwiseDrafter
from decoding.drafters.candidates import best_candidates, no_candidates
from decoding.sampling import over_vocabulary
from decoding.types import Ints


class StepwiseModel(StepwiseDrafter):
    """Subclasses give logits over the tokens that they draft with."""

    draft_tokens: Ints | None = None
    """Ids `[kept]` that the columns of the logits stand for; None where these are the whole vocabulary."""

    @abstractmethod
    def _start(self, root: int) -> Tensor | None:
        """Float32 logits `[1, kept]` below the root; None where the drafter's own context is full."""

    @abstractmethod
    def _expand(self, tokens: Ints, parents: Ints) -> Tensor | None:
        """Logits `[nodes, kept]` below the new nodes, as `_start` gives them."""

    def start(self, root: int, k: int) -> Candidates:
        return self._candidates(self._start(root), 1, k)

    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        """As `StepwiseDrafter.expand`; nothing is proposed beyond the drafter's own context."""
        return self._candidates(self._expand(tokens, parents), len(tokens), k)

    def start_logits(self, root: int) -> Tensor | None:
        return self._over_vocabulary(self._start(root))

    def expand_logits(self, tokens: Ints, parents: Ints) -> Tensor | None:
        return self._over_vocabulary(self._expand(tokens, parents))

    @torch.inference_mode()
    def _over_vocabulary(self, logits: Tensor | None) -> Tensor | None:
        if logits is None or self.draft_tokens is None:
            return logits
        return over_vocabulary(logits, self.draft_tokens, self.vocab_size, -torch.inf)

    @torch.inference_mode()
    def _candidates(self, logits: Tensor | None, rows: int, k: int) -> Candidates:
        if logits is None:
            return no_candidates(rows, k)
        return best_candidates(logits, k, self.name, self.draft_tokens)

"""The commonest tokens of the target's own text: softmaxes over these alone cost a sixth and miss two in a hundred."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from decoding.training.corpus import Example


@dataclass(frozen=True, eq=False)
class CommonTokens:
    """A part of the vocabulary, in ascending order of token ids."""

    ids: Tensor
    """`[kept]` int64 token ids."""
    place: Tensor
    """`[vocab]` int64: where each token stands in `ids`, -1 for those left out."""
    coverage: float
    """Part of the corpus' response tokens that are among them."""

    def __len__(self) -> int:
        return len(self.ids)


def common_tokens(examples: Sequence[Example], size: int, vocab_size: int, always: Sequence[int] = ()) -> CommonTokens:
    """The `size` tokens that occur most often in the responses, `always` among them; ties go to the lower id."""
    counts = Counter(token for example in examples for token in example.response)
    wanted = set(always)
    ranked = sorted(range(vocab_size), key=lambda token: (token not in wanted, -counts[token], token))
    return _common(torch.tensor(sorted(ranked[:size])), counts, vocab_size)


def these_tokens(examples: Sequence[Example], ids: Tensor, vocab_size: int) -> CommonTokens:
    """The tokens `ids` `[kept]`, ascending: those that an earlier training chose."""
    return _common(ids, Counter(token for example in examples for token in example.response), vocab_size)


def _common(ids: Tensor, counts: Counter[int], vocab_size: int) -> CommonTokens:
    place = torch.full((vocab_size,), -1)
    place[ids] = torch.arange(len(ids))
    kept = set(ids.tolist())
    total = sum(counts.values())
    return CommonTokens(ids, place, sum(n for token, n in counts.items() if token in kept) / max(total, 1))

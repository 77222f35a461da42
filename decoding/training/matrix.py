"""Warms the transition matrix (Graft, Appendix A): the row of a token holds what the target likes best after it.

While decoding, the last look at a token decides its row. Over a whole corpus the looks are averaged: a row begins with
the successors of the largest mean probability.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from decoding.target import Target
from decoding.template import CHOICES
from decoding.topk import top_k
from decoding.training.continuations import token_batches
from decoding.training.corpus import Example
from decoding.training.features import Features

LOOK = 2 * CHOICES
"""Successors counted at every place: one that is never among the first eight may still be so on the mean."""
TOKENS_AT_ONCE = 16_384


@torch.inference_mode()
def warmed_successors(target: Target, examples: Sequence[Example], store: Features, rows: int = 128) -> Tensor:
    """`[vocab, 8]` int32, best first; -1 where a token, or an eighth successor of it, was never seen."""
    count = sum(len(example) for example in examples) * LOOK
    tokens, following = (np.empty(count, np.int64) for _ in range(2))
    weight = np.empty(count, np.float32)
    place = 0
    for batch in tqdm(list(token_batches(examples, TOKENS_AT_ONCE)), desc="matrix", unit="batch"):
        _, final = store.padded(batch, ())
        states = torch.cat([final[row, : len(examples[i])] for row, i in enumerate(batch)])
        states = states.to(target.device, target.dtype)
        text = torch.tensor([token for i in batch for token in examples[i].tokens])
        for part, seen in zip(states.split(rows), text.split(rows), strict=True):
            logits = target.head(part).float()
            best = top_k(logits, LOOK)
            chance = (best.values - logits.logsumexp(-1, keepdim=True)).exp()
            at = slice(place, place := place + len(seen) * LOOK)
            tokens[at] = seen.repeat_interleave(LOOK).numpy()
            following[at] = best.indices.flatten().cpu().numpy()
            weight[at] = chance.flatten().cpu().numpy()
    return torch.from_numpy(heaviest(tokens, following, weight, target.vocab_size))


def heaviest(
    tokens: NDArray[np.int64], following: NDArray[np.int64], weight: NDArray[np.float32], vocab_size: int
) -> NDArray[np.int32]:
    """For every token its eight successors of the largest summed weight; ties go to the lower id.

    For the looks (5 -> 7, .4), (5 -> 9, .3), (5 -> 9, .2), row 5 is 9, 7, -1, ...
    """
    pairs, place = np.unique(tokens * vocab_size + following, return_inverse=True)
    summed = np.bincount(place, weights=weight)
    token, successor = pairs // vocab_size, pairs % vocab_size
    order = np.lexsort((successor, -summed, token))
    token, successor = token[order], successor[order]
    first = np.searchsorted(token, token)
    rank = np.arange(len(token)) - first
    matrix = np.full((vocab_size, CHOICES), -1, np.int32)
    kept = rank < CHOICES
    matrix[token[kept], rank[kept]] = successor[kept]
    return matrix

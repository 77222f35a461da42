"""Logits to probabilities and tokens. The generator is always an argument."""

from dataclasses import dataclass

import torch
from torch import Tensor

from decoding.errors import BadRequest


@dataclass(frozen=True)
class Sampling:
    """How the target chooses: temperature 0 is greedy; top_p 1 and top_k 0 keep everything."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature <= 100.0:
            raise BadRequest(f"The temperature is {self.temperature}.", "It must be from 0 (greedy) to 100.")
        if not 0.0 < self.top_p <= 1.0:
            raise BadRequest(f"top_p is {self.top_p}.", "It must be above 0 and at most 1 (1 keeps every token).")
        if self.top_k < 0:
            raise BadRequest(f"top_k is {self.top_k}.", "It must be 0 (keep every token) or a positive number.")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0


def probabilities(logits: Tensor, sampling: Sampling) -> Tensor:
    """The distribution that the target samples from, `[rows, vocab]` for float32 logits `[rows, vocab]`.

    In the order of Hugging Face's `generate`: temperature, then top-k (ties at the k-th value are kept), then
    top-p (the smallest set of most likely tokens whose mass reaches top_p), then renormalised.
    """
    if sampling.greedy:
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).to(torch.float32)
    logits = logits / sampling.temperature
    if 0 < sampling.top_k < logits.shape[-1]:
        kth = logits.topk(sampling.top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < kth, float("-inf"))
    probs = logits.softmax(-1)
    if sampling.top_p < 1.0:
        ordered, order = probs.sort(dim=-1, descending=True, stable=True)
        mass_before = ordered.cumsum(-1) - ordered
        ordered = ordered.masked_fill(mass_before >= sampling.top_p, 0.0)
        probs = torch.zeros_like(probs).scatter_(-1, order, ordered)
        probs = probs / probs.sum(-1, keepdim=True)
    return probs


def draw(probs: Tensor, rng: torch.Generator) -> Tensor:
    """One token `[rows]` from each row of `probs` `[rows, vocab]`."""
    return torch.multinomial(probs, 1, generator=rng)[:, 0]

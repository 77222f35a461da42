"""Residuals of rejection sampling, on single distributions `[vocab]` in float64, on their device.

On a CPU they are numpy's work, which keeps to its thread: a round has a hundred of them, and torch would share each
between threads that the kernels' own then have to wait for.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class Residual(NamedTuple):
    probs: Tensor
    """`[vocab]` the residual, summing to 1."""
    mass: float
    """What it summed to before."""


def normalised(weights: Tensor) -> Tensor:
    """`weights` `[vocab]`, none negative and not all 0, as float64 probabilities."""
    if weights.device.type == "cpu":
        numbers = weights.numpy().astype(np.float64)
        return torch.from_numpy(numbers / numbers.sum())
    weights = weights.to(torch.float64)
    return weights / weights.sum()


def residual(target: Tensor, draft: Tensor, weight: float = 1.0) -> Residual:
    """norm(max(weight * target - draft, 0)): what is left to be emitted after a draw from `draft` was rejected.

    Where nothing is left, a rejection has probability 0 (up to rounding); `target` then stays as it is.
    With target [.5, .5], draft [.8, .2] and weight 1: [0, 1], of mass .3.
    """
    left = (weight * _numbers(target) - _numbers(draft)).clip(0.0, None)
    mass = float(left.sum())
    return Residual(torch.as_tensor(left / mass), mass) if mass > 0.0 else Residual(target, 0.0)


def without(probs: Tensor, token: int) -> Tensor:
    """`probs` `[vocab]` with `token` taken out, renormalised; as it is where it holds nothing else."""
    numbers = _numbers(probs)
    left = numbers + 0.0
    left[token] = 0.0
    mass = float(left.sum())
    return torch.as_tensor(left / mass) if mass > 0.0 else probs


def _numbers(probs: Tensor) -> Any:
    """An array that shares the tensor's memory on a CPU, elsewhere the tensor: what is done here is spelt alike."""
    return probs.numpy() if probs.device.type == "cpu" else probs


def chance(probability: float, rng: torch.Generator, device: torch.device) -> bool:
    """True with this probability: never at 0, always from 1 on."""
    return float(torch.rand((), generator=rng, dtype=torch.float64, device=device)) < probability

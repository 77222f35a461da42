"""In which dtype training takes its products: bfloat16 on a GPU, and on a CPU that has fast units for it."""

import time
from functools import cache

import torch
from torch import Tensor

WIDTH = 1024
WORTH_IT = 1.5
"""How many times faster bfloat16 must be on a CPU; what is not a product gains nothing."""
PASSES = 20


@cache
def product_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 or float32, on a CPU by timing one product in both, once in a process.

    Weights stay in float32 in either case.
    """
    if device.type != "cpu":
        return torch.bfloat16
    matrix = torch.ones(WIDTH, WIDTH)
    exact, short = (_seconds(matrix.to(dtype)) for dtype in (torch.float32, torch.bfloat16))
    return torch.bfloat16 if exact > WORTH_IT * short else torch.float32


def _seconds(matrix: Tensor) -> float:
    """Of the fastest product: on a busy machine a mean says more about the others."""
    best = float("inf")
    for _ in range(PASSES):
        begun = time.perf_counter()
        torch.mm(matrix, matrix)
        best = min(best, time.perf_counter() - begun)
    return best

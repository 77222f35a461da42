"""Linear layers for a tree's worth of rows on a CPU.

A tree is a matrix product of 4 to 60 rows, which is where CPU libraries are at their worst. The kernels' product is
made for it (see `kernels.tiles`); where it pays depends on the machine, so it is measured when a model is loaded.
"""

import time
from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from decoding.kernels.crew import AVAILABLE
from decoding.kernels.linear import linear
from decoding.types import Floats

MOST_ROWS = 64
"""Larger products are left to torch."""
MEASURED_ROWS = (1, 4, 8, 16, 32)
WORTH = 1.1
"""How many times faster the kernels must be, all measured rows together, to be taken."""
MEASURED_BYTES = 12 << 20
"""Weights to go through in one pass: more than stays near a core."""
PASSES = 5
"""The best of them counts: what else runs on the machine can only make a pass slower."""


class FewRowsLinear(nn.Linear):
    """A float32 linear layer that leaves up to `most` rows to the kernels; the weights are shared.

    A row's result does not depend on how many there are, as long as there are no more than that.
    """

    def __init__(self, layer: nn.Linear, most: float = MOST_ROWS) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias, self.most = layer.weight, layer.bias, most

    def forward(self, input: Tensor) -> Tensor:
        rows = input.numel() // self.in_features
        if not 0 < rows <= self.most:
            return super().forward(input)
        product = _product(input.reshape(rows, self.in_features), self.weight)
        if self.bias is not None:
            product += self.bias
        return product.view(*input.shape[:-1], self.out_features)


def _product(x: Tensor, weight: Tensor) -> Tensor:
    return torch.from_numpy(linear(_numbers(x), _numbers(weight)))


def _numbers(tensor: Tensor) -> Floats:
    return cast(Floats, np.ascontiguousarray(tensor.detach().numpy()))


@torch.inference_mode()
def use_where_faster(module: nn.Module) -> str:
    """Replaces a module's float32 linear layers on a CPU by `FewRowsLinear` where the kernels are faster; says
    so, or ''."""
    found = [
        (parent, name, child)
        for parent in module.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.Linear) and _can_be_replaced(child)
    ]
    if not AVAILABLE or not found or not _faster([child.weight for _, _, child in found]):
        return ""
    for parent, name, child in found:
        setattr(parent, name, FewRowsLinear(child))
    return f"products of up to {MOST_ROWS} rows are left to Canopy's own kernels, which are faster on this CPU"


def _can_be_replaced(layer: nn.Linear) -> bool:
    weight = layer.weight
    plain = type(layer) is nn.Linear and weight.is_contiguous()
    return plain and weight.device.type == "cpu" and weight.dtype == torch.float32


def _faster(weights: list[Tensor]) -> bool:
    """Whether the kernels are at least `WORTH` times faster."""
    widest = sorted({weight.shape for weight in weights}, key=lambda shape: shape.numel())
    # The head is larger than all others and would take longest to measure: the next one speaks for it.
    shape = widest[-2] if len(widest) > 1 else widest[0]
    sample = [weight for weight in weights if weight.shape == shape]
    sample = sample[: max(1, MEASURED_BYTES // (shape.numel() * sample[0].element_size()))]
    plain = ours = 0.0
    for rows in MEASURED_ROWS:
        x = torch.randn(rows, shape[1])
        plain += _seconds(lambda weight, x=x: functional.linear(x, weight), sample)  # type: ignore[misc]
        ours += _seconds(lambda weight, x=x: _product(x, weight), sample)  # type: ignore[misc]
    return plain > WORTH * ours


def _seconds(product: Callable[[Tensor], Tensor], weights: list[Tensor]) -> float:
    """The best of some passes over the weights."""
    best = float("inf")
    for _ in range(PASSES):
        start = time.perf_counter()
        for weight in weights:
            product(weight)
        best = min(best, time.perf_counter() - start)
    return best

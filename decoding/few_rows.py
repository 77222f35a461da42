"""Linear layers for a tree's worth of rows on a CPU.

A tree is a matrix product of 4 to 60 rows, which is where CPU libraries are at their worst: on two cores of a Xeon,
30 layers of SmolLM2 take 24 ms for 1 row and 105 ms for 16 as `x W^T`, but 40 ms as `(W x^T)^T`. Which way is faster
depends on the machine, so it is measured when a model is loaded.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

LADDER = (2, 4, 8, 16, 32, 48, 64)
"""Row counts that are measured; those between two steps go with the lower one."""
WORTH = 1.2
"""How many times faster the turned product must be to be taken."""
MEASURED_BYTES = 12 << 20
"""Weights to go through in one pass: more than stays near a core."""
PASSES = 5
"""The best of them counts: what else runs on the machine can only make a pass slower."""


class FewRowsLinear(nn.Linear):
    """A linear layer that takes the turned product for the row counts where it is faster; the weights are shared."""

    def __init__(self, linear: nn.Linear, turned: frozenset[int]) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self.turned = turned

    def forward(self, input: Tensor) -> Tensor:
        rows = input.numel() // self.in_features
        if rows not in self.turned:
            return super().forward(input)
        columns = input.reshape(rows, self.in_features).t()
        product = torch.mm(self.weight, columns)
        if self.bias is not None:
            product += self.bias[:, None]
        return product.t().reshape(*input.shape[:-1], self.out_features).contiguous()


@torch.inference_mode()
def turn_where_faster(model: nn.Module) -> str:
    """Replaces the linear layers of a model on a CPU by `FewRowsLinear`; says what was measured, '' for no change."""
    linears = [module for module in model.modules() if type(module) is nn.Linear]
    turned = _faster_turned([linear.weight for linear in linears])
    if not turned:
        return ""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                setattr(parent, name, FewRowsLinear(child, turned))
    return f"products of {min(turned)} to {max(turned)} rows are taken as (W x^T)^T, which is faster on this CPU"


def _faster_turned(weights: list[Tensor]) -> frozenset[int]:
    """Row counts for which the turned product is at least `WORTH` times faster."""
    if not weights:
        return frozenset()
    widest = sorted({weight.shape for weight in weights}, key=lambda shape: shape.numel())
    # The head is larger than all others and would take longest to measure: the next one speaks for it.
    shape = widest[-2] if len(widest) > 1 else widest[0]
    sample = [weight for weight in weights if weight.shape == shape]
    sample = sample[: max(1, MEASURED_BYTES // (shape.numel() * sample[0].element_size()))]
    turned: set[int] = set()
    for step, rows in enumerate(LADDER):
        x = torch.randn(rows, shape[1], dtype=sample[0].dtype)
        plain = _seconds(lambda weight, x=x: functional.linear(x, weight), sample)  # type: ignore[misc]
        other = _seconds(lambda weight, x=x: torch.mm(weight, x.t()).t().contiguous(), sample)  # type: ignore[misc]
        if plain > WORTH * other:
            turned.update(range(rows, LADDER[step + 1] if step + 1 < len(LADDER) else rows + 1))
    return frozenset(turned)


def _seconds(product: Callable[[Tensor], Tensor], weights: list[Tensor]) -> float:
    """The best of some passes over the weights."""
    best = float("inf")
    for _ in range(PASSES):
        start = time.perf_counter()
        for weight in weights:
            product(weight)
        best = min(best, time.perf_counter() - start)
    return best

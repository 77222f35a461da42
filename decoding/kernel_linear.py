"""A linear layer of float32 rows on a CPU whose product is the kernels' (see `kernels.tiles`).

For heads behind networks that run on the kernels throughout. Among torch's own operations it would be slow: torch's
threads go on looking for work for milliseconds after each of them, on the cores that the kernels' threads need.
"""

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from decoding.kernels.linear import Bits, linear
from decoding.types import Floats


class KernelLinear(nn.Linear):
    """Shares the weights of the layer it is made of, float32 or bfloat16. A row's result does not depend on how many
    rows there are."""

    def __init__(self, layer: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.bias = layer.weight, layer.bias
        self.matrix = _matrix(layer.weight)
        """`[out_features, in_features]`."""

    def forward(self, input: Tensor) -> Tensor:
        rows = input.numel() // self.in_features
        product = torch.from_numpy(linear(_numbers(input.reshape(rows, self.in_features)), self.matrix))
        if self.bias is not None:
            product += self.bias
        return product.view(*input.shape[:-1], self.out_features)


def _matrix(weight: Tensor) -> Floats | Bits:
    if weight.dtype != torch.bfloat16:
        return _numbers(weight)
    return cast(Bits, weight.detach().contiguous().view(torch.int16).numpy())


def _numbers(tensor: Tensor) -> Floats:
    return cast(Floats, np.ascontiguousarray(tensor.detach().numpy()))

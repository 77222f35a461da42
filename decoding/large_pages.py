"""Weights that a CPU reads whole in every pass, side by side in memory of large pages, each from a new cache line on.

Weights out of a file are its own pages of 4 KB, where a core looks up an address anew for every row or two of a matrix
and what is fetched ahead waits for that, and they begin anywhere. Linux gives pages of 2 MB to those who ask, as numpy
does for its large arrays and torch does not.
"""

import numpy as np
import torch
from torch import nn

LINE = 64
"""Bytes of a cache line."""


def gather(module: nn.Module, narrow: bool = False) -> None:
    """Moves the parameters of a float32 module on a CPU into one array, in their order; tied ones stay tied.

    With `narrow`, matrices are kept in bfloat16: see `exact_in_bfloat16`. One after the other gives up its old memory:
    there are never two copies but of what is shared or a file's.
    """
    parameters = list(module.parameters())
    kinds = [torch.bfloat16 if narrow and parameter.ndim > 1 else torch.float32 for parameter in parameters]
    sizes = [parameter.numel() * kind.itemsize for parameter, kind in zip(parameters, kinds, strict=True)]
    block = np.empty(sum(-(-size // LINE) * LINE for size in sizes) + LINE, np.uint8)
    place = -block.ctypes.data % LINE
    for parameter, kind, size in zip(parameters, kinds, sizes, strict=True):
        part = torch.from_numpy(block[place : place + size]).view(kind).view(parameter.shape)
        parameter.data = part.copy_(parameter.detach())
        place += -(-size // LINE) * LINE


def exact_in_bfloat16(module: nn.Module) -> bool:
    """Whether bfloat16 holds all matrices of a module as they are: published drafters are mostly kept in it."""
    matrices = (parameter.detach() for parameter in module.parameters() if parameter.ndim > 1)
    return all(torch.equal(matrix, matrix.to(torch.bfloat16).to(matrix.dtype)) for matrix in matrices)

"""Weights that a CPU reads whole in every pass, side by side in memory of large pages, each from a new cache line on.

Weights out of a file are its own pages of 4 KB, where a core looks up an address anew for every row or two of a matrix
and what is fetched ahead waits for that, and they begin anywhere. Linux gives pages of 2 MB to those who ask, as numpy
does for its large arrays and torch does not.
"""

import numpy as np
import torch
from torch import nn

LINE = 16
"""Float32 numbers of a cache line."""


def gather(module: nn.Module) -> None:
    """Moves the parameters of a float32 module on a CPU into one array, in their order; tied ones stay tied.

    One after the other gives up its old memory: there are never two copies but of what is shared or a file's.
    """
    parameters = list(module.parameters())
    sizes = [-(-parameter.numel() // LINE) * LINE for parameter in parameters]
    block = np.empty(sum(sizes) + LINE, np.float32)
    place = -(block.ctypes.data // block.itemsize) % LINE
    for parameter, size in zip(parameters, sizes, strict=True):
        part = torch.from_numpy(block[place : place + parameter.numel()]).view(parameter.shape)
        parameter.data = part.copy_(parameter.detach())
        place += size

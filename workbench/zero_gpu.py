"""ZeroGPU, where a GPU is lent for seconds: whether this is such a Space, and what stands for its decorator."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from decoding.zero_gpu import on_zero_gpu

Lend = Callable[..., Callable[[Callable[..., Iterator[Any]]], Callable[..., Iterator[Any]]]]
"""`spaces.GPU`: called with `duration`, it gives a decorator of generators."""


def zero_gpu(environment: Mapping[str, str] = os.environ) -> Lend | None:
    """`spaces.GPU` on a ZeroGPU Space, None anywhere else.

    Importing the package makes PyTorch pretend that there is a GPU, on the importing thread only: call it on the main
    thread, before anything else touches CUDA, and place models there, too.
    """
    if not on_zero_gpu(environment):
        return None
    import spaces

    lend: Lend = spaces.GPU
    return lend

"""ZeroGPU Spaces: a GPU is lent to a forked worker for seconds, and the process itself has none.

Their package makes PyTorch pretend that there is one, so that models can be placed on it before the fork. It does so
on the main thread only, so that tensors have to be made on the CPU and moved there.
"""

import os
from collections.abc import Mapping

SWITCH = "SPACES_ZERO_GPU"


def on_zero_gpu(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process runs on a ZeroGPU Space."""
    return environment.get(SWITCH, "").lower() in ("1", "t", "true")

"""What a checkpoint of a drafter is loaded for."""

from dataclasses import dataclass

import torch

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Fitting:
    """The target that a drafter must fit, and the dtype and device that it is loaded in."""

    vocab: int
    hidden: int
    layers: int
    dtype: torch.dtype = torch.float32
    device: torch.device = CPU

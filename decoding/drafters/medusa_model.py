"""The network of Medusa (arXiv 2401.10774), section 2.1.1: heads side by side on one hidden state."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from decoding.drafters.medusa_config import MedusaConfig


class ResBlock(nn.Module):
    """x + SiLU(W x + b), the residual form of the paper's first layer; `[rows, hidden]` in and out."""

    def __init__(self, hidden: int, bias: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden, hidden, bias=bias)

    def forward(self, states: Tensor) -> Tensor:
        return states + functional.silu(self.linear(states))


class MedusaModel(nn.ModuleList):
    """The heads: member i of the list is the paper's head i + 1. Its tensors have the published names."""

    def __init__(self, config: MedusaConfig, vocab: int) -> None:
        """`vocab` is the target's, for heads that have matrices of their own."""
        super().__init__(_head(config, vocab) for _ in range(config.heads))
        self.config = config

    def forward(self, hidden: Tensor) -> Tensor:
        """One final hidden state `[1, hidden]` of the target to logits `[heads, vocab]`, or where the heads have no
        matrices of their own to the states `[heads, hidden]` that the target's head is to read."""
        return torch.cat([head(hidden) for head in self])


def _head(config: MedusaConfig, vocab: int) -> nn.Sequential:
    head = nn.Sequential(*(ResBlock(config.hidden, config.bias) for _ in range(config.layers)))
    if config.own_output:
        head.append(nn.Linear(config.hidden, vocab, bias=False))
    return head

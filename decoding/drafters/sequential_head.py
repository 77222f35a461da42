"""A sequential head beside a block drafter: what a drafted token changes in the positions behind it.

A block-diffusion drafter denoises all positions at once, so each of its distributions is a mean over whatever may stand
before. This head takes the mean apart again. It is a small recurrence (as in ReDrafter, arXiv 2403.09919; heads that
see the tokens before are Hydra's, arXiv 2402.05109) over the states that the drafter has anyway. For a node with token
t at position i, which came about by the step s:

    s' = silu(A h[i + 1] + p[i + 1] + B e(t) + C s)          logits of its children = W (h[i + 1] + D s')

where h are the drafter's final states, e is the target's embedding, scaled to the same size for every token, and W the
target's head. B e and W D are tables, made once; so a node costs some ten thousand products and no pass of any network,
and every node of a tree has a distribution of its own. The root has no step before it, and what the drafter says of its
children stands: it has read the root.

The weights stand beside the checkpoint in a file of their own, which stays in the published format.
"""

import math
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from decoding.drafters.network import Embed, Head
from decoding.errors import Incompatible, ModelUnavailable
from decoding.kernels.sequel import Sequel
from decoding.types import Floats

FILE = "sequential_head.safetensors"


class SequentialHead(nn.Module):
    """The weights; `width` is that of a step."""

    def __init__(self, hidden: int, positions: int, width: int) -> None:
        super().__init__()
        self.state = nn.Linear(hidden, width, bias=False)
        self.word = nn.Linear(hidden, width, bias=False)
        self.carry = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, hidden, bias=False)
        self.place = nn.Parameter(torch.zeros(positions, width))

    def forward(self, states: Tensor, before: Tensor) -> Tensor:
        """What the target's head is to read `[blocks, positions, hidden]`, along one path.

        `states` are the drafter's, of that shape; `before` `[blocks, positions, hidden]` are the `unit` embeddings of
        the token before each position, the root's first.
        """
        ahead = self.state(states) + self.place + self.word(before)
        step, steps = torch.zeros_like(ahead[:, 0]), []
        for position in range(ahead.shape[1]):
            step = functional.silu(ahead[:, position] + self.carry(step))
            steps.append(step)
        changed = states[:, 1:] + self.out(torch.stack(steps[1:], dim=1))
        return torch.cat([states[:, :1], changed], dim=1)


def unit(embedded: Tensor) -> Tensor:
    """Embeddings `[..., hidden]`, each with a mean square of 1."""
    direction: Tensor = functional.normalize(embedded, dim=-1)
    return direction * math.sqrt(embedded.shape[-1])


class SequentialTables:
    """A loaded head as plans read it, on the host."""

    @torch.inference_mode()
    def __init__(self, module: SequentialHead, embed: Embed, head: Head, vocab_size: int) -> None:
        """`module` lies on the target's device. `embed` and `head` are the target's own; `head` is linear."""
        out = module.out.weight
        embedded = embed(torch.arange(vocab_size, device=out.device))
        columns = head(out.T.contiguous().to(embedded.dtype)).T
        self._still = Sequel(
            states=np.empty((0, module.state.in_features), np.float32),
            state=_host(module.state.weight),
            place=_host(module.place),
            word=_host(module.word(unit(embedded.to(out.dtype)))),
            carry=_host(module.carry.weight),
            column=_host(columns),
        )

    def sequel(self, states: Tensor) -> Sequel:
        """In the round in which the drafter's final states are `states` `[positions, hidden]`."""
        return self._still._replace(states=_host(states))


def read_sequential_head(folder: Path, hidden: int, positions: int) -> SequentialHead | None:
    """The head beside a checkpoint, in float32; None where there is none.

    Raises ModelUnavailable for a file that cannot be read, Incompatible for a head of another drafter.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        stored = {name: tensor.float() for name, tensor in load_file(path).items()}
        module = SequentialHead(hidden, positions, len(stored["carry.weight"]))
    except (OSError, SafetensorError, KeyError) as error:
        raise ModelUnavailable(f"{path} cannot be read: {error}.", "Fetch the checkpoint again.") from None
    wanted = {name: list(tensor.shape) for name, tensor in module.state_dict().items()}
    found = {name: list(tensor.shape) for name, tensor in stored.items()}
    if found != wanted:
        raise Incompatible(
            f"{path} holds the tensors {found}, and the drafter needs {wanted}.",
            "Train a sequential head for this drafter, or remove the file.",
        )
    module.load_state_dict(stored)
    return module.requires_grad_(False)


def _host(values: Tensor) -> Floats:
    table: Floats = np.ascontiguousarray(values.float().cpu().numpy())
    return table

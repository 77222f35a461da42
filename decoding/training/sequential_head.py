"""Trains the sequential head of a block drafter (see `decoding.drafters.sequential_head`), which stays as it is.

The blocks and the loss are those that the drafter was trained with; but each position is told the tokens before it,
as the nodes of a tree are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile

import torch
from safetensors.torch import save
from torch import Tensor, nn

from decoding.drafters.sequential_head import FILE, SequentialHead, unit
from decoding.files import write_atomically
from decoding.shipped import write_sums
from decoding.training.block_diffusion import Blocks, BlockTrainer, block_states, sample_blocks, weighted
from decoding.training.export import Card, Checkpoint, in_bfloat16
from decoding.training.fit_loop import Numbers

CARD = "SEQUENTIAL_HEAD.md"


@dataclass(frozen=True)
class SequentialRecipe:
    """What belongs to the head."""

    width: int = 128


class SequentialTrainer:
    """The head, and the trained drafter whose data and whose loss it shares."""

    def __init__(self, drafter: BlockTrainer, recipe: SequentialRecipe) -> None:
        self.drafter, self.recipe = drafter, recipe
        self.examples_per_step = drafter.examples_per_step
        hidden, positions = drafter.config.hidden, drafter.config.block_size - 1
        self.model = SequentialHead(hidden, positions, recipe.width).to(drafter.device)
        nn.init.zeros_(self.model.out.weight)

    def loss(self, indices: Sequence[int], generator: torch.Generator) -> tuple[Tensor, Numbers]:
        """Of blocks at random places of some examples."""
        drafter = self.drafter
        blocks = sample_blocks(drafter.examples, drafter.store, indices, drafter.recipe, generator)
        return self.loss_of(blocks.to(drafter.device))

    def loss_of(self, blocks: Blocks) -> tuple[Tensor, Numbers]:
        """As the drafter's own: the weighted mean over positions, and top-1 agreement by position."""
        drafter = self.drafter
        with torch.no_grad():
            embedded = drafter.embedded(blocks)
            states = block_states(drafter.model, blocks, embedded, drafter.table)[..., 1:, :]
            before = unit(drafter.embedding[blocks.tokens[..., :-1]])
        read = self.model(states.flatten(0, 1), before.flatten(0, 1)).unflatten(0, blocks.anchor.shape)
        return weighted(drafter, read, blocks)

    def checkpointed(self) -> tuple[nn.Module, Callable[[str], str | None]]:
        """The module whose tensors a checkpoint holds, and what a tensor of a checkpoint is called in it."""
        return self.model, lambda name: name

    def published(self) -> Checkpoint:
        """Its tensors in bfloat16."""
        return Checkpoint(in_bfloat16(self.model.state_dict()))


def export_beside(drafter: Path, folder: Path, checkpoint: Checkpoint, card: Card) -> None:
    """Writes a head to `folder`, with a copy of the `drafter` that it belongs to where that is another folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if folder.resolve() != drafter.resolve():
        for path in drafter.iterdir():
            if path.suffix in (".json", ".safetensors", ".md"):
                copyfile(path, folder / path.name)
    tensors = {name: tensor.detach().contiguous() for name, tensor in checkpoint.tensors.items()}
    write_atomically(folder / FILE, save(tensors, {"format": "pt"}))
    write_atomically(folder / CARD, card.text())
    write_sums(folder)

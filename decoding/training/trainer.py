"""What every recipe has: a model, and the loss of some examples; and how it is trained, held out and measured."""

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from decoding.errors import BadRequest
from decoding.training.corpus import Example
from decoding.training.export import Checkpoint
from decoding.training.fit_loop import FitOptions, Numbers, fit
from decoding.training.precision import product_dtype

HELD_OUT_EVERY = 32
"""One example in so many is never trained on."""
HELD_OUT_EXAMPLES = 96
SHARED_STEPS = 8


class Trainer(Protocol):
    """A drafter in training."""

    examples_per_step: int

    @property
    def model(self) -> nn.Module:
        """The drafter."""

    @property
    def recipe(self) -> object:
        """Its settings, for the model card."""

    def loss(self, indices: Sequence[int], generator: torch.Generator) -> tuple[Tensor, Numbers]:
        """Of the examples `indices`; what is chosen at random comes from the generator."""

    def published(self) -> Checkpoint:
        """What its readers expect."""

    def checkpointed(self) -> tuple[nn.Module, Callable[[str], str | None]]:
        """The module whose tensors a checkpoint holds, and what a tensor of a checkpoint is called in it."""


def held_out(examples: Sequence[Example]) -> tuple[list[int], list[int]]:
    """Indices to train on, and indices of greedy examples to measure with.

    The prompt alone decides: a drafter that goes on with more text has not seen what it is measured with.
    """
    rank = {i: _rank(example) for i, example in enumerate(examples) if example.temperature == 0}
    measured = [i for i in rank if rank[i] < 1 / HELD_OUT_EVERY] or sorted(rank, key=lambda i: rank[i])[:1]
    kept_back = set(measured)
    return [i for i in range(len(examples)) if i not in kept_back], measured


def _rank(example: Example) -> float:
    """A number from 0 to below 1 that the prompt decides."""
    return zlib.crc32(repr(example.prompt).encode()) / 2**32


def train(
    trainer: Trainer,
    examples: Sequence[Example],
    options: FitOptions,
    folder: Path,
    title: str,
    device: torch.device,
    begun: str = "",
) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Trains in place; the curve, and the means over examples that were held out.

    Products are taken in the dtype that the device multiplies fastest; the weights stay in float32.
    """
    chosen, measured = held_out(examples)
    if not chosen or not measured:
        raise BadRequest(f"{len(examples)} examples are too few to train on.", "Write more text, or add a --corpus.")
    mixed = torch.autocast(device.type, torch.bfloat16, enabled=product_dtype(device) == torch.bfloat16)

    def loss_of(step: int) -> tuple[Tensor, Numbers]:
        with mixed:
            return trainer.loss(chosen_for(step), torch.Generator().manual_seed(options.seed * 1_000_003 + step))

    def chosen_for(step: int) -> list[int]:
        """Texts of like length, which need no padding: so many steps share out what they draw together."""
        drawn, turn = divmod(step, SHARED_STEPS)
        generator = torch.Generator().manual_seed(options.seed * 1_000_003 + drawn)
        count = trainer.examples_per_step
        places = torch.randint(len(chosen), (SHARED_STEPS * count,), generator=generator).tolist()
        together = sorted((chosen[place] for place in places), key=lambda index: len(examples[index]))
        first = count * int(torch.randperm(SHARED_STEPS, generator=generator)[turn])
        return together[first : first + count]

    trainer.model.train()
    curve = fit(trainer.model, loss_of, options, folder, title, f"{trainer.recipe} on {len(chosen)} texts{begun}")
    trainer.model.eval()
    rows = []
    generator = torch.Generator().manual_seed(options.seed)
    with torch.no_grad(), mixed:
        for start in range(0, min(len(measured), HELD_OUT_EXAMPLES), trainer.examples_per_step):
            rows.append(trainer.loss(measured[start : start + trainer.examples_per_step], generator)[1])
    return curve, {name: float(sum(row[name] for row in rows)) / len(rows) for name in rows[0]}

"""What every recipe has: a model, and the loss of some examples; and how it is trained, held out and measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from decoding.errors import BadRequest
from decoding.training.corpus import Example
from decoding.training.export import Checkpoint
from decoding.training.fit_loop import FitOptions, Numbers, fit

HELD_OUT_EVERY = 32
"""One example in so many is never trained on."""
HELD_OUT_BATCHES = 6


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


def held_out(examples: Sequence[Example]) -> tuple[list[int], list[int]]:
    """Indices to train on, and indices of greedy examples to measure with."""
    measured = [i for i in range(0, len(examples), HELD_OUT_EVERY) if examples[i].temperature == 0]
    kept_back = set(measured)
    return [i for i in range(len(examples)) if i not in kept_back], measured


def train(
    trainer: Trainer, examples: Sequence[Example], options: FitOptions, folder: Path, title: str, device: torch.device
) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Trains in place; the curve, and the means over examples that were held out.

    On a GPU the products are taken in bfloat16; the weights stay in float32.
    """
    chosen, measured = held_out(examples)
    if not chosen or not measured:
        raise BadRequest(f"{len(examples)} examples are too few to train on.", "Write more text, or add a --corpus.")
    mixed = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")

    def loss_of(step: int) -> tuple[Tensor, Numbers]:
        generator = torch.Generator().manual_seed(options.seed * 1_000_003 + step)
        places = torch.randint(len(chosen), (trainer.examples_per_step,), generator=generator).tolist()
        with mixed:
            return trainer.loss([chosen[place] for place in places], generator)

    trainer.model.train()
    curve = fit(trainer.model, loss_of, options, folder, title, f"{trainer.recipe} on {len(chosen)} texts")
    trainer.model.eval()
    rows = []
    generator = torch.Generator().manual_seed(options.seed)
    with torch.no_grad(), mixed:
        for start in range(0, len(measured), trainer.examples_per_step)[:HELD_OUT_BATCHES]:
            rows.append(trainer.loss(measured[start : start + trainer.examples_per_step], generator)[1])
    return curve, {name: float(sum(row[name] for row in rows)) / len(rows) for name in rows[0]}

"""What is trained on, and what is kept back to measure with."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from decoding.training.corpus import Example
from decoding.training.export import Checkpoint
from decoding.training.fit_loop import FitOptions
from decoding.training.trainer import HELD_OUT_EVERY, held_out, train
from tests.decoding.training.material import texts


class Counter(nn.Module):
    """Learns nothing and remembers which texts it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))


@dataclass
class Shown:
    """A trainer of no drafter."""

    examples_per_step = 4
    recipe = "none"

    def __post_init__(self) -> None:
        self.model, self.batches = Counter(), list[list[int]]()

    def loss(self, indices: Any, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        self.batches.append(list(indices))
        return self.model.weight.sum(), {"seen": torch.tensor(float(len(indices)))}

    def published(self) -> Checkpoint:
        raise AssertionError

    def checkpointed(self) -> Any:
        raise AssertionError


def test_the_same_texts_are_kept_back_whatever_else_is_there() -> None:
    examples = texts(400)
    chosen, measured = held_out(examples)
    assert sorted(chosen + measured) == list(range(400))
    assert 400 / HELD_OUT_EVERY / 3 < len(measured) < 3 * 400 / HELD_OUT_EVERY
    more = [*texts(90, seed=1), *reversed(examples)]
    kept_back = {more[i].prompt for i in held_out(more)[1]}
    assert {examples[i].prompt for i in measured} <= kept_back


def test_what_was_sampled_is_never_measured_with_and_a_few_texts_give_one() -> None:
    examples = [replace(example, temperature=0.8) for example in texts(200)] + texts(3, seed=1)
    assert all(i >= 200 for i in held_out(examples)[1])
    assert len(held_out(texts(5))[1]) == 1
    assert held_out(examples[:200])[1] == []


@pytest.fixture
def shown(tmp_path: Path) -> tuple[list[Example], list[list[int]]]:
    examples, trainer = texts(300, longest=60), Shown()
    train(trainer, examples, FitOptions(steps=64), tmp_path, "none", torch.device("cpu"))
    return examples, trainer.batches[:64]


def test_texts_of_a_step_are_of_like_length_and_none_is_drawn_more_often(
    shown: tuple[list[Example], list[list[int]]],
) -> None:
    examples, batches = shown
    lengths = [[len(examples[i]) for i in batch] for batch in batches]
    padded = sum(max(batch) * len(batch) for batch in lengths)
    assert sum(map(sum, lengths)) > 0.85 * padded
    firsts = [batch[0] for batch in lengths]
    assert sorted(firsts[:8]) != firsts[:8]  # the long ones do not always come last
    assert not set(held_out(examples)[1]) & {i for batch in batches for i in batch}
    assert len({i for batch in batches for i in batch}) > 100

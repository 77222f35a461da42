"""A sequential head in training: it begins as the drafter it stands beside, and learns what that cannot know."""

import torch

from decoding.training.block_diffusion import BlockRecipe, BlockTrainer, sample_blocks
from decoding.training.corpus import Example
from decoding.training.features import LiveFeatures
from decoding.training.sequential_head import SequentialRecipe, SequentialTrainer
from tests.decoding.training.material import TAPS, generator, shake, target, teacher_of, texts

RECIPE = BlockRecipe(layers=2, block_size=5, taps=TAPS, mask_token_id=1, anchors=6, examples_per_step=3, soft=0.0)


def trainer_of(examples: list[Example]) -> SequentialTrainer:
    drafter = BlockTrainer(target(), examples, LiveFeatures(target(), examples), RECIPE, teacher_of(examples))
    shake(drafter.model)
    return SequentialTrainer(drafter, SequentialRecipe(width=16))


def test_it_begins_with_what_the_drafter_says_and_leaves_it_as_it_is() -> None:
    examples = texts(4)
    trainer = trainer_of(examples)
    blocks = sample_blocks(examples, trainer.drafter.store, [0, 1, 2], RECIPE, generator())
    loss, numbers = trainer.loss_of(blocks)
    before, others = trainer.drafter.loss_of(blocks)
    torch.testing.assert_close(loss, before)
    assert numbers == others
    loss.backward()
    assert all(weight.grad is None for weight in trainer.drafter.model.parameters())
    assert all(weight.grad is not None for weight in trainer.model.parameters())


def test_it_learns_what_follows_a_token_that_only_the_path_knows() -> None:
    """Texts of pairs: which pair comes next is anybody's guess, its second token is not once the first is known."""
    rng = generator(3)
    pairs = [(n, n + 40) for n in range(5, 25)]
    picks = torch.randint(len(pairs), (24, 10), generator=rng).tolist()
    examples = [Example("test", 0.0, (3, 4), tuple(t for pick in line for t in pairs[pick])) for line in picks]
    trainer = trainer_of(examples)
    optimizer = torch.optim.AdamW(trainer.model.parameters(), lr=2e-2)
    chosen = list(range(24))

    def second(number: str) -> float:
        with torch.no_grad():
            return float(trainer.loss(chosen, generator(9))[1][number])

    before = second("top1_2")
    for step in range(60):
        loss, _ = trainer.loss(chosen, generator(step))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    # Half of the blocks begin between two pairs: there position 2 is known from position 1.
    assert before < 0.15
    assert second("top1_2") > 0.4

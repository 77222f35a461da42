"""The block drafter in training computes what it computes when it drafts."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from decoding.drafters.base import Observation, no_next
from decoding.drafters.block_diffusion import BlockDiffusionDrafter, load_block_diffusion
from decoding.drafters.fitting import Fitting
from decoding.errors import Incompatible
from decoding.training.block_diffusion import BlockRecipe, Blocks, BlockTrainer, block_states, sample_blocks
from decoding.training.corpus import Example
from decoding.training.export import export_folder
from decoding.training.features import LiveFeatures
from tests.decoding.training.material import LAYERS, TAPS, generator, shake, target, teacher_of, texts
from tests.tiny_models import VOCAB

RECIPE = BlockRecipe(layers=2, block_size=5, taps=TAPS, mask_token_id=1, anchors=6, examples_per_step=3)


def trainer_of(examples: list[Example], vocabulary: int = VOCAB, recipe: BlockRecipe = RECIPE) -> BlockTrainer:
    trainer = BlockTrainer(
        target(), examples, LiveFeatures(target(), examples), recipe, teacher_of(examples, vocabulary)
    )
    shake(trainer.model)
    return trainer


def draft_from(drafter: BlockDiffusionDrafter, tokens: Tensor, features: Tensor, anchor: int) -> Tensor:
    """The drafter's logits `[positions, kept]` when the text up to `anchor` is committed, in two pieces."""
    drafter.begin(len(tokens) + RECIPE.block_size)
    for at in (slice(0, anchor // 2), slice(anchor // 2, anchor)):
        piece = tokens[at].numpy().astype(np.int32)
        drafter.observe(Observation(piece, features[at], piece[:0], no_next(0)))
    return drafter.logits(int(tokens[anchor]))


def test_all_blocks_at_once_are_the_drafter_s_block_by_block() -> None:
    examples = texts(4)
    trainer = trainer_of(examples)
    indices = [2, 0, 3]
    assert len({len(examples[i]) for i in indices}) == 3
    blocks = sample_blocks(examples, trainer.store, indices, RECIPE, generator())
    embedded = trainer.embedding[RECIPE.mask_token_id].expand(*blocks.tokens.shape, -1).clone()
    embedded[..., 0, :] = trainer.embedding[blocks.tokens[..., 0]]
    with torch.no_grad():
        found = target().head(block_states(trainer.model, blocks, embedded, trainer.table)[..., 1:, :])
    drafter = BlockDiffusionDrafter(trainer.model, target().embed, target().head, VOCAB, "trained")
    for row, index in enumerate(indices):
        text = torch.tensor(examples[index].tokens)
        features, _ = LiveFeatures(target(), examples).padded([index], RECIPE.taps)  # alone: not padded
        for place, anchor in enumerate(blocks.anchor[row].tolist()):
            wanted = draft_from(drafter, text, features[0], anchor)
            torch.testing.assert_close(found[row, place], wanted, rtol=1e-4, atol=1e-4)
    assert float(found.std()) > 0.1


def test_blocks_hold_the_text_after_their_anchors_and_what_the_target_thought_of_it() -> None:
    examples = texts(5)
    blocks = sample_blocks(examples, LiveFeatures(target(), examples), [1, 4], RECIPE, generator())
    for row, index in enumerate((1, 4)):
        example = examples[index]
        _, final = LiveFeatures(target(), examples).padded([index], ())
        for place, anchor in enumerate(blocks.anchor[row].tolist()):
            assert len(example.prompt) <= anchor <= len(example) - 2  # the root is a token of the response
            text = example.tokens[anchor : anchor + RECIPE.block_size]
            assert blocks.tokens[row, place, : len(text)].tolist() == list(text)
            assert blocks.known[row, place].tolist() == [n < len(text) for n in range(RECIPE.block_size)]
            spoken = len(text) - 1
            torch.testing.assert_close(
                blocks.final[row, place, :spoken], final[0, anchor : anchor + spoken], rtol=1e-4, atol=1e-4
            )


@pytest.mark.parametrize("example", [Example("test", 0.0, (5,), (6,)), Example("test", 0.0, (5, 6, 7), (8,))])
def test_the_shortest_texts_have_blocks(example: Example) -> None:
    blocks = sample_blocks([example], LiveFeatures(target(), [example]), [0], RECIPE, generator())
    assert bool((blocks.anchor == len(example) - 2).all())
    assert bool(blocks.known[..., 1].all())


def test_a_position_further_ahead_weighs_less_and_unknown_ones_nothing() -> None:
    examples = texts(3)
    trainer = trainer_of(examples)
    blocks = sample_blocks(examples, trainer.store, [0, 1, 2], RECIPE, generator())
    assert not bool(blocks.known.all())
    loss, numbers = trainer.loss_of(blocks)
    embedded = trainer.embedding[RECIPE.mask_token_id].expand(*blocks.tokens.shape, -1).clone()
    embedded[..., 0, :] = trainer.embedding[blocks.tokens[..., 0]]
    states = block_states(trainer.model, blocks, embedded, trainer.table).detach()
    loss, total, weights = loss.detach(), 0.0, 0.0
    right = torch.zeros(3, RECIPE.anchors, RECIPE.block_size - 1)
    for row in range(3):
        for place in range(RECIPE.anchors):
            for step in range(1, RECIPE.block_size):
                if not blocks.known[row, place, step]:
                    continue
                logits, label = target().head(states[row, place, step]), int(blocks.tokens[row, place, step])
                wanted = target().head(blocks.final[row, place, step - 1]).softmax(-1)
                each = -0.5 * logits.log_softmax(-1)[label] - 0.5 * float((wanted * logits.log_softmax(-1)).sum())
                weight = float(np.exp(-(step - 1) / RECIPE.decay))
                total, weights = total + weight * float(each), weights + weight
                right[row, place, step - 1] = int(logits.argmax()) == label
    assert float(loss) == pytest.approx(total / weights, rel=1e-4)
    assert float(numbers["top1_1"]) == pytest.approx(float(right[..., 0].mean()))
    assert float(numbers["chain"]) == pytest.approx(1 + float(right.cumprod(-1).sum(-1).mean()))


def test_garbage_behind_the_end_of_a_text_does_not_matter() -> None:
    examples = texts(3)
    trainer = trainer_of(examples)
    blocks = sample_blocks(examples, trainer.store, [0, 1, 2], RECIPE, generator())
    spoilt = blocks.features.clone()
    for row in range(3):
        spoilt[row, len(examples[row]) :] = 1e4
    assert not torch.equal(spoilt, blocks.features)
    other = Blocks(spoilt, blocks.anchor, blocks.tokens, blocks.known, blocks.final)
    assert float(trainer.loss_of(other)[0]) == float(trainer.loss_of(blocks)[0])


def test_every_weight_learns() -> None:
    trainer = trainer_of(texts(3))
    trainer.loss([0, 1, 2], generator())[0].backward()
    for name, weight in trainer.model.named_parameters():
        assert weight.grad is not None, name
        assert float(weight.grad.abs().max()) > 0, name


def test_it_begins_as_the_target_s_last_layers_over_the_last_tap() -> None:
    trainer = BlockTrainer(target(), texts(2), LiveFeatures(target(), texts(2)), RECIPE, teacher_of(texts(2)))
    for layer, source in zip(trainer.model.layers, target().body.layers[-2:], strict=True):
        for name, weight in source.named_parameters():
            assert torch.equal(layer.get_parameter(name), weight), name
    features = torch.randn(3, len(TAPS) * 32)
    torch.testing.assert_close(trainer.model.fc(features), features[:, -32:])


@pytest.mark.parametrize("vocabulary", [VOCAB, 40])
def test_an_exported_drafter_gives_the_same_marginals(vocabulary: int, tmp_path: Path) -> None:
    examples, whole = texts(4), target()
    trainer = trainer_of(examples, vocabulary)
    export_folder(tmp_path, trainer.published(), "# card")
    loaded = load_block_diffusion(
        tmp_path, Fitting(VOCAB, 32, LAYERS), whole.embed, whole.head, head_over=whole.head_over
    )
    text, anchor = torch.tensor(examples[0].tokens), 7
    features = LiveFeatures(whole, examples).padded([0], TAPS)[0][0]
    drafter = BlockDiffusionDrafter(trainer.model, whole.embed, whole.head, VOCAB, "trained")
    common = trainer.teacher.common.ids
    wanted = draft_from(drafter, text, features, anchor)[:, common].log_softmax(-1)
    drafted = draft_from(loaded, text, features, anchor)
    assert drafted.shape[1] == len(common) == vocabulary
    if vocabulary < VOCAB:
        assert loaded.draft_tokens is not None
        assert loaded.draft_tokens.tolist() == common.tolist()
    marginals = loaded.marginals(int(text[anchor]), 5)
    token, logprob = torch.tensor(marginals.token.astype(np.int64)), torch.tensor(marginals.logprob)
    near = {"rtol": 0.05, "atol": 0.15}  # bfloat16 weights
    columns = torch.searchsorted(common, token)
    assert torch.equal(common[columns], token)
    torch.testing.assert_close(logprob, wanted.gather(1, columns), **near)
    best = wanted.topk(2).values
    clear = best[:, 0] - best[:, 1] > 0.3
    assert bool(clear.any())
    assert torch.equal(token[clear, 0], common[wanted.argmax(-1)][clear])


@pytest.mark.parametrize(
    ("change", "words"),
    [({"hidden": 64}, "hidden size of 32; this one's is 64"), ({"layers": 9}, f"layers of {LAYERS}; this one's is 9"),
     ({"vocab": 50}, f"vocabulary of {VOCAB}; this one's is 50")],
)  # fmt: skip
def test_another_target_is_refused_with_both_sides_named(change: dict[str, int], words: str, tmp_path: Path) -> None:
    export_folder(tmp_path, trainer_of(texts(2)).published(), "# card")
    (tmp_path / "model.safetensors").write_bytes(b"")  # it is refused before its weights are read
    sizes = {"vocab": VOCAB, "hidden": 32, "layers": LAYERS, **change}
    with pytest.raises(Incompatible, match=words):
        load_block_diffusion(tmp_path, Fitting(**sizes), target().embed, target().head)


def test_bfloat16_autocast_gives_nearly_the_same_loss() -> None:
    trainer = trainer_of(texts(3))
    exact = trainer.loss([0, 1, 2], generator())[0]
    with torch.autocast("cpu", torch.bfloat16):
        mixed = trainer.loss([0, 1, 2], generator())[0]
    mixed.backward()
    assert mixed.dtype == torch.float32
    assert float(mixed) == pytest.approx(float(exact), rel=0.05)

"""Training goes on from a checkpoint: the same weights and the same draft tokens, or a refusal that says why not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from decoding.errors import ModelUnavailable, UnsupportedModel
from decoding.training.beginning import drafted_tokens, take_weights
from decoding.training.block_diffusion import BlockRecipe, BlockTrainer
from decoding.training.eagle3 import Eagle3Recipe, Eagle3Trainer
from decoding.training.export import export_folder
from decoding.training.features import LiveFeatures
from decoding.training.llama import EMBEDDING, LlamaRecipe, LlamaTrainer
from tests.decoding.training.material import TAPS, generator, shake, target, teacher_of, texts
from tests.tiny_models import VOCAB

KINDS = ("block-diffusion", "eagle3", "llama")
EXAMPLES = texts(4)


def trainer_of(kind: str, kept: int = 60, **change: Any) -> Any:
    material = target(), EXAMPLES, LiveFeatures(target(), EXAMPLES)
    teacher = teacher_of(EXAMPLES, kept)
    if kind == "block-diffusion":
        recipe = BlockRecipe(layers=2, block_size=4, taps=TAPS, mask_token_id=1, anchors=3)
        return BlockTrainer(*material, replace(recipe, **change), teacher)
    if kind == "eagle3":
        return Eagle3Trainer(*material, replace(Eagle3Recipe(draft_vocab=kept, test_steps=2), **change), teacher)
    llama = LlamaRecipe(hidden=16, layers=2, heads=4, intermediate=24, vocabulary=kept, negatives=10)
    return LlamaTrainer(*material, replace(llama, **change), teacher, 0)


def exported(kind: str, folder: Path) -> Any:
    trainer = trainer_of(kind)
    shake(trainer.model)
    export_folder(folder, trainer.published(), "# card")
    return trainer


@pytest.mark.parametrize("kind", KINDS)
def test_it_begins_with_the_weights_as_they_were_written_and_all_of_them_learn(kind: str, tmp_path: Path) -> None:
    before, trainer = exported(kind, tmp_path), trainer_of(kind)
    take_weights(trainer, tmp_path)
    written = before.published().tensors
    found = trainer.published().tensors
    assert found.keys() == written.keys()
    for name, tensor in written.items():
        assert torch.equal(found[name].float(), tensor.float()), name
    assert all(weight.dtype == torch.float32 for weight in trainer.model.parameters())
    trainer.loss([0, 1], generator())[0].backward()
    for name, weight in trainer.model.named_parameters():
        assert weight.grad is not None, name


def test_the_llama_s_head_stays_its_embedding(tmp_path: Path) -> None:
    exported("llama", tmp_path)
    trainer = trainer_of("llama")
    take_weights(trainer, tmp_path)
    assert trainer.model.lm_head.weight is trainer.model.model.embed_tokens.weight
    assert trainer.published().tensors[EMBEDDING].dtype == torch.float8_e4m3fn


@pytest.mark.parametrize("kind", KINDS[:2])
def test_its_draft_tokens_are_the_checkpoint_s(kind: str, tmp_path: Path) -> None:
    before = exported(kind, tmp_path)
    assert drafted_tokens(tmp_path, kind, VOCAB).tolist() == before.teacher.common.ids.tolist()


def test_a_checkpoint_without_draft_tokens_drafts_with_all(tmp_path: Path) -> None:
    export_folder(tmp_path, trainer_of("block-diffusion", VOCAB).published(), "# card")
    assert drafted_tokens(tmp_path, "block-diffusion", VOCAB).tolist() == list(range(VOCAB))


@pytest.mark.parametrize(
    ("kind", "other", "words"),
    [
        ("block-diffusion", trainer_of("block-diffusion", block_size=5), "block_size 4 instead of 5"),
        ("eagle3", trainer_of("eagle3", 50), "draft_vocab_size 60 instead of 50"),
        ("llama", trainer_of("llama", layers=3), "num_hidden_layers 2 instead of 3"),
        ("llama", trainer_of("eagle3"), "architectures"),
    ],
)
def test_another_drafter_is_refused_with_what_differs(kind: str, other: Any, words: str, tmp_path: Path) -> None:
    exported(kind, tmp_path)
    with pytest.raises(UnsupportedModel, match=f"another one than this profile trains: .*{words}.*--begin-with"):
        take_weights(other, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_folder_is_named(kind: str, tmp_path: Path) -> None:
    exported(kind, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"none")
    with pytest.raises(ModelUnavailable, match=r"model\.safetensors"):
        take_weights(trainer_of(kind), tmp_path)


def test_an_eagle_drafter_without_copying_heads_is_given_them(tmp_path: Path) -> None:
    plain = trainer_of("eagle3", copying=False)
    shake(plain.model)
    export_folder(tmp_path, plain.published(), "# card")
    trainer = trainer_of("eagle3", copying=False)
    take_weights(trainer, tmp_path)
    trainer.give_copying_heads()
    assert trainer.recipe == trainer_of("eagle3").recipe
    assert trainer.published().config == trainer_of("eagle3").published().config
    found, wanted = trainer.model.midlayer.mlp.state_dict(), plain.model.midlayer.mlp.state_dict()
    for name, weight in wanted.items():
        torch.testing.assert_close(found[name], weight, rtol=0.01, atol=1e-3)  # as it was written, in bfloat16

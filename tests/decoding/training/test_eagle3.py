"""The training-time test of EAGLE-3 computes what the drafter computes when it drafts a chain."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from decoding.drafters.base import Observation, no_next
from decoding.drafters.eagle3 import Eagle3Drafter, load_eagle3
from decoding.drafters.eagle3_config import Eagle3Config
from decoding.drafters.fitting import Fitting
from decoding.errors import Incompatible
from decoding.training import eagle3
from decoding.training.corpus import Example
from decoding.training.eagle3 import Eagle3Recipe, Eagle3Trainer, gather_texts
from decoding.training.export import export_folder
from decoding.training.features import LiveFeatures
from tests.decoding.training.material import LAYERS, generator, shake, target, teacher_of, texts
from tests.tiny_models import VOCAB

STEPS, DRAFT = 4, 60
RECIPE = Eagle3Recipe(draft_vocab=DRAFT, test_steps=STEPS, examples_per_step=3)


def trainer_of(examples: list[Example]) -> Eagle3Trainer:
    torch.manual_seed(0)
    trainer = Eagle3Trainer(target(), examples, LiveFeatures(target(), examples), RECIPE, teacher_of(examples, DRAFT))
    shake(trainer.model)
    return trainer


class Spy:
    """Stands in for the teacher and keeps the logits of every step."""

    def __init__(self) -> None:
        self.logits: list[Tensor] = []
        self.labels: list[Tensor] = []
        self.final: list[Tensor] = []

    def loss_of_logits(self, logits: Tensor, labels: Tensor, final: Tensor, soft: float) -> tuple[Tensor, Tensor]:
        self.logits.append(logits.detach())
        self.labels.append(labels)
        self.final.append(final)
        return logits.sum(-1), labels == labels


@torch.inference_mode()
def drafted_chain(drafter: Eagle3Drafter, text: Tensor, features: Tensor, root: int, depth: int) -> list[Tensor]:
    """Logits over the draft vocabulary after the root at place `root` and after true tokens below it."""
    drafter.begin(len(text) + 1)
    given = text.numpy().astype(np.int32)
    drafter.observe(Observation(given[:root], features[:root], given[:0], no_next(0)))
    drafter.start(int(text[root]), 3)
    for below in range(depth):
        drafter.expand(given[root + 1 + below : root + 2 + below], np.array([below], np.int32), 3)
    return list(drafter.model.logits(drafter._state))


def test_step_k_of_a_row_is_the_drafter_at_depth_k(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = texts(3, longest=9)
    trainer, spy, wanted = trainer_of(examples), Spy(), [2, 0]
    monkeypatch.setattr(trainer, "teacher", spy)
    trainer.loss(wanted, generator())
    drafter = Eagle3Drafter(trainer.model, target().embed, LAYERS, "trained")
    live = gather_texts(examples, trainer.store, wanted, trainer.taps, trainer.embedding).counted
    for step in range(STEPS):
        found, rows = spy.logits[step], []
        for index in wanted:
            example = examples[index]
            text = torch.tensor(example.tokens)
            features = LiveFeatures(target(), examples).padded([index], trainer.taps)[0][0]
            # The root of a row's chain is `step` tokens before the row's own: a token of the response itself.
            for root in range(len(example.prompt), len(text) - 1 - step):
                rows.append(drafted_chain(drafter, text, features, root, step)[step])
        assert len(found) == len(rows) > 0
        torch.testing.assert_close(found, torch.stack(rows), rtol=1e-4, atol=1e-4)
    assert len(spy.logits[0]) == int(live.sum())


def test_labels_and_what_the_target_thinks_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = texts(2)
    trainer, spy = trainer_of(examples), Spy()
    monkeypatch.setattr(trainer, "teacher", spy)
    trainer.loss([0, 1], generator())
    for step in range(STEPS):
        labels = [token for e in examples for token in e.response[1 + step :]]
        assert spy.labels[step].tolist() == labels
        finals = [LiveFeatures(target(), examples).padded([i], ())[1][0] for i in (0, 1)]
        speaking = [final[len(e.prompt) + step : -1] for final, e in zip(finals, examples, strict=True)]
        torch.testing.assert_close(spy.final[step], torch.cat(speaking), rtol=1e-4, atol=1e-4)


def test_the_mask_of_the_worked_example() -> None:
    mask = eagle3.test_mask(3, 1, torch.device("cpu")).int().tolist()
    assert mask == [[0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 1, 0], [1, 1, 0, 0, 0, 1]]
    assert eagle3.test_mask(3, 0, torch.device("cpu")).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_the_loss_is_the_weighted_mean_of_the_steps() -> None:
    examples = texts(3)
    trainer = trainer_of(examples)
    loss, numbers = trainer.loss([0, 1, 2], generator())
    spy, teacher = Spy(), trainer.teacher
    trainer.teacher = spy  # type: ignore[assignment]
    trainer.loss([0, 1, 2], generator())
    means, right = [], []
    for logits, labels, final in zip(spy.logits, spy.labels, spy.final, strict=True):
        each, hits = teacher.loss_of_logits(logits, labels, final, RECIPE.soft)
        means.append(float(each.mean()))
        right.append(float(hits.float().mean()))
    weights = [RECIPE.decay**step for step in range(STEPS)]
    assert float(loss) == pytest.approx(float(np.average(means, weights=weights)), rel=1e-4)
    assert [float(numbers[f"top1_{step + 1}"]) for step in range(STEPS)] == pytest.approx(right)
    assert 1 + right[0] <= float(numbers["chain"]) + 1e-6 <= 1 + sum(right) + 2e-6


def test_a_response_too_short_for_a_step_leaves_the_loss_finite() -> None:
    examples = [Example("test", 0.0, (5, 6, 7), (8,)), Example("test", 0.0, (5, 6), (8, 9))]
    loss, numbers = trainer_of(examples).loss([0, 1], generator())
    assert torch.isfinite(loss)
    assert all(torch.isfinite(value) for value in numbers.values())


def test_padding_does_not_matter() -> None:
    examples = texts(3)
    trainer = trainer_of(examples)
    shortest = min(range(3), key=lambda i: len(examples[i]))
    alone, together = Spy(), Spy()
    trainer.teacher = alone  # type: ignore[assignment]
    trainer.loss([shortest], generator())
    trainer.teacher = together  # type: ignore[assignment]
    trainer.loss([shortest, (shortest + 1) % 3], generator())
    for first, second in zip(alone.logits, together.logits, strict=True):
        torch.testing.assert_close(second[: len(first)], first, rtol=1e-4, atol=1e-4)


def test_every_weight_learns() -> None:
    trainer = trainer_of(texts(3))
    trainer.loss([0, 1, 2], generator())[0].backward()
    for name, weight in trainer.model.named_parameters():
        assert weight.grad is not None, name
        assert float(weight.grad.abs().max()) > 0, name


def test_an_exported_drafter_gives_the_same_candidates(tmp_path: Path) -> None:
    examples, whole = texts(4), target()
    trainer = trainer_of(examples)
    export_folder(tmp_path, trainer.published(), "# card")
    loaded = load_eagle3(tmp_path, Fitting(VOCAB, 32, LAYERS), whole.embed)
    common = trainer.teacher.common
    assert loaded.draft_tokens is not None
    assert loaded.draft_tokens.tolist() == common.ids.tolist()
    assert torch.equal(loaded.model.t2d, common.place >= 0)
    assert int(loaded.model.t2d.sum()) == DRAFT < VOCAB
    text = torch.tensor(examples[0].tokens)
    features = LiveFeatures(whole, examples).padded([0], trainer.taps)[0][0]
    drafter = Eagle3Drafter(trainer.model, whole.embed, LAYERS, "trained")
    wanted, found = (drafted_chain(one, text, features, 6, 2) for one in (drafter, loaded))
    torch.testing.assert_close(torch.stack(found), torch.stack(wanted), rtol=0.05, atol=0.15)  # bfloat16 weights


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
        load_eagle3(tmp_path, Fitting(**sizes), target().embed)


def test_bfloat16_autocast_gives_nearly_the_same_loss() -> None:
    trainer = trainer_of(texts(3))
    exact = trainer.loss([0, 1, 2], generator())[0]
    with torch.autocast("cpu", torch.bfloat16):
        mixed = trainer.loss([0, 1, 2], generator())[0]
    mixed.backward()
    assert mixed.dtype == torch.float32
    assert float(mixed) == pytest.approx(float(exact), rel=0.05)


def test_the_config_is_one_that_the_reader_takes() -> None:
    config = Eagle3Config.from_dict(trainer_of(texts(1)).raw_config)
    assert (config.draft_vocab, config.vocab, config.taps(LAYERS)) == (DRAFT, VOCAB, (0, 2, 4, 5))

"""Features are the target's own hidden states, wherever they come from and however they were made."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from decoding.errors import BadRequest
from decoding.training import features
from decoding.training.corpus import Example
from decoding.training.features import Features, JoinedFeatures, LiveFeatures, make_features, open_features
from tests.decoding.training.material import TAPS, store_of, target, texts
from tests.decoding.training.test_continuations import Interrupted, interrupt_after

CLOSE = {"rtol": 2e-3, "atol": 2e-3}  # float16


@torch.inference_mode()
def plain(example: Example, taps: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Features and final states of one example alone, by a stock forward pass."""
    output = target().model.model(input_ids=torch.tensor([example.tokens]), output_hidden_states=True)
    return torch.cat([output.hidden_states[tap][0] for tap in taps], dim=-1), output.last_hidden_state[0]


def test_every_example_has_the_features_of_a_plain_forward_pass(tmp_path: Path) -> None:
    examples = texts(5)
    store = store_of(tmp_path, examples, 60)  # more than one batch, and padding in some
    for index, example in enumerate(examples):
        tapped, final = plain(example, TAPS)
        torch.testing.assert_close(store.of(index, TAPS).float(), tapped, **CLOSE)
        torch.testing.assert_close(store.final_of(index).float(), final, **CLOSE)
    torch.testing.assert_close(store.of(1, (6, 2)).float(), plain(examples[1], (6, 2))[0], **CLOSE)
    assert torch.equal(open_features(tmp_path).of(2, TAPS), store.of(2, TAPS))


def test_live_features_and_those_from_disk_are_the_same(tmp_path: Path) -> None:
    examples, wanted = texts(6), [4, 1, 3]
    sources: list[Features] = [store_of(tmp_path, examples), LiveFeatures(target(), examples)]
    for source in sources:
        for taps in (TAPS, (5,), ()):
            tapped, final = source.padded(wanted, taps)
            assert tapped.dtype == final.dtype == torch.float32
            assert tapped.shape == (3, max(len(examples[i]) for i in wanted), len(taps) * 32)
            for row, index in enumerate(wanted):
                length = len(examples[index])
                if taps:
                    torch.testing.assert_close(tapped[row, :length], plain(examples[index], taps)[0], **CLOSE)
                torch.testing.assert_close(final[row, :length], plain(examples[index], (2,))[1], **CLOSE)


def test_stores_are_joined_in_any_order(tmp_path: Path) -> None:
    first, second = texts(4), texts(3, seed=1)
    stores = [store_of(tmp_path / "first", first), store_of(tmp_path / "second", second)]
    joined = JoinedFeatures(stores, [(1, 2), (0, 3), (0, 0), (1, 0)])
    wanted = [second[0], first[3], second[2]]
    for taps in (TAPS, (5,), ()):
        found = joined.padded([3, 1, 0], taps)
        alone = store_of(tmp_path / "wanted", wanted).padded([0, 1, 2], taps)
        for one, other in zip(found, alone, strict=True):
            torch.testing.assert_close(one, other, **CLOSE)


def test_live_features_may_be_learnt_from() -> None:
    tapped, _ = LiveFeatures(target(), texts(2)).padded([0, 1], (5,))
    weight = torch.ones(32, requires_grad=True)
    (tapped * weight).sum().backward()  # tensors made in inference mode would refuse
    assert weight.grad is not None


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("batches", [1, 3, 4])
def test_an_interruption_leaves_no_trace(batches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = texts(8)
    monkeypatch.setattr(features, "FLUSH_EVERY", 2)
    store_of(tmp_path / "whole", examples, 60)
    with monkeypatch.context() as patched:
        interrupt_after(patched, features, "_read", batches)
        with pytest.raises(Interrupted):
            store_of(tmp_path / "parts", examples, 60)
    with pytest.raises(BadRequest, match="no finished features"):
        open_features(tmp_path / "parts")
    with monkeypatch.context() as patched:
        again = len(list(features.token_batches(examples, 60))) - batches // 2 * 2
        interrupt_after(patched, features, "_read", again)  # no batch that was kept is read again
        store_of(tmp_path / "parts", examples, 60)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_finished_features_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_of(tmp_path, texts(3))
    interrupt_after(monkeypatch, features, "_read", 0)
    store_of(tmp_path, texts(3))


def test_progress_without_its_files_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = texts(8)
    monkeypatch.setattr(features, "FLUSH_EVERY", 2)
    with monkeypatch.context() as patched:
        interrupt_after(patched, features, "_read", 3)
        with pytest.raises(Interrupted):
            store_of(tmp_path, examples, 60)
    (tmp_path / "features.bin").unlink()
    torch.testing.assert_close(
        store_of(tmp_path, examples, 60).of(7, TAPS).float(), plain(examples[7], TAPS)[0], **CLOSE
    )


@pytest.mark.parametrize("change", ["text", "taps"])
def test_features_of_another_text_or_of_other_taps_are_made_again(change: str, tmp_path: Path) -> None:
    examples = texts(3)
    store_of(tmp_path, examples)
    others = [Example(e.source, e.temperature, e.prompt, e.response[::-1]) for e in examples]  # of the same lengths
    taps = (3, 4, 5, 6) if change == "taps" else TAPS
    chosen = others if change == "text" else examples
    store = make_features(target(), chosen, taps, tmp_path, 120)
    for index in range(3):
        torch.testing.assert_close(store.of(index, taps).float(), plain(chosen[index], taps)[0], **CLOSE)

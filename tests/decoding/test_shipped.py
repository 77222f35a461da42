"""The shipped drafters: whole, small enough for a Space, and made for the embedded model."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from decoding import shipped as module
from decoding.catalogue import drafter_info, drafters
from decoding.drafter_loading import load_drafter
from decoding.drafters.base import Observation, OnePassDrafter, no_next
from decoding.errors import Incompatible, ModelUnavailable, UnknownName
from decoding.fit import TargetInfo, misfit
from decoding.models import load_causal_lm
from decoding.presets import PRESETS
from decoding.shipped import MATRIX, SHIPPED, SUMS, Shipped, checked_folder, find_shipped, write_sums
from decoding.strategies.ddtree import DDTree
from decoding.target import Target
from decoding.template import CHOICES

TEN_MEGABYTES, ALL_BYTES = 10_000_000, 80_000_000
TINY = Shipped("tiny-drafter", "Tiny", "causal-lm", PRESETS[0].id, "a folder with a few bytes")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as if it had been shipped."""
    monkeypatch.setattr(module, "WEIGHTS", tmp_path)
    made = tmp_path / TINY.id
    made.mkdir()
    (made / "config.json").write_text("{}")
    (made / "model-00001-of-00002.safetensors").write_bytes(bytes(100))
    (made / "model-00002-of-00002.safetensors").write_bytes(bytes(200))
    (made / "README.md").write_text("# card")
    write_sums(made)
    return made


def test_a_whole_folder_is_given(folder: Path) -> None:
    assert checked_folder(TINY) == folder
    (folder / "README.md").write_text("# the card may be edited")
    assert checked_folder(TINY) == folder


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", b"{ }", "is not what was shipped"),
        ("config.json", None, "is missing"),
        ("model-00002-of-00002.safetensors", bytes(199), "is not what was shipped"),
        ("model-00002-of-00002.safetensors", bytes(199) + b"\1", "is not what was shipped"),
        ("model-00001-of-00002.safetensors", b"", "is not what was shipped"),
        ("model-00001-of-00002.safetensors", None, "is missing"),
        ("model.safetensors.index.json", b"{}", "is not what was shipped"),  # one more than there was
        (SUMS, None, "is missing"),
        (SUMS, b"garbage\n", "is not what was shipped"),
        (SUMS, b"\xff\xfe", "is not what was shipped"),
    ],
)
def test_a_damaged_file_is_named_with_the_way_out(name: str, content: bytes | None, words: str, folder: Path) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(ModelUnavailable) as caught:
        checked_folder(TINY)
    assert f"{TINY.id} is damaged: {name} in decoding/weights/{TINY.id} {words}" in caught.value.message
    assert f"git checkout -- decoding/weights/{TINY.id}" in caught.value.hint


def test_sums_that_name_nothing_are_damage(folder: Path) -> None:
    (folder / SUMS).write_text("")
    with pytest.raises(ModelUnavailable, match="damaged"):
        checked_folder(TINY)
    for path in folder.glob("*.[js]*"):
        path.unlink()
    with pytest.raises(ModelUnavailable, match=f"damaged: {SUMS}"):
        checked_folder(TINY)


def test_a_folder_that_is_gone_is_told_of(folder: Path) -> None:
    shutil.rmtree(folder)
    with pytest.raises(ModelUnavailable, match=r"is missing\..*git checkout"):
        checked_folder(TINY)


def test_an_unknown_name() -> None:
    assert find_shipped("smollm2-135m-nothing") is None
    with pytest.raises(UnknownName, match="smollm2-135m-nothing"):
        drafter_info("smollm2-135m-nothing")
    names = [shipped.id for shipped in SHIPPED]
    assert len(set(names)) == len(names)
    assert {shipped.target for shipped in SHIPPED} <= {preset.id for preset in PRESETS}
    listed = {info.id for info in drafters()}
    assert all((shipped.id in listed) == (shipped.kind != MATRIX) for shipped in SHIPPED)


def test_a_target_of_other_sizes_is_refused_before_anything_loads_with_both_sides_named() -> None:
    drafter = drafter_info("smollm2-135m-dflash")
    for vocab, hidden, words in ((101, 576, ("49,152", "101")), (49_152, 64, ("576", "64"))):
        reason = misfit(TargetInfo("./mine", "mine", "", vocab, hidden), drafter, DDTree)
        assert reason is not None
        assert all(word in reason for word in (*words, drafter.title, "mine")), reason
    assert misfit(TargetInfo("./mine", "mine", "", 49_152, 576), drafter, DDTree) is None


# What follows needs the weights themselves.

every = pytest.mark.parametrize("shipped", SHIPPED, ids=lambda shipped: shipped.id)


@every
def test_it_is_whole_and_every_file_is_below_ten_megabytes(shipped: Shipped) -> None:
    folder = checked_folder(shipped)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert max(sizes.values()) < TEN_MEGABYTES, sizes
    assert all(path.suffix in (".json", ".safetensors", ".md") or path.name == SUMS for path in folder.iterdir())


def test_all_together_are_below_eighty_megabytes() -> None:
    files = [path for shipped in SHIPPED for path in shipped.folder.rglob("*") if path.is_file()]
    assert {path.parent for path in files} == {shipped.folder for shipped in SHIPPED}
    assert sum(path.stat().st_size for path in files) < ALL_BYTES


@every
def test_its_card_says_how_it_was_made(shipped: Shipped) -> None:
    card = (shipped.folder / "README.md").read_text(encoding="utf-8")
    for words in ("python -m decoding train", "Seed", "commit", "## Data", "## Acceptance", "Apache-2.0"):
        assert words in card, words


@pytest.fixture(scope="module")
def target() -> Target:
    loaded = load_causal_lm("smollm2-135m", "float32", "cpu")
    return Target(loaded.model, loaded.tokenizer, loaded.name)


@pytest.mark.embedded
@pytest.mark.slow
@every
def test_it_loads_for_its_target_and_drafts(shipped: Shipped, target: Target) -> None:
    if shipped.kind == MATRIX:
        matrix = load_drafter("transition-matrix", target, lambda _: None).matrix  # type: ignore[attr-defined]
        assert matrix.shape == (target.vocab_size, CHOICES)
        assert float((matrix[:, 0] >= 0).float().mean()) > 0.1
        return
    drafter = load_drafter(shipped.id, target, lambda _: None)
    assert drafter.name == shipped.id
    tokens = np.array(target.tokenizer("The capital of France is the city of").input_ids, np.int32)
    context = target.open(len(tokens), 1, drafter.taps)
    features = context.prefill(tokens.tolist()).features
    drafter.begin(len(tokens) + 32)
    drafter.observe(Observation(tokens, features, tokens[:0], no_next(0)))
    root = int(target.tokenizer(" Paris").input_ids[0])
    found = drafter.marginals(root, 8) if isinstance(drafter, OnePassDrafter) else drafter.start(root, 8)
    proposed, logprob = found.token[0], found.logprob[0]
    assert ((proposed >= 0) & (proposed < target.vocab_size)).all()
    assert len(set(proposed.tolist())) == 8
    assert np.isfinite(logprob).all()
    assert -3 < logprob[0] <= 0  # it has an opinion: 8,192 tokens at random would be -9
    drafter.end()


@pytest.mark.embedded
@pytest.mark.slow
@every
def test_a_target_with_other_layers_is_refused(
    shipped: Shipped, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shipped.kind not in ("block-diffusion", "eagle3"):
        pytest.skip("it reads no layers of the target")
    monkeypatch.setattr(target, "layers", 24)
    with pytest.raises(Incompatible, match="number of layers of 30; this one's is 24"):
        load_drafter(shipped.id, target, lambda _: None)

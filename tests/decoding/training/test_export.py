"""Checkpoint folders: files that a Space takes without LFS, an index and sums that fit, a card that reads well."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from decoding.drafters.draft_tokens import read_draft_tokens
from decoding.errors import BadRequest
from decoding.training import export
from decoding.training.export import Card, Checkpoint, export_folder, in_bfloat16, split
from tests.decoding.training.material import generator

TENSORS: dict[str, Tensor] = {
    f"layers.{n}.weight": torch.randn(n + 1, 25, generator=generator(n)) for n in range(6)
}  # of 100 to 600 bytes


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "FILE_BYTES", 1000)


def test_a_file_of_the_real_limit_stays_below_ten_megabytes() -> None:
    assert 9_900_000 + 100_000 <= 10_000_000  # the header of a file of some hundred tensors is a few kB


def test_tensors_keep_their_order_and_files_are_as_few_as_it_allows() -> None:
    files = split(TENSORS)
    assert [list(part) for part in files] == [
        [f"layers.{n}.weight" for n in group] for group in ([0, 1, 2, 3], [4], [5])
    ]
    assert [sum(t.numel() * 4 for t in part.values()) for part in files] == [1000, 500, 600]


def test_a_tensor_too_large_for_a_file_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"big alone has 1,004 bytes; a file holds 1,000\."):
        export_folder(tmp_path / "out", Checkpoint({"big": torch.zeros(251)}, {"a": 1}), "# card")
    assert not (tmp_path / "out").exists()


def test_many_tensors_fill_several_files_with_an_index(tmp_path: Path) -> None:
    export_folder(tmp_path, Checkpoint(TENSORS, {"hidden_size": 25}), "# card\n")
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 2100
    assert list(index["weight_map"]) == list(TENSORS)
    found = {}
    for path in tmp_path.glob("*.safetensors"):
        own = load_file(path)
        assert {index["weight_map"][name] for name in own} == {path.name}
        found |= own
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in TENSORS.items())
    assert json.loads((tmp_path / "config.json").read_text()) == {"hidden_size": 25}
    assert (tmp_path / "README.md").read_text() == "# card\n"


def test_sums_are_those_of_the_files(tmp_path: Path) -> None:
    export_folder(tmp_path, Checkpoint(TENSORS, {"hidden_size": 25}, torch.tensor([3, 5])), "# card\n")
    lines = (tmp_path / "SHA256SUMS").read_text().splitlines()
    named = dict(line.split("  ")[::-1] for line in lines)
    assert named.keys() == {path.name for path in tmp_path.iterdir()} - {"README.md", "SHA256SUMS"}
    for name, digest in named.items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest


def test_few_tensors_are_one_file_and_leave_nothing_of_an_earlier_export(tmp_path: Path) -> None:
    export_folder(tmp_path, Checkpoint(TENSORS, {"hidden_size": 25}, torch.tensor([3, 5])), "# card\n")
    export_folder(tmp_path, Checkpoint({"only": torch.ones(3)}), "# card\n")
    assert {path.name for path in tmp_path.glob("*safetensors*")} == {"model.safetensors"}
    assert "only" in load_file(tmp_path / "model.safetensors")
    assert "00001" not in (tmp_path / "SHA256SUMS").read_text()


def test_draft_tokens_are_read_back(tmp_path: Path) -> None:
    export_folder(tmp_path, Checkpoint({"only": torch.ones(3)}, {}, torch.tensor([3, 5, 8])), "# card\n")
    ids = read_draft_tokens(tmp_path, 9)
    assert ids is not None
    assert ids.tolist() == [3, 5, 8]


def test_whole_numbers_stay_whole_in_bfloat16() -> None:
    cast = in_bfloat16({"weight": torch.ones(2), "d2t": torch.tensor([300]), "t2d": torch.tensor([True])})
    assert [tensor.dtype for tensor in cast.values()] == [torch.bfloat16, torch.int64, torch.bool]


def card(curve: list[dict[str, float]]) -> str:
    return Card("Title", "What it is.", "`command`", "Data.", 3, "abc", "CPU, 2 threads", curve, "Measured.").text()


def test_a_card_says_what_was_done() -> None:
    curve = [{"step": step, "loss": 5 - step / 100} for step in range(0, 400, 10)]
    text = card([*curve, {"step": 399, "loss": 0.5}])
    for words in (
        "# Title",
        "What it is.",
        "`command`",
        "Seed 3, commit abc, CPU, 2 threads",
        "Measured.",
        "Apache-2.0",
    ):
        assert words in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert table[:2] == ["| step | loss |", "| --- | --- |"]
    assert table[2] == "| 0 | 5 |"
    assert table[-1] == "| 399 | 0.5 |"
    assert 16 <= len(table) <= 24


def test_a_card_without_training_has_no_curve() -> None:
    assert "curve" not in card([]).lower()
    assert "| |" not in card([]).replace("  ", " ")

"""Calibrations: kept whole, found again by either name, refused by name when damaged, and used by the next run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from transformers.models.llama.modeling_llama import LlamaForCausalLM

from decoding.__main__ import main
from decoding.calibration import VERSION, Calibration, calibration_path, load_calibration, matrix_path
from decoding.errors import BadRequest, CanopyError
from decoding.run import calibrated
from decoding.strategies import make_strategy
from tests.decoding.drafters.dflash_checkpoint import write_dflash_checkpoint
from tests.decoding.tiny import llama_config, save_model

PAIR = ("graft", "some/target", "some/drafter")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CANOPY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kept(**thresholds: float) -> Calibration:
    return Calibration(*PAIR, thresholds or {"tau_d0": 0.2}, {"prompts": 5})


def test_round_trip(cache: Path) -> None:
    assert load_calibration(*PAIR) is None
    path = kept().save()
    assert path.is_relative_to(cache)
    assert load_calibration(*PAIR) == kept()
    assert load_calibration("graft", "some/target", "other/drafter") is None
    assert load_calibration("graft-block", *PAIR[1:]) is None
    kept(tau_d0=0.5).save()
    assert load_calibration(*PAIR) == kept(tau_d0=0.5)
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_both_names_of_a_preset_and_a_folder_that_changed(tmp_path: Path) -> None:
    saved = Calibration("graft", "qwen3-8b", "d", {"tau_d0": 0.2})
    saved.save()
    assert load_calibration("graft", "Qwen/Qwen3-8B", "d") == saved
    folder = tmp_path / "drafter"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"one")
    before = calibration_path("graft", "t", str(folder))
    assert before == calibration_path("graft", "t", str(folder / ".." / "drafter"))
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert calibration_path("graft", "t", str(folder)) != before


def test_a_shipped_drafter_that_was_trained_anew_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def where() -> Path:
        return calibration_path("graft", "smollm2-135m", "smollm2-135m-llama")

    before = where()
    monkeypatch.setattr("decoding.shipped.WEIGHTS", tmp_path)
    folder = tmp_path / "smollm2-135m-llama"
    folder.mkdir()
    assert where() != before  # its sums are gone
    (folder / "SHA256SUMS").write_text("0  model.safetensors\n")
    anew = where()
    (folder / "SHA256SUMS").write_text("1  model.safetensors\n")
    assert len({before, anew, where()}) == 3


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b"{}",
        *({"version": VERSION + 1}, {"pair": "0"}, {"thresholds": []}, {"thresholds": {"tau_d0": 2}},
          {"thresholds": {"tau_d0": "x"}}, {"colour": "red"}),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named(content: bytes | dict[str, Any]) -> None:
    path = kept().save()
    whole = json.loads(path.read_text())
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(whole | content).encode())
    with pytest.raises(BadRequest, match="calibrate") as caught:
        load_calibration(*PAIR)
    assert str(path) in caught.value.message


def test_a_failed_write_leaves_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept().save()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("decoding.calibration.os.fsync", full)
    with pytest.raises(CanopyError, match="No space left"):
        kept(tau_d0=0.9).save()
    assert load_calibration(*PAIR) == kept()
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_only_open_thresholds_are_filled_in() -> None:
    kept(tau_d0=0.2, tau_d1=0.3).save()
    said: list[str] = []
    ours = calibrated(make_strategy("graft", {"tau_d1": 0.05}), *PAIR[1:], said.append)
    assert (ours.settings.tau_d0, ours.settings.tau_d1, ours.settings.tau_d5) == (0.2, 0.05, -1)
    assert "tau_d0=0.200" in said[0]
    assert calibrated(make_strategy("graft", {}), "t", "d").settings.tau_d0 == -1
    assert calibrated(make_strategy("linear", {}), *PAIR[1:]).settings.as_dict() == {"budget": 5}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_model(tmp_path_factory.mktemp("target"), LlamaForCausalLM, llama_config(initializer_range=0.4)))


def last_line(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_calibrate_and_generate(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("w5 w6 w7\nw8 w9\n\nw1 w2 w3 w4\n", encoding="utf-8")
    drafter = str(save_model(tmp_path / "small", LlamaForCausalLM, llama_config(num_hidden_layers=1)))
    pair = ["--target", target, "--drafter", drafter, "--dtype", "float32", "--json"]
    assert main(["calibrate", *pair, "--prompts", str(prompts), "--max-new-tokens", "24"]) == 0
    said = last_line(capsys)
    assert said["prompts"] == 3
    assert said["rounds"]["tau_d0"] >= 20
    found = load_calibration("graft", target, drafter)
    assert found is not None
    assert found.thresholds == said["thresholds"]
    assert matrix_path(target).exists()
    generate = ["generate", "--prompt", "w5 w6 w7", "--strategy", "graft", "--max-new-tokens", "10", "--compare", *pair]
    assert main(generate) == 0
    ran = last_line(capsys)
    assert ran["settings"]["tau_d0"] == found.thresholds["tau_d0"]
    assert ran["retrieval"] == "transition-matrix"
    assert ran["lossless"]["identical"]
    found.path.write_text("{", encoding="utf-8")
    assert main(generate) == 2
    assert str(found.path) in capsys.readouterr().err


def test_a_block_drafter_s_threshold(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dflash_checkpoint(
        tmp_path, hidden=32, heads=4, kv_heads=2, head_dim=8, layers=2, target_layers=2,
        target_layer_ids=[0], block_size=4, mask_token_id=3, vocab=97, seed=0,
    )  # fmt: skip
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("w5 w6 w7\nw8 w9\n", encoding="utf-8")
    options = ["--strategy", "graft-block", "--target", target, "--drafter", str(tmp_path), "--dtype", "float32"]
    assert main(["calibrate", *options, "--prompts", str(prompts), "--max-new-tokens", "30", "--json"]) == 0
    said = last_line(capsys)
    assert said["rounds"]["tau_block"] >= 20
    assert main(["generate", "--prompt", "w5", "--max-new-tokens", "8", "--compare", "--json", *options]) == 0
    ran = last_line(capsys)
    assert ran["settings"]["tau_block"] == said["thresholds"]["tau_block"]
    assert ran["lossless"]["identical"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--strategy", "linear"], "no thresholds"),
        (["--strategy", "magic"], "magic"),
        (["--prompts", "/nowhere/at/all"], "cannot be read"),
        (["--drafter", "transition-matrix"], "beside its drafter"),
        (["--drafter", "prompt-lookup"], "log-probabilities"),
    ],
)
def test_what_cannot_be_calibrated(
    target: str, options: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", "--target", target, "--drafter", "self", *options]) == 2
    assert word in capsys.readouterr().err.strip().splitlines()[-1]


def test_no_prompts(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none.txt").write_text("\n")
    assert main(["calibrate", "--target", target, "--drafter", "self", "--prompts", str(tmp_path / "none.txt")]) == 2
    assert "no prompts" in capsys.readouterr().err

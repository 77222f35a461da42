"""The command line on tiny local checkpoints: what it prints, what it refuses, how it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.models.llama.modeling_llama import LlamaForCausalLM

from decoding.__main__ import main
from decoding.trace import read_trace
from tests.decoding.drafters.dflash_checkpoint import write_dflash_checkpoint
from tests.decoding.tiny import llama_config, save_model

PROMPT = "w5 w6 w7 w5 w6"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_model(tmp_path_factory.mktemp("target"), LlamaForCausalLM, llama_config(initializer_range=0.4)))


def generate(target: str, *options: str, prompt: str = PROMPT) -> int:
    return main(
        ["generate", "--prompt", prompt, "--target", target, "--max-new-tokens", "12", "--dtype", "float32", *options]
    )


def result(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    out = capsys.readouterr().out.strip().splitlines()
    return json.loads(out[-1])


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a refused request prints."""
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    last = said.err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    return last


@pytest.mark.parametrize(
    ("strategy", "drafter"),
    [
        ("ar", "none"),
        ("linear", "prompt-lookup"),
        ("recycle", "transition-matrix"),
        ("fixed", "self"),
        ("fixed", "transition-matrix"),
    ],
)
def test_json_holds_every_promised_field(
    target: str, strategy: str, drafter: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = tmp_path / "run.jsonl"
    options = ["--strategy", strategy, "--drafter", drafter, "--compare", "--json", "--trace", str(trace)]
    assert generate(target, *options) == 0
    said = result(capsys)
    promised = (
        "prompt_ids", "output_ids", "text", "rounds", "tokens_per_round", "accepted_per_round", "acceptance_rate",
        "tokens_per_second", "ttft_seconds", "tpot_seconds", "stage_seconds", "peak_memory_bytes", "baseline",
        "speedup", "lossless",
    )  # fmt: skip
    assert set(promised) <= set(said)
    assert said["lossless"] == {"identical": True, "first_divergence": None, "margin": None}
    assert said["baseline"]["tokens_per_round"] == 1.0
    assert {"draft", "build", "compile", "verify", "commit", "update"} - {"draft"} <= set(said["stage_seconds"])
    recorded = read_trace(trace)
    assert recorded.summary is not None
    assert list(recorded.summary.output_ids) == said["output_ids"]
    assert main(["trace", str(trace), "--json"]) == 0
    assert result(capsys)["tokens_per_round"] == pytest.approx(said["tokens_per_round"])


def test_text_goes_to_standard_output_and_progress_to_standard_error(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate(target) == 0
    said = capsys.readouterr()
    assert said.out.strip()
    assert "tokens/round" in said.err
    assert "tokens/round" not in said.out


def test_sampling_is_seeded(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for seed in ("3", "3", "4"):
        assert generate(target, "--temperature", "1", "--seed", seed, "--json", "--compare") == 0
        said = result(capsys)
        assert said["lossless"] is None
        outputs.append(said["output_ids"])
    assert outputs[0] == outputs[1]
    assert outputs[0] != outputs[2]


def test_every_verifier_above_temperature_0(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    for verifier, replacement in (
        ("multi-round", "true"), ("without-replacement", "false"), ("traversal", "false"), ("eagle", "true"),
    ):  # fmt: skip
        options = ["--verifier", verifier, "--set", f"replacement={replacement}", "--temperature", "0.8", "--json"]
        assert generate(target, "--strategy", "sampled", "--drafter", "self", *options) == 0
        said = result(capsys)
        assert said["verifier"] == verifier
        assert said["settings"]["replacement"] is (replacement == "true")
        assert len(said["output_ids"]) == said["new_tokens"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--strategy", "magic"], ["magic", "recycle", "ddtree"]),
        (["--drafter", "magic"], ["magic"]),
        (["--verifier", "magic"], ["magic", "greedy"]),
        (["--verifier", "sample-match"], ["sample-match", "greedy"]),
        (
            ["--temperature", "1", "--strategy", "fixed", "--drafter", "self", "--verifier", "multi-round"],
            ["multi-round", "fixed", "the drafter's best", "with replacement", "sample-match", "eagle", "'sampled'"],
        ),
        (
            ["--temperature", "1", "--strategy", "sampled", "--drafter", "self", "--verifier", "multi-round"],
            ["multi-round", "sampled", "without replacement", "traversal"],
        ),
        (["--strategy", "sampled", "--drafter", "prompt-lookup"], ["Prompt lookup", "log-probabilities"]),
        (["--strategy", "ddtree"], ["DDTree", "one-pass"]),
        (["--strategy", "ddtree", "--drafter", "prompt-lookup"], ["Prompt lookup", "stepwise"]),
        (["--strategy", "ar", "--drafter", "self"], ["no drafter"]),
        (["--budget", "-3"], ["budget", "-3"]),
        (["--budget", "many"], ["budget", "many"]),
        (["--set", "colour=red"], ["colour", "budget"]),
        (["--set", "budget"], ["key=value"]),
        (["--max-new-tokens", "0"], ["max_new_tokens"]),
        (["--temperature", "-1"], ["temperature"]),
        (["--temperature", "1", "--top-p", "0"], ["top_p"]),
        (["--top-k", "-1"], ["top_k"]),
    ],
)
def test_bad_requests_exit_with_2_and_one_line(
    target: str, options: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate(target, *options) == 2
    line = refused(capsys)
    assert all(word in line for word in words), line


@pytest.mark.parametrize("prompt", ["", "   \n"])
def test_an_empty_prompt(target: str, prompt: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate(target, prompt=prompt) == 2
    assert "prompt is empty" in refused(capsys)


def test_a_prompt_longer_than_the_context(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate(target, prompt="w5 " * 300) == 2
    line = refused(capsys)
    assert all(word in line for word in ("300", "256"))


def test_a_missing_prompt_file_and_a_missing_trace(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--prompt-file", "/nowhere/at/all", "--target", target]) == 2
    assert "cannot be read" in refused(capsys)
    assert main(["generate", "--target", target]) == 2
    assert "--prompt" in refused(capsys)
    assert main(["trace", "/nowhere/at/all"]) == 2
    assert "cannot be read" in refused(capsys)


def test_a_drafter_with_another_vocabulary_names_both_sizes(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = save_model(tmp_path, LlamaForCausalLM, llama_config(vocab_size=64), tokenizer=False)
    assert generate(target, "--strategy", "fixed", "--drafter", str(other)) == 2
    line = refused(capsys)
    assert all(size in line for size in ("64", "97"))


def test_a_smaller_model_and_a_published_block_drafter_from_folders(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = save_model(tmp_path / "small", LlamaForCausalLM, llama_config(num_hidden_layers=1))
    assert generate(target, "--strategy", "fixed", "--drafter", str(small), "--compare", "--json") == 0
    assert result(capsys)["lossless"]["identical"]
    (tmp_path / "block").mkdir()
    write_dflash_checkpoint(
        tmp_path / "block", hidden=32, heads=4, kv_heads=2, head_dim=8, layers=2, target_layers=2,
        target_layer_ids=[0], block_size=4, mask_token_id=3, vocab=97, seed=0,
    )  # fmt: skip
    options = ["--strategy", "ddtree", "--drafter", str(tmp_path / "block"), "--budget", "10", "--compare", "--json"]
    assert generate(target, *options) == 0
    assert result(capsys)["lossless"]["identical"]


def test_nan_logits_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = save_model(tmp_path, LlamaForCausalLM, llama_config())
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.norm.weight"] = torch.full_like(weights["model.norm.weight"], float("nan"))
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert generate(str(broken)) == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert "NaN" in line
    assert "float32" in line


def test_no_room_for_the_cache(target: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr("decoding.target.Target.forward", full)
    assert generate(target) == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert "not enough memory" in line
    assert "shorter prompt" in line


def test_ctrl_c_leaves_a_valid_trace_of_the_rounds_so_far(tmp_path: Path) -> None:
    trace = tmp_path / "run.jsonl"
    slow = save_model(tmp_path / "long", LlamaForCausalLM, llama_config(max_position_embeddings=100_000))
    weights = load_file(slow / "model.safetensors")
    weights["lm_head.weight"][1] = 0.0  # the end token, which random rows beat: it never ends by itself
    save_file(weights, slow / "model.safetensors", {"format": "pt"})
    command = [sys.executable, "-m", "decoding", "generate", "--prompt", PROMPT, "--target", str(slow)]
    command += ["--max-new-tokens", "50000", "--trace", str(trace), "--strategy", "linear", "--dtype", "float32"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and (not trace.exists() or trace.read_bytes().count(b"\n") < 5):
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    recorded = read_trace(trace)
    assert recorded.summary is not None
    assert recorded.summary.finish == "interrupted"
    assert len(recorded.rounds) >= 4
    emitted = sum(len(item.emitted) for item in recorded.rounds)
    assert len(recorded.summary.output_ids) == 1 + emitted

"""`bench drafters`, whole: its tokens per round are those of real decoding, and bad requests are refused early."""

import json
from pathlib import Path
from typing import Any

import pytest

from decoding.__main__ import main
from decoding.bench.drafter_figures import DrafterFigures
from decoding.bench.drafter_tables import drafter_tables
from decoding.bench.drafter_trees import ONE_PASS, RETRIEVAL, STEPWISE, Config, configs_for
from decoding.bench.drafters import PEER, choose_drafters
from decoding.catalogue import drafter_info
from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.prompt_lookup import PromptLookup
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.loop import Request
from decoding.metrics import tokens_per_round
from decoding.replay import record
from decoding.sampling import Sampling
from decoding.strategies import STRATEGIES
from decoding.verifiers import make_verifier
from tests.decoding.bench.measured import run_bench, spec_bench, tiny_folder
from tests.decoding.drafters.dflash_checkpoint import write_dflash_checkpoint
from tests.decoding.test_replay import PROMPT, block_drafter, blurred, real_rounds
from tests.tiny_models import VOCAB, tiny_target

NEW_TOKENS = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target, a block drafter for it and questions."""
    root = tmp_path_factory.mktemp("measured")
    tiny_folder(root / "target")
    write_dflash_checkpoint(
        root / "block", hidden=32, heads=4, kv_heads=2, head_dim=8, layers=1, target_layers=2, target_layer_ids=[0],
        block_size=5, mask_token_id=4, vocab=97, seed=0,
    )  # fmt: skip
    spec_bench(root / "questions.jsonl", each=2)
    return root


def fresh_matrix(name: str) -> TransitionMatrix:
    assert name == TransitionMatrix.name
    return TransitionMatrix(VOCAB)


def words(folder: Path, *more: str) -> tuple[str, ...]:
    return ("drafters", "--target", str(folder / "target"), "--spec-bench", str(folder / "questions.jsonl"),
            "--categories", "mt_bench", "qa", "rag",
            "--max-new-tokens", "12", "--max-prompt-tokens", "60", *more)  # fmt: skip


def test_the_whole_benchmark(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "result.json"
    block = str(folder / "block")
    table, result = run_bench(capsys, *words(folder, "--drafters", block, PEER, "self", "--out", str(out)))
    assert json.loads(out.read_text()) == result
    assert list(folder.glob("*.part")) == []
    assert result["prompts"] == {"mt_bench": 4, "qa": 2, "rag": 2}
    assert result["too_long"] == {"mt_bench": 0, "qa": 1, "rag": 0}
    assert [row["drafter"] for row in result["drafters"]] == [block, PEER, "self"]
    one_pass, lookup, itself = result["drafters"]
    for row, titles in ((one_pass, ONE_PASS), (lookup, RETRIEVAL)):
        assert [figures["temperature"] for figures in row["temperatures"]] == [0, 1]
        for figures in row["temperatures"]:
            assert [tree["title"] for tree in figures["trees"]] == [config.title for config in titles]
            for tree in figures["trees"]:
                rate = tree["tokens_per_round"]
                assert list(rate) == ["mt_bench", "qa", "rag", "all"]
                assert rate["all"]["prompts"] == sum(rate[name]["prompts"] for name in ("mt_bench", "qa", "rag"))
                assert 1 <= rate["all"]["pooled"] <= 12
                assert (tree["calibration"] is None) == (row is lookup or tree["strategy"] == "ddtree-graft")
    sizes = [tree["tokens_per_round"]["all"]["pooled"] for tree in one_pass["temperatures"][0]["trees"][1:6]]
    assert sizes[-1] >= sizes[0]
    greedy = itself["temperatures"][0]
    assert greedy["agreement"]["top1"] == [1.0] * 5
    for drafter in (block, PEER, "self"):
        assert f"### {drafter}" in table
    assert "| tokens per round | mt_bench (4) | qa (2) | rag (2) | all | pooled |" in table


def test_tokens_per_round_are_those_of_real_runs(tmp_path: Path) -> None:
    """Two texts of different length: the mean over texts and the pooled ratio, against `decode` itself."""
    target = tiny_target("llama")
    drafter = block_drafter(target, tmp_path)
    configs = (Config("chain", "linear", {"budget": 64}), Config("tree", "ddtree", {"budget": 200}))
    figures = DrafterFigures(drafter, configs, 5, 1, fresh_matrix)
    real: dict[str, list[tuple[int, int]]] = {config.title: [] for config in configs}
    for length, category in ((11, "qa"), (6, "rag")):
        request = Request("", PROMPT[:length], NEW_TOKENS + length)
        figures.add(category, record(target, make_verifier(None, Sampling()), request, drafter.taps))
        for config in configs:
            rounds, _ = real_rounds(target, drafter, config.strategy, dict(config.settings), request)
            real[config.title].append((sum(len(item.emitted) for item in rounds), len(rounds)))
            assert tokens_per_round(rounds) == pytest.approx(real[config.title][-1][0] / len(rounds))
    for tree in figures.result(0.0)["trees"]:
        (a, m), (b, n) = real[tree["title"]]
        rate = tree["tokens_per_round"]
        assert rate["qa"] == {"mean": a / m, "pooled": a / m, "prompts": 1}
        assert rate["all"]["mean"] == pytest.approx((a / m + b / n) / 2)
        assert rate["all"]["pooled"] == pytest.approx((a + b) / (m + n))
        # What the trees of the rounds accepted, bonus excluded; the text is cut by its limit, never inside a path.
        assert tree["calibration"]["accepted"] == pytest.approx((a + b) / (m + n) - 1)


def test_stepwise_figures_too() -> None:
    target, drafter = tiny_target("llama"), Autoregressive(blurred("llama"), VOCAB)
    config = Config("tree", "fixed", {"depth": 4, "branching": 3, "budget": 24, "threshold": 0})
    figures = DrafterFigures(drafter, (config,), 3, 2, fresh_matrix)
    request = Request("", PROMPT, NEW_TOKENS)
    figures.add("qa", record(target, make_verifier(None, Sampling()), request))
    rounds, _ = real_rounds(target, drafter, "fixed", dict(config.settings), request)
    result = figures.result(0.0)
    assert result["trees"][0]["tokens_per_round"]["all"]["mean"] == tokens_per_round(rounds)
    assert len(result["agreement"]["top1"]) == 3


def test_a_text_that_ends_at_once_has_no_rounds() -> None:
    target = tiny_target("llama")
    request = Request("", PROMPT, NEW_TOKENS)
    verifier = make_verifier(None, Sampling())
    target.model.generation_config.eos_token_id = record(target, verifier, request).output_ids[0]
    figures = DrafterFigures(PromptLookup(VOCAB), RETRIEVAL, 5, 1, fresh_matrix)
    figures.add("qa", record(target, verifier, request))
    row = {"drafter": "x", "temperatures": [figures.result(0.0)]}
    rate = row["temperatures"][0]["trees"][0]["tokens_per_round"]  # type: ignore[index]
    assert rate["all"] == {"mean": None, "pooled": None, "prompts": 0}
    assert "| chain 5 | — | — | — | — | — | — |" in drafter_tables(row, {"qa": 1})


def test_every_configured_tree_can_be_made() -> None:
    for config in (*ONE_PASS, *STEPWISE, *RETRIEVAL):
        if config.strategy in STRATEGIES:
            assert config.make().max_nodes > 0
    assert configs_for(drafter_info("self"))[0].title == "chain 5"
    assert all(config.strategy in STRATEGIES for config in configs_for(drafter_info("self")))


def test_the_drafters_of_a_target_and_the_peer() -> None:
    assert [info.id for info in choose_drafters("qwen3-4b", None, (PEER,))] == [
        "z-lab/Qwen3-4B-DFlash-b16",
        "AngelSlim/Qwen3-4B_eagle3",
        PEER,
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--stride", "0"], "--stride is 0"),
        (["--temperatures", "-1"], "The temperature is -1.0"),
        (["--per-category", "0"], "--per-category is 0"),
        (["--spec-bench", "missing.jsonl"], "missing.jsonl cannot be read"),
        (["--categories", "translation"], "no question of translation"),
        (["--max-new-tokens", "1"], "--max-new-tokens is 1"),
        (["--out", "no/such/folder/x.json"], "cannot be written"),
        (["--drafters", "z-lab/Qwen3-4B-DFlash-b16", "--target", "qwen3-8b"], "was made for qwen3-4b"),
        (["--drafters", "transition-matrix"], "learns from the target's opinions"),
        (["--max-prompt-tokens", "2"], "Every prompt is longer than 2 tokens"),
    ],
)
def test_bad_requests(more: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[Any]) -> None:
    assert main(["bench", *words(folder, "--drafters", PEER, *more)]) == 2
    captured = capsys.readouterr()
    assert said in captured.err.splitlines()[-1]
    assert captured.out == ""

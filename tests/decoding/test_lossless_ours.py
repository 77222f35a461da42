"""This project's own strategies change the speed and never the text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoding.drafter_loading import load_drafter
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.round_costs import RoundCosts
from decoding.tree import depths
from tests.decoding.drafters.dflash_checkpoint import write_dflash_checkpoint
from tests.decoding.drafters.test_sequential_head import write_sequential_head
from tests.decoding.test_lossless import NEW_TOKENS, PROMPT, Oracle, plain_greedy
from tests.decoding.test_lossless_retrieval import retrieved, run
from tests.tiny_models import FAMILIES, VOCAB, tiny_target

TREES: list[tuple[str, dict[str, Any]]] = [
    ("ddtree-graft", {"budget": 1}),
    ("ddtree-graft", {"budget": 40}),
    ("ddtree-graft", {"budget": 20, "retrieve": False}),
    ("ddtree-graft", {"budget": 20, "draft": False}),
]
NODES = (1, 4, 16, 64)
COSTS = {
    "flat": RoundCosts((0,), NODES, [[10, 10, 10, 10]], [0]),
    "steep": RoundCosts((0,), NODES, [[10, 40, 160, 640]], [0]),
    "stepped": RoundCosts((0, 200), NODES, [[10, 11, 18, 40], [12, 14, 20, 60]], [3, 4]),
    "dear drafts": RoundCosts((0,), NODES, [[10, 11, 12, 13]], [500]),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_plan_is_lossless(family: str) -> None:
    target = tiny_target(family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    matrix = TransitionMatrix(VOCAB, target.device)
    grafts = accepted = 0
    for cache in ("preallocated", "rebuild"):
        for strategy, settings in TREES:
            _, rounds, summary = run(target, Oracle(expected), strategy, settings, matrix, cache)
            assert list(summary.output_ids) == expected, (strategy, settings, cache)
            grafts += sum(map(retrieved, rounds))
            accepted += sum(item.verdict.accepted for item in rounds)
    assert grafts > 40, "hardly anything was grafted, so this shows nothing"
    assert accepted > 10


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.slow
def test_every_cost_aware_budget_is_lossless(family: str, costs: str) -> None:
    target, count = tiny_target(family), 60
    expected = plain_greedy(target, PROMPT, count)
    matrix = TransitionMatrix(VOCAB, target.device)
    for settings in ({}, {"retrieve": False}, {"calibrate": False, "most": 9}):
        _, rounds, summary = run(
            target, Oracle(expected), "auto", settings, matrix, new_tokens=count, costs=COSTS[costs]
        )
        assert list(summary.output_ids) == expected, settings
        ways = [item.decision["way"] for item in rounds]
        assert set(ways[:2]) == {"drafted"}
        if costs == "dear drafts":
            assert ways.count("drafted") <= 10
        if costs == "dear drafts" and "retrieve" in settings:  # then all rounds are of one class
            assert "drafted" not in ways[7:30]
        if costs in ("flat", "dear drafts"):
            assert sum(item.verdict.accepted for item in rounds) > 0


def test_the_costs_are_measured_where_none_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANOPY_CACHE", str(tmp_path))
    target = tiny_target("llama")
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    _, rounds, summary = run(target, Oracle(expected), "auto", {}, TransitionMatrix(VOCAB))
    assert list(summary.output_ids) == expected
    assert all(item.decision["expected_ms"] > 0 for item in rounds)
    assert len(list(tmp_path.rglob("costs/*.json"))) == 1


@pytest.mark.parametrize("head", [False, True])
def test_over_a_published_block_drafter(head: bool, tmp_path: Path) -> None:
    target = tiny_target("qwen3")
    write_dflash_checkpoint(
        tmp_path, hidden=32, heads=4, kv_heads=2, head_dim=8, layers=2, target_layers=3, target_layer_ids=[0, 2],
        block_size=5, mask_token_id=4, vocab=VOCAB, seed=0,
    )  # fmt: skip
    if head:
        write_sequential_head(tmp_path, hidden=32, positions=4)
    drafter, matrix = load_drafter(str(tmp_path), target, print), TransitionMatrix(VOCAB)
    expected = plain_greedy(target, PROMPT, 60)
    for strategy, settings in TREES:
        _, _, summary = run(target, drafter, strategy, settings, matrix, new_tokens=60)
        assert list(summary.output_ids) == expected


def test_near_the_end_of_the_context() -> None:
    target = tiny_target("llama", max_position_embeddings=64)
    prompt = tuple(np.random.default_rng(0).integers(3, VOCAB, 64).tolist())
    for length in (57, 62, 63, 64):
        expected = plain_greedy(target, prompt[:length], NEW_TOKENS)
        for strategy, settings in TREES:
            drafter, matrix = Oracle(expected), TransitionMatrix(VOCAB)
            _, rounds, summary = run(target, drafter, strategy, settings, matrix, prompt=prompt[:length])
            assert list(summary.output_ids) == expected, (strategy, length)
            assert all(item.cache_before + depths(item.tree.parent).max() < 64 for item in rounds)

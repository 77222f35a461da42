"""Strategies that adapt the tree to the drafter, or to what was accepted, give what plain greedy decoding gives."""

from typing import Any

import numpy as np
import pytest

from decoding.drafters.autoregressive import Autoregressive
from decoding.tree import children, depths
from tests.decoding.test_lossless import NEW_TOKENS, PROMPT, plain_greedy, run
from tests.tiny_models import FAMILIES, VOCAB, tiny_target

FEARLESS: dict[str, Any] = {"stop_below": 0.0, "deep_above": 0.01, "prune_below": 0.0, "warm_up": 1, "budget": 24}
STRATEGIES: list[tuple[str, dict[str, Any]]] = [
    ("dynatree", {}),
    ("dynatree", {**FEARLESS, "root_width": 3}),
    ("dynatree", {**FEARLESS, "version": "v1", "pruning": "remove", "root_width": 0, "acceptance": "nodes"}),
    ("dynatree", {"dynamic_breadth": False, "dynamic_depth": False, "pruning": "off", "history": False, "budget": 24}),
    ("opt_tree", {"threshold": 0.1, "budget": 24}),
    ("ddd", {"threshold": -3, "width": 4, "first_check": 2, "check_every": 1, "budget": 24}),
    ("echo", {"width": 4, "root_threshold": 0.05, "budget": 24}),
    ("svip", {"threshold": 0.8}),
]
BRANCHING = [STRATEGIES[place] for place in (1, 4, 6)]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_adaptive_strategy_is_lossless(family: str) -> None:
    target = tiny_target(family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    other = tiny_target(family, seed=1)
    branched = accepted = moved = 0
    for model, strategies in ((target, STRATEGIES), (other, BRANCHING)):
        for strategy, settings in strategies:
            _, rounds, summary = run(target, Autoregressive(model, VOCAB), strategy, settings)
            assert list(summary.output_ids) == expected, (strategy, settings, model is target)
            branched += sum(any(len(below) > 1 for below in children(item.tree.parent)) for item in rounds)
            accepted += sum(item.verdict.accepted for item in rounds)
            moved += len({item.decision.get("base_depth") for item in rounds}) > 1
    assert branched > 40, "hardly any tree branched, so this shows nothing"
    assert accepted > 80
    assert moved >= 2, "the history moved nothing"


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_rollback_and_rebuild_is_lossless_too(family: str) -> None:
    target = tiny_target(family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    for strategy, settings in STRATEGIES[1:3]:
        drafter = Autoregressive(target, VOCAB)
        assert list(run(target, drafter, strategy, settings, cache="rebuild")[2].output_ids) == expected


def test_near_the_end_of_the_context() -> None:
    target = tiny_target("llama", max_position_embeddings=64)
    prompt = tuple(np.random.default_rng(0).integers(3, VOCAB, 64).tolist())
    for length in (57, 62, 63, 64):
        expected = plain_greedy(target, prompt[:length], NEW_TOKENS)
        for strategy, settings in [*BRANCHING, STRATEGIES[-1]]:
            drafter = Autoregressive(target, VOCAB)
            _, rounds, summary = run(target, drafter, strategy, settings, prompt_ids=prompt[:length])
            assert list(summary.output_ids) == expected, (strategy, length)
            assert all(item.cache_before + depths(item.tree.parent).max() < 64 for item in rounds)


def test_a_dynatree_that_drafts_for_itself_is_accepted_to_its_depth() -> None:
    """The target's own greedy path is always the drafter's best one, so a round ends where the tree does."""
    target = tiny_target("llama")
    _, rounds, _ = run(target, Autoregressive(target, VOCAB), "dynatree", {**FEARLESS, "history": False})
    for item in rounds[:-1]:
        assert item.verdict.accepted == depths(item.tree.parent).max() > 3

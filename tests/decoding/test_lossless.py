"""Greedy decoding with draft trees gives, token for token, what plain greedy decoding gives."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.base import Drafter
from decoding.drafters.prompt_lookup import PromptLookup, PromptLookupSettings
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.loop import Request, decode
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.target import Target
from decoding.types import Round, RunHeader, Summary
from decoding.verifiers import make_verifier
from tests.tiny_models import FAMILIES, VOCAB, tiny_target

NEW_TOKENS = 40
PROMPT = (5, 17, 33, 8, 5, 17, 60, 9, 12, 5, 17)


def plain_greedy(target: Target, prompt: tuple[int, ...], count: int) -> list[int]:
    """The judge: one full forward pass a token by the stock model, no cache, nothing of ours."""
    ids = list(prompt)
    for _ in range(count):
        logits = target.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
        ids.append(int(logits.argmax()))
        if ids[-1] in target.end_ids or len(ids) - 1 >= target.max_context:
            break
    return ids[len(prompt) :]


def run(
    target: Target, drafter: Drafter | None, strategy: str, settings: dict[str, Any] | None = None, **changes: Any
) -> tuple[RunHeader, list[Round], Summary]:
    request = Request("", **{"prompt_ids": PROMPT, "max_new_tokens": NEW_TOKENS, **changes})
    verifier = make_verifier(None, Sampling())
    events = list(decode(target, drafter, make_strategy(strategy, settings or {}), verifier, request))
    assert isinstance(events[0], RunHeader)
    assert isinstance(events[-1], Summary)
    return events[0], events[1:-1], events[-1]  # type: ignore[return-value]


def drafters(target: Target, family: str) -> Iterator[tuple[str, Drafter]]:
    yield "matrix", TransitionMatrix(VOCAB, target.device)
    yield "lookup", PromptLookup(VOCAB, PromptLookupSettings(matches=4))
    yield "self", Autoregressive(target, VOCAB)
    yield "other", Autoregressive(tiny_target(family, seed=1), VOCAB)


TREES = {
    "linear": {"budget": 4},
    "fixed": {"depth": 4, "branching": 3, "budget": 24},
    "recycle": {},
}


@pytest.mark.parametrize("cache", ["preallocated", "rebuild"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_stepwise_strategy_and_drafter_is_lossless(family: str, cache: str) -> None:
    target = tiny_target(family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    assert list(run(target, None, "ar", cache=cache)[2].output_ids) == expected
    accepted = 0
    for strategy, settings in TREES.items():
        for name, drafter in drafters(target, family):
            _, rounds, summary = run(target, drafter, strategy, settings, cache=cache)
            assert list(summary.output_ids) == expected, (strategy, name)
            accepted += sum(item.verdict.accepted for item in rounds)
    assert accepted > 50, "the trees were never right, so this shows nothing"


def test_the_target_accepts_its_own_greedy_chain_whole() -> None:
    target = tiny_target("llama")
    _, rounds, _ = run(target, Autoregressive(target, VOCAB), "linear", {"budget": 5})
    assert all(item.verdict.accepted == 5 for item in rounds[:-1])


@pytest.mark.parametrize("limit", range(1, 12))
def test_the_token_limit_inside_a_path(limit: int) -> None:
    target = tiny_target("llama")
    expected = plain_greedy(target, PROMPT, limit)
    header, rounds, summary = run(target, Autoregressive(target, VOCAB), "linear", {"budget": 5}, max_new_tokens=limit)
    assert list(summary.output_ids) == expected
    assert summary.finish == "length"
    assert header.first_token == expected[0]
    assert sum(len(item.emitted) for item in rounds) == limit - 1


def test_the_end_of_text_inside_an_accepted_path() -> None:
    target = tiny_target("llama")
    whole = plain_greedy(target, PROMPT, NEW_TOKENS)
    for place in (0, 1, 3, 4, 7):
        target.model.generation_config.eos_token_id = whole[place]
        expected = whole[: whole.index(whole[place]) + 1]
        _, rounds, summary = run(target, Autoregressive(target, VOCAB), "linear", {"budget": 5})
        assert list(summary.output_ids) == expected
        assert summary.finish == "end"
        assert all(item.accepted <= len(item.emitted) for item in rounds)


def test_a_prompt_of_one_token_and_one_as_long_as_the_context() -> None:
    target = tiny_target("llama", max_position_embeddings=64)
    prompt = tuple(np.random.default_rng(0).integers(3, VOCAB, 64).tolist())
    for length in (1, 2, 50, 62, 63, 64):
        expected = plain_greedy(target, prompt[:length], NEW_TOKENS)
        for strategy, settings in TREES.items():
            _, _, summary = run(target, Autoregressive(target, VOCAB), strategy, settings, prompt_ids=prompt[:length])
            assert list(summary.output_ids) == expected, (strategy, length)
    assert summary.finish == "context"
    assert len(summary.output_ids) == 1


def test_a_budget_of_one_and_an_empty_draft() -> None:
    target = tiny_target("qwen3")
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    _, rounds, summary = run(target, Autoregressive(target, VOCAB), "fixed", {"budget": 1})
    assert list(summary.output_ids) == expected
    assert all(item.tree.drafted <= 1 for item in rounds)
    _, rounds, summary = run(target, PromptLookup(VOCAB), "linear", prompt_ids=(7,), max_new_tokens=3)
    assert rounds[0].tree.drafted == 0
    assert list(summary.output_ids) == plain_greedy(target, (7,), 3)


def test_a_long_prompt_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decoding.target.PREFILL_CHUNK", 16)
    monkeypatch.setattr("decoding.drafters.autoregressive.PREFILL_CHUNK", 16)
    prompt = tuple(np.random.default_rng(1).integers(3, VOCAB, 100).tolist())
    for family in FAMILIES:
        target = tiny_target(family)
        _, _, summary = run(target, Autoregressive(target, VOCAB), "fixed", prompt_ids=prompt)
        assert list(summary.output_ids) == plain_greedy(target, prompt, NEW_TOKENS), family


def test_both_caches_hold_the_same_keys_and_values() -> None:
    target = tiny_target("llama")
    _, kept, _ = run(target, Autoregressive(target, VOCAB), "fixed", cache="preallocated")
    _, rebuilt, _ = run(target, Autoregressive(target, VOCAB), "fixed", cache="rebuild")
    for ours, theirs in zip(kept, rebuilt, strict=True):
        assert ours.emitted == theirs.emitted
        np.testing.assert_allclose(ours.verdict.logprob, theirs.verdict.logprob, atol=1e-4)

"""Greedy decoding with draft trees gives, token for token, what plain greedy decoding gives."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decoding.devices import exact_float32
from decoding.drafter_loading import load_drafter
from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.base import Drafter, Observation, OnePassDrafter
from decoding.drafters.prompt_lookup import PromptLookup, PromptLookupSettings
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.loop import Request, decode
from decoding.marginals import top_marginals
from decoding.sampling import Sampling
from decoding.strategies import STRATEGIES, make_strategy
from decoding.target import Target
from decoding.types import Marginals, Round, RunHeader, Summary
from decoding.verifiers import make_verifier
from tests.decoding.drafters.dflash_checkpoint import write_dflash_checkpoint
from tests.decoding.drafters.eagle3_checkpoint import write_eagle3_checkpoint
from tests.tiny_models import FAMILIES, VOCAB, tiny_model, tiny_target

NEW_TOKENS = 28
PROMPT = (5, 17, 33, 8, 5, 17, 60, 9, 12, 5, 17)


def plain_greedy(target: Target, prompt: tuple[int, ...], count: int) -> list[int]:
    """The judge: one full forward pass a token by the stock model, no cache, nothing of ours."""
    ids = list(prompt)
    for _ in range(count):
        logits = target.model(input_ids=torch.tensor([ids], device=target.device), use_cache=False).logits[0, -1]
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
    "eagle": {"top_k": 3, "depth": 4, "budget": 16},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_stepwise_strategy_and_drafter_is_lossless(family: str) -> None:
    target = tiny_target(family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    assert list(run(target, None, "ar")[2].output_ids) == expected
    accepted = 0
    for strategy, settings in TREES.items():
        for name, drafter in drafters(target, family):
            if STRATEGIES[strategy].needs_logprobs and not drafter.gives_logprobs:
                continue
            _, rounds, summary = run(target, drafter, strategy, settings)
            assert list(summary.output_ids) == expected, (strategy, name)
            accepted += sum(item.verdict.accepted for item in rounds)
    assert accepted > 40, "the trees were never right, so this shows nothing"


class Oracle(OnePassDrafter):
    """Knows the text to come, and hides each token at a random rank of its position."""

    vocab_size = VOCAB
    positions = 6
    name = "oracle"

    def __init__(self, text: list[int]) -> None:
        self.text = text
        self.rng = np.random.default_rng(0)

    def begin(self, capacity: int) -> None:
        self.next = 1 - len(PROMPT)

    def observe(self, observation: Observation) -> None:
        self.next += len(observation.tokens)

    def marginals(self, root: int, k: int) -> Marginals:
        logits = torch.from_numpy(self.rng.normal(0, 2, (self.positions, VOCAB)))
        coming = self.text[self.next : self.next + self.positions]
        for position, token in enumerate(coming):
            logits[position, token] = logits[position].topk(1 + int(self.rng.integers(0, 4))).values[-1] + 0.01
        return top_marginals(logits, k)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_one_pass_strategy_is_lossless(family: str) -> None:
    target = tiny_target(family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    for strategy, settings in (("ddtree", {"budget": 1}), ("ddtree", {"budget": 40}), ("linear", {"budget": 6})):
        _, rounds, summary = run(target, Oracle(expected), strategy, settings)
        assert list(summary.output_ids) == expected, strategy
        assert sum(item.verdict.accepted for item in rounds) > 0
        assert all(item.marginals is not None for item in rounds[:-1])


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_published_block_drafter_is_lossless(family: str, tmp_path: Path) -> None:
    """From a folder in the published layout to a verified run: the real loader, taps, context and head."""
    target = tiny_target(family)
    write_dflash_checkpoint(
        tmp_path, hidden=32, heads=4, kv_heads=2, head_dim=8, layers=2, target_layers=3, target_layer_ids=[0, 2],
        block_size=5, mask_token_id=4, vocab=VOCAB, seed=0,
    )  # fmt: skip
    drafter = load_drafter(str(tmp_path), target, print)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    for strategy, settings in (
        ("ddtree", {"budget": 30}),
        ("ddtree", {"budget": 200}),
        ("linear", {"budget": 4}),
        ("sampled", {"budget": 12}),
    ):
        _, rounds, summary = run(target, drafter, strategy, settings)
        assert list(summary.output_ids) == expected, strategy
        assert all(item.tree.drafted > 0 for item in rounds[:-1])


def eagle3(folder: Path, target: Target, known: list[int]) -> Drafter:
    """Random, from a folder in the published layout; it drafts the tokens `known` and no others."""
    write_eagle3_checkpoint(
        folder, vocab_size=VOCAB, known=sorted(set(known)), eagle_aux_hidden_state_layer_ids=[0, 1, 2]
    )
    return load_drafter(str(folder), target, print)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_published_eagle3_drafter_is_lossless(family: str, tmp_path: Path) -> None:
    target = tiny_target(family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    drafter = eagle3(tmp_path, target, expected)
    # All of its tokens at the first level and a good part of the second: some path is right in every round.
    wide = {"top_k": NEW_TOKENS, "depth": 1, "budget": 300}
    for strategy, settings, cache in (
        ("linear", {"budget": 3}, "preallocated"),
        ("eagle", {"top_k": 5, "budget": 40}, "rebuild"),
        ("eagle", wide, "preallocated"),
    ):
        _, rounds, summary = run(target, drafter, strategy, settings, cache=cache)
        assert list(summary.output_ids) == expected, (strategy, cache)
        assert all(item.tree.drafted > 0 for item in rounds[:-1])
    assert all(item.verdict.accepted > 0 for item in rounds[:-1])
    assert any(item.verdict.accepted > 1 for item in rounds)


@pytest.mark.parametrize("family", FAMILIES)
def test_rollback_and_rebuild_is_lossless_too(family: str) -> None:
    target = tiny_target(family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    for strategy, drafter in (("fixed", Autoregressive(target, VOCAB)), ("ddtree", Oracle(expected))):
        assert list(run(target, drafter, strategy, {"budget": 24}, cache="rebuild")[2].output_ids) == expected


@pytest.mark.cuda
@pytest.mark.parametrize("family", FAMILIES)
def test_lossless_on_cuda(family: str, tmp_path: Path) -> None:
    """Float32 without TF32: exact on the device too."""
    exact_float32()
    target = Target(tiny_model(family).to("cuda"), None, family)
    expected = list(run(target, None, "ar")[2].output_ids)
    assert expected == plain_greedy(target, PROMPT, NEW_TOKENS)
    for strategy, drafter in (
        ("fixed", Autoregressive(target, VOCAB)),
        ("recycle", TransitionMatrix(VOCAB, target.device)),
        ("ddtree", Oracle(expected)),
        ("eagle", eagle3(tmp_path, target, expected)),
    ):
        assert list(run(target, drafter, strategy, {"budget": 24})[2].output_ids) == expected, strategy


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

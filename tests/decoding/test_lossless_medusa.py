"""Drafting with Medusa heads changes the speed and never the text, whatever strategy plans over their marginals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from decoding.devices import exact_float32
from decoding.drafter_loading import load_drafter
from decoding.drafters.base import Drafter
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.loop import Request
from decoding.replay import record, replay
from decoding.round_costs import RoundCosts
from decoding.sampling import Sampling
from decoding.strategies import STRATEGIES, make_strategy
from decoding.target import Target
from decoding.verifiers import make_verifier
from tests.decoding.drafters.medusa_checkpoint import write_medusa_checkpoint
from tests.decoding.test_lossless import NEW_TOKENS, PROMPT, plain_greedy
from tests.decoding.test_lossless_retrieval import run
from tests.decoding.test_sampled_lossless import LENGTH, START, p_value, small_target
from tests.decoding.test_sampled_lossless import run as sampled_run
from tests.tiny_models import FAMILIES, VOCAB, tiny_model, tiny_target

HEADS = 4
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "linear": [{"budget": 2}, {"budget": 9}],
    "ddtree": [{"budget": 1}, {"budget": 60}],
    "ddtree-graft": [{"budget": 30}, {"budget": 30, "retrieve": False}],
    "graft-block": [{"budget": 6}, {"budget": 6, "retrieve": False}],
    "auto": [{}, {"retrieve": False}],
    "sampled": [{"budget": 12}, {"budget": 12, "replacement": True}],
}
COSTS = RoundCosts((0,), (1, 4, 16, 64), [[10, 11, 18, 40]], [1])


@torch.inference_mode()
def states(target: Target, text: Sequence[int]) -> Tensor:
    """`[text, hidden]` final hidden states of the stock model without a cache."""
    ids = torch.tensor([text], device=target.device)
    return target.body(input_ids=ids, use_cache=False).last_hidden_state[0].double().cpu()


def taught(folder: Path, target: Target, text: list[int]) -> Drafter:
    """Heads that know the greedy `text` after PROMPT: each is fitted to the token so many places on."""
    known = states(target, [*PROMPT, *text])[len(PROMPT) - 1 :]
    heads: dict[str, Tensor] = {}
    for head in range(HEADS):
        told = torch.zeros(len(text) - 1 - head, VOCAB, dtype=torch.float64)
        told[range(len(told)), text[head + 1 :]] = 10.0
        fitted = torch.linalg.lstsq(known[: len(told)], told, driver="gelsd").solution
        heads[f"{head}.0.linear.weight"] = torch.zeros(32, 32)
        heads[f"{head}.0.linear.bias"] = torch.zeros(32)
        heads[f"{head}.1.weight"] = fitted.T.float().contiguous()
    return load_drafter(str(write_medusa_checkpoint(folder, heads=HEADS, weights=heads)), target, print)


def random_heads(folder: Path, target: Target, layout: str) -> Drafter:
    return load_drafter(
        str(write_medusa_checkpoint(folder, heads=HEADS, vocab=target.vocab_size, layout=layout)), target, print
    )


def test_no_one_pass_strategy_is_left_out() -> None:
    assert {name for name, kind in STRATEGIES.items() if "one-pass" in kind.needs} == set(SETTINGS)


@pytest.mark.parametrize("strategy", SETTINGS)
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_every_one_pass_strategy_is_lossless(family: str, strategy: str, tmp_path: Path) -> None:
    target = tiny_target(family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    retrieval = TransitionMatrix(VOCAB, target.device) if STRATEGIES[strategy].retrieval else None
    accepted = 0
    for name, drafter in (
        ("random", random_heads(tmp_path / "random", target, "shared")),
        ("taught", taught(tmp_path / "taught", target, expected)),
    ):
        for settings, cache in zip(SETTINGS[strategy], ("preallocated", "rebuild"), strict=True):
            _, rounds, summary = run(target, drafter, strategy, settings, retrieval, cache, costs=COSTS)
            assert list(summary.output_ids) == expected, (name, settings, cache)
            accepted += sum(item.verdict.accepted for item in rounds) if name == "taught" else 0
    assert accepted > HEADS, "the heads were hardly ever right, so this shows nothing"


@pytest.mark.parametrize("family", FAMILIES)
def test_heads_that_know_the_text_are_accepted_whole(family: str, tmp_path: Path) -> None:
    """Fitted to the paper's offsets on real hidden states: a shift by one place would accept next to nothing."""
    target = tiny_target(family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    drafter = taught(tmp_path, target, expected)
    _, rounds, summary = run(target, drafter, "linear", {"budget": HEADS})
    assert list(summary.output_ids) == expected
    assert [item.verdict.accepted for item in rounds[:-1]] == [HEADS] * (len(rounds) - 1)
    assert all(len(item.marginals.token) == HEADS for item in rounds if item.marginals is not None)


def test_a_replay_of_the_text_gives_the_same_rounds(tmp_path: Path) -> None:
    """So that `bench drafters` and the page's what-if measure the heads as they decode."""
    target = tiny_target("llama")
    drafter = taught(tmp_path, target, plain_greedy(target, PROMPT, NEW_TOKENS))
    _, real, summary = run(target, drafter, "ddtree", {"budget": 12})
    recording = record(target, make_verifier(None, Sampling()), Request("", PROMPT, NEW_TOKENS), drafter.taps)
    assert recording.output_ids == summary.output_ids
    replayed = list(replay(recording, drafter, make_strategy("ddtree", {"budget": 12})))
    assert [item.emitted for item in replayed] == [item.emitted for item in real]
    assert len(replayed) < len(summary.output_ids) - 1


@pytest.mark.cuda
@pytest.mark.parametrize("family", FAMILIES)
def test_lossless_on_cuda(family: str, tmp_path: Path) -> None:
    exact_float32()
    target = Target(tiny_model(family).to("cuda"), None, family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    for drafter in (
        taught(tmp_path / "taught", target, expected),
        random_heads(tmp_path / "random", target, "shared"),
    ):
        for strategy in ("linear", "ddtree"):
            _, rounds, summary = run(target, drafter, strategy, {"budget": 24})
            assert list(summary.output_ids) == expected
            assert all(item.tree.drafted > 0 for item in rounds[:-1])


SAMPLED = [
    ("ddtree", {"budget": 6}, "sample-match"),
    ("ddtree", {"budget": 6}, "eagle"),
    ("linear", {"budget": 3}, "sample-match"),
    ("sampled", {"budget": 6, "depth": 3, "width": 2}, "traversal"),
    ("sampled", {"budget": 6, "depth": 3, "width": 2, "replacement": True}, "multi-round"),
]


def sampled_texts(folder: Path, strategy: str, settings: dict[str, Any], verifier: str, sampling: Sampling) -> Any:
    target = small_target()
    drafter = random_heads(folder, target, "own")
    return [
        sampled_run(
            target, drafter, strategy, settings, verifier, sampling, prompt_ids=START, max_new_tokens=LENGTH, seed=seed
        )[1].output_ids
        for seed in range(300)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "settings", "verifier"), SAMPLED)
def test_sampled_runs_follow_the_target(strategy: str, settings: dict[str, Any], verifier: str, tmp_path: Path) -> None:
    sampling = Sampling(1.2, top_p=0.95)
    assert p_value(sampled_texts(tmp_path, strategy, settings, verifier, sampling), sampling) > 1e-4 / len(SAMPLED)


@pytest.mark.slow
def test_sampled_runs_at_another_temperature_are_rejected(tmp_path: Path) -> None:
    texts = sampled_texts(tmp_path, "ddtree", {"budget": 6}, "sample-match", Sampling(0.4))
    assert p_value(texts, Sampling(1.2)) < 1e-4 / len(SAMPLED)

"""What retrieval proposes changes the speed and never the text: Graft in all its variants, and the baselines."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decoding.devices import exact_float32
from decoding.drafter_loading import load_drafter
from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.base import Drafter, StepwiseDrafter
from decoding.drafters.prompt_lookup import PromptLookup
from decoding.drafters.sam import SamDrafter
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.loop import Request, decode
from decoding.round_costs import RoundCosts
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.target import Target
from decoding.types import Round, RunHeader, Source, Summary
from decoding.verifiers import make_verifier
from tests.decoding.drafters.dflash_checkpoint import write_dflash_checkpoint
from tests.decoding.test_lossless import NEW_TOKENS, PROMPT, Oracle, plain_greedy
from tests.tiny_models import FAMILIES, VOCAB, tiny_model, tiny_target


def run(
    target: Target,
    drafter: Drafter | None,
    strategy: str,
    settings: dict[str, Any],
    retrieval: StepwiseDrafter | None = None,
    cache: str = "preallocated",
    new_tokens: int = NEW_TOKENS,
    sampling: Sampling | None = None,
    prompt: tuple[int, ...] = PROMPT,
    costs: RoundCosts | None = None,
) -> tuple[RunHeader, list[Round], Summary]:
    sampling = sampling or Sampling()
    chosen = make_strategy(strategy, settings)
    chosen.costs = costs
    events: list[Any] = list(
        decode(
            target,
            drafter,
            chosen,
            make_verifier(None, sampling),
            Request("", prompt, new_tokens, cache=cache),
            retrieval=retrieval,
        )
    )
    return events[0], events[1:-1], events[-1]


def retrieved(item: Round) -> int:
    return int((item.tree.source == Source.RETRIEVAL).sum())


PRUNED: dict[str, Any] = {"budget": 30, "depth": 4, "width": 4}
GRAFTS: dict[str, tuple[dict[str, Any], bool | None]] = {
    "always pruned at the root": ({"tau_d0": 1}, True),
    "pruned at d1": ({"tau_d0": 0, "tau_d1": 1}, True),
    "the paper's thresholds": ({}, None),
    "without retrieval": ({"retrieve": False, "tau_d0": 1}, False),
    "ROOT, without pruning": ({"prune": False}, True),
    "TAIL": ({"prune": False, "attach": "tail"}, True),
    "TAIL after pruning": ({"attach": "tail", "tau_d0": 1}, True),
    "the base tree": ({"prune": False, "retrieve": False}, False),
}
"""Settings, and whether anything is retrieved (None: that depends on the drafter)."""


@pytest.mark.parametrize("family", FAMILIES)
def test_every_graft(family: str) -> None:
    target = tiny_target(family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    drafter, matrix = Autoregressive(tiny_target(family, seed=1), VOCAB), TransitionMatrix(VOCAB, target.device)
    taken = 0
    for name, (settings, grafts) in GRAFTS.items():
        header, rounds, summary = run(target, drafter, "graft", PRUNED | settings, matrix)
        assert list(summary.output_ids) == expected, name
        assert (header.drafter, header.retrieval) == (drafter.name, "transition-matrix")
        assert grafts is None or any(map(retrieved, rounds)) == grafts, name
        assert all("refresh" in item.seconds for item in rounds)
        taken += sum(item.tree.source[node] == Source.RETRIEVAL for item in rounds for node in item.verdict.path)
    assert taken > 5, "no graft was ever right, so this shows nothing"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_graft_over_a_block(family: str) -> None:
    target = tiny_target(family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    matrix = TransitionMatrix(VOCAB, target.device)
    for settings in ({}, {"tau_block": 1}, {"tau_block": 0.1, "budget": 3}, {"prune": False}, {"retrieve": False}):
        _, rounds, summary = run(target, Oracle(expected), "graft-block", settings, matrix)
        assert list(summary.output_ids) == expected, settings
        assert sum(item.verdict.accepted for item in rounds) > 0


def test_graft_over_a_published_block_drafter(tmp_path: Path) -> None:
    target = tiny_target("qwen3")
    write_dflash_checkpoint(
        tmp_path, hidden=32, heads=4, kv_heads=2, head_dim=8, layers=2, target_layers=3, target_layer_ids=[0, 2],
        block_size=5, mask_token_id=4, vocab=VOCAB, seed=0,
    )  # fmt: skip
    drafter, matrix = load_drafter(str(tmp_path), target, print), TransitionMatrix(VOCAB)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    for tau, pruned in ((1, True), (0, False)):
        _, rounds, summary = run(target, drafter, "graft-block", {"tau_block": tau}, matrix)
        assert list(summary.output_ids) == expected
        assert any(map(retrieved, rounds)) == pruned
        assert max(item.tree.drafted for item in rounds) == 4


BASELINES: list[tuple[str, dict[str, Any]]] = [
    ("pld", {}),
    ("sam", {}),
    ("sam", {"fallback": False}),
    ("lookahead", {}),
    ("lookahead", {"level": 2, "window": 3}),
    ("lookahead", {"level": 3, "window": 4, "guesses": 0, "from_prompt": False}),
]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_retrieval_baseline(family: str) -> None:
    target = tiny_target(family)
    count = 80  # long enough for these small models to repeat themselves
    expected = plain_greedy(target, PROMPT, count)
    sources = {"pld": PromptLookup(VOCAB), "sam": SamDrafter(VOCAB), "lookahead": None}
    taken = 0
    for name, settings in BASELINES:
        matrix = TransitionMatrix(VOCAB) if name == "sam" else None
        _, rounds, summary = run(target, sources[name], name, settings, matrix, new_tokens=count)
        assert list(summary.output_ids) == expected, (name, settings)
        taken += sum(item.verdict.accepted for item in rounds)
    assert taken > 0


def test_what_repeats_itself_is_copied_and_guessed() -> None:
    """This model's text settles into a loop: there most tokens must come from what was proposed."""
    target, count = tiny_target("gpt-neox"), 150
    for name, drafter in (("pld", PromptLookup(VOCAB)), ("sam", SamDrafter(VOCAB)), ("lookahead", None)):
        matrix = TransitionMatrix(VOCAB) if name == "sam" else None
        _, rounds, summary = run(target, drafter, name, {}, matrix, new_tokens=count)
        late = summary.output_ids[-40:]
        assert len(set(late)) < 10, "the text does not repeat itself, so this shows nothing"
        assert len(rounds) < 0.5 * count, name


def test_with_the_rebuilt_cache() -> None:
    target = tiny_target("llama")
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    drafter, matrix = Autoregressive(tiny_target("llama", seed=1), VOCAB), TransitionMatrix(VOCAB)
    assert list(run(target, drafter, "graft", PRUNED, matrix, cache="rebuild")[2].output_ids) == expected


def test_the_matrix_learns_from_the_prompt_and_from_every_verified_node() -> None:
    """Each row is what the target said of that token where it was last looked at, rejected nodes and prompt alike."""
    target = tiny_target("llama")
    drafter, matrix = Autoregressive(tiny_target("llama", seed=1), VOCAB), TransitionMatrix(VOCAB)
    said: dict[int, list[int]] = {}
    context = target.open(len(PROMPT), 1)
    prompt_next = context.prefill(PROMPT, 8).next_tokens
    said.update(zip(PROMPT, prompt_next.tolist(), strict=True))
    _, rounds, _ = run(target, drafter, "graft", PRUNED | {"tau_d0": 1}, matrix, new_tokens=8)
    for item in rounds:
        said.update(zip(item.tree.token.tolist(), item.verdict.top_token.tolist(), strict=True))
    rejected = {token for item in rounds for token in item.tree.token.tolist()} - set(PROMPT)
    assert rejected
    expected = np.array([said.get(token, [-1] * 8) for token in range(VOCAB)])
    np.testing.assert_array_equal(matrix.matrix.numpy(), expected)


@pytest.mark.cuda
def test_on_cuda_beside_the_drafter() -> None:
    exact_float32()
    for family in ("llama", "gemma3"):
        target = Target(tiny_model(family).to("cuda"), None, family)
        expected = plain_greedy(target, PROMPT, NEW_TOKENS)
        drafter = Autoregressive(Target(tiny_model(family, seed=1).to("cuda"), None, "other"), VOCAB)
        on_host, on_device = TransitionMatrix(VOCAB), TransitionMatrix(VOCAB, "cuda")
        for settings in ({"tau_d0": 1}, {}, {"prune": False}, {"prune": False, "attach": "tail"}):
            trees = []
            for matrix in (on_device, on_host):
                matrix.clear()
                _, rounds, summary = run(target, drafter, "graft", PRUNED | settings, matrix)
                assert list(summary.output_ids) == expected, settings
                trees.append([item.tree.token.tolist() for item in rounds])
            assert trees[0] == trees[1]
            assert torch.equal(on_device.matrix.cpu(), on_host.matrix)

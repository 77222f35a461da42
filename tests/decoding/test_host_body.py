"""The kernels' way through a model gives what transformers' gives, and a node of a tree the bits of its path alone."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decoding import host_body
from decoding.target import Target, TargetContext
from decoding.tree import path_to
from decoding.types import Tree
from tests.decoding.random_trees import random_tree
from tests.tiny_models import VOCAB, tiny_model, tiny_target

SUPPORTED = ("llama", "qwen2", "qwen3")
PROMPT = [1, 5, 9, 3, 77, 20, 4]
TAPS = (0, 2, 1, 3)
NODES = 30


def opened(target: Target, taps: Sequence[int] = ()) -> TargetContext:
    context = target.open(len(PROMPT) + NODES, NODES, taps)
    context.prefill(PROMPT)
    return context


def scored(context: TargetContext, tree: Tree) -> Tensor:
    return context.score(context.compile(tree)).logits(slice(0, len(tree)))


def without_kernels(family: str, monkeypatch: pytest.MonkeyPatch) -> Target:
    with monkeypatch.context() as patch:
        patch.setattr("decoding.target.host_body", lambda _: None)
        return tiny_target(family)


@pytest.mark.parametrize("family", SUPPORTED)
@pytest.mark.parametrize("seed", range(3))
def test_trees_are_scored_as_by_transformers(family: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = random_tree(np.random.default_rng(seed), NODES, VOCAB)
    ours, theirs = tiny_target(family), without_kernels(family, monkeypatch)
    assert ours.runs_on_kernels
    assert not theirs.runs_on_kernels
    found = []
    for target in (ours, theirs):
        context = opened(target, TAPS)
        logits = scored(context, tree)
        path = np.array(path_to(tree.parent, len(tree) - 1), np.int32)
        found.append((logits, context.commit(tree, path), scored(context, tree)))
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", SUPPORTED)
@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(2, NODES))
def test_a_node_gets_the_bits_of_its_path_alone(family: str, seed: int, nodes: int) -> None:
    """Exact equality: plain greedy decoding and decoding with any tree cannot part, not even on near-ties."""
    target = tiny_target(family)
    tree = random_tree(np.random.default_rng(seed), nodes, VOCAB)
    context = opened(target)
    together = scored(context, tree)
    path = path_to(tree.parent, len(tree) - 1)
    for node in path:
        alone = Tree.root_only(int(tree.token[node]))
        np.testing.assert_array_equal(scored(context, alone)[0].numpy(), together[node].numpy())
        context.commit(alone, np.zeros(1, np.int32))


@pytest.mark.parametrize("family", SUPPORTED)
def test_a_prompt_has_the_same_bits_in_pieces(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tiny_target(family)
    results = []
    for chunk in (512, 3):
        monkeypatch.setattr("decoding.target.PREFILL_CHUNK", chunk)
        results.append(target.open(64, 1, TAPS).prefill(PROMPT * 5))
    assert results[0].features is not None
    assert results[1].features is not None
    np.testing.assert_array_equal(results[0].features.numpy(), results[1].features.numpy())


@pytest.mark.parametrize("family", ["gpt-neox", "gemma3", "mistral-sliding", "qwen3-moe"])
def test_other_families_stay_with_transformers(family: str) -> None:
    assert not tiny_target(family).runs_on_kernels


def test_other_dtypes_stay_with_transformers() -> None:
    assert host_body.host_body(tiny_model("llama").to(torch.bfloat16)) is None


@pytest.mark.parametrize("change", [{"hidden_act": "gelu"}, {"mlp_bias": True}])
def test_what_the_kernels_cannot_do_stays_with_transformers(change: dict[str, object]) -> None:
    assert host_body.host_body(tiny_model("llama", **change)) is None


def test_a_model_that_comes_out_otherwise_stays_with_transformers() -> None:
    """A family may change its layers in a way that names do not show: the numbers decide."""
    model = tiny_model("llama")
    model.model.layers[1].self_attn.scaling *= 2
    assert host_body.host_body(model) is None
    model.model.layers[1].self_attn.scaling /= 2
    assert host_body.host_body(model) is not None

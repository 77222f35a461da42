"""The target: tree scores against from-scratch forwards, taps, windows, refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.errors import UnsupportedModel
from decoding.kv_cache import PreallocatedCache, attention_windows
from decoding.target import Target
from decoding.tree import path_to
from decoding.types import Source, Tree
from tests.tiny_models import FAMILIES, REFUSED, VOCAB, tiny_model, tiny_target

PROMPT = tuple(range(3, 23))
TAPS = (0, 1, 3)


def random_tree(rng: np.random.Generator, drafted: int, root: int) -> Tree:
    """A random tree with distinct siblings."""
    token, parent, seen = [root], [-1], set[tuple[int, int]]()
    while len(token) <= drafted:
        key = int(rng.integers(0, len(token))), int(rng.integers(0, VOCAB))
        if key not in seen:
            seen.add(key)
            parent.append(key[0])
            token.append(key[1])
    source = [Source.ROOT] + [Source.DRAFT] * drafted
    return Tree(np.array(token), np.array(parent), np.full(len(token), np.nan), np.array(source))


def from_scratch(target: Target, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    output = target.model(input_ids=torch.tensor([ids]), use_cache=False, output_hidden_states=True)
    return output.logits[0, -1], torch.cat([output.hidden_states[tap][0, -1] for tap in TAPS])


@pytest.mark.parametrize("cache", ["preallocated", "rebuild"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_node_is_scored_as_its_path_would_be(family: str, cache: str) -> None:
    target = tiny_target(family)
    rng = np.random.default_rng(0)
    context = target.open(100, 21, TAPS, cache)
    said = context.prefill(PROMPT)
    committed = list(PROMPT)
    root = int(said.logits.argmax())
    for _ in range(3):
        tree = random_tree(rng, 20, root)
        scores = context.score(context.compile(tree))
        logits = scores.logits(slice(0, len(tree)))
        for node in range(len(tree)):
            path = tree.token[path_to(tree.parent, node)].tolist()
            expected, _ = from_scratch(target, committed + path)
            torch.testing.assert_close(logits[node], expected, rtol=1e-4, atol=2e-4)
        leaf = int(rng.integers(0, len(tree)))
        path = np.array(path_to(tree.parent, leaf), np.int32)
        features = context.commit(tree, path)
        committed += tree.token[path].tolist()
        assert context.length == len(committed)
        assert features is not None
        _, expected_features = from_scratch(target, committed)
        torch.testing.assert_close(features[-1], expected_features, rtol=1e-4, atol=2e-4)
        root = int(rng.integers(0, VOCAB))


def test_prefill_gives_features_and_next_tokens_of_every_position() -> None:
    target = tiny_target("qwen3")
    said = target.open(40, 1, TAPS).prefill(PROMPT, next_k=3)
    assert said.features is not None
    assert said.features.shape == (len(PROMPT), len(TAPS) * target.hidden_size)
    for length in range(1, len(PROMPT) + 1):
        logits, features = from_scratch(target, list(PROMPT[:length]))
        torch.testing.assert_close(said.features[length - 1], features, rtol=1e-4, atol=2e-4)
        assert said.next_tokens[length - 1].tolist() == logits.topk(3).indices.tolist()


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True).map(sorted), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_compaction_keeps_exactly_the_path(path: list[int], before: int) -> None:
    path = [0, *[node for node in path if node]]
    cache = PreallocatedCache(64, 2)
    written = torch.arange(2 * 3 * 50 * 4, dtype=torch.float32).reshape(2, 1, 3, 50, 4)
    for layer in range(2):
        cache.past.update(written[layer][:, :, :before], -written[layer][:, :, :before], layer)
    cache.advance(before)
    for layer in range(2):
        cache.past.update(
            written[layer][:, :, before : before + 31], -written[layer][:, :, before : before + 31], layer
        )
    cache.keep(path)
    kept = list(range(before)) + [before + node for node in path]
    assert cache.length == len(kept)
    for layer in range(2):
        nothing = written[layer][:, :, :0]
        keys, values = cache.past.update(nothing, nothing, layer)
        torch.testing.assert_close(keys, written[layer][:, :, kept], rtol=0, atol=0)
        torch.testing.assert_close(values, -written[layer][:, :, kept], rtol=0, atol=0)


@pytest.mark.parametrize("family", sorted(REFUSED))
def test_a_model_whose_cache_cannot_be_taken_back_is_refused_by_name(family: str) -> None:
    with pytest.raises(UnsupportedModel, match=family):
        Target(tiny_model(family), None, family)


def test_windows_are_read_from_the_config() -> None:
    assert attention_windows(tiny_model("gemma3").config) == (8, None, 8)
    assert attention_windows(tiny_model("mistral-sliding").config) == (8, 8, 8)
    assert attention_windows(tiny_model("llama").config) == (None, None, None)


def test_a_model_that_changes_its_logits_behind_the_head_is_refused() -> None:
    model = tiny_model("llama")
    forward = type(model).forward

    def scaled(self: object, *args: object, **kwargs: object) -> object:
        output = forward(self, *args, **kwargs)
        output.logits = output.logits * 0.5
        return output

    model.forward = scaled.__get__(model)
    with pytest.raises(UnsupportedModel, match="changes its logits"):
        Target(model, None, "odd")

"""Opinions against a plain float64 reading of the same logits."""

import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decoding.errors import Incompatible, NonFiniteLogits
from decoding.scores import TOP, Opinions, TreeScores, _DeviceNotes, _HostNotes
from decoding.tree import TreeBuilder
from decoding.types import Tree
from tests.decoding.random_trees import random_tree


def check(found: Opinions, tree: Tree, logits: Tensor, tolerance: float = 3e-5) -> None:
    """Compares every field, one node at a time, in float64."""
    table = logits.double().numpy()
    logprobs = table - np.log(np.exp(table - table.max(1, keepdims=True)).sum(1, keepdims=True))
    logprobs -= table.max(1, keepdims=True)
    k = min(TOP, table.shape[1])
    for node in range(len(tree)):
        row = table[node]
        assert found.choice[node] == np.flatnonzero(row == row.max())[0]
        assert found.top_token[node, 0] == found.choice[node]
        np.testing.assert_array_equal(row[found.top_token[node]], np.sort(row)[::-1][:k])
        np.testing.assert_allclose(
            found.top_logprob[node], logprobs[node][found.top_token[node]], rtol=1e-5, atol=tolerance
        )
        entropy = -(np.exp(logprobs[node]) * logprobs[node]).sum()
        np.testing.assert_allclose(found.entropy[node], entropy, atol=tolerance)
        if node == 0:
            assert (found.rank[0], found.logprob[0]) == (0, 0.0)
            continue
        parent, token = tree.parent[node], tree.token[node]
        assert found.rank[node] == 1 + (table[parent] > table[parent, token]).sum()
        np.testing.assert_allclose(found.logprob[node], logprobs[parent, token], rtol=1e-5, atol=tolerance)


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    nodes=st.integers(1, 60),
    vocab=st.sampled_from([1, 2, 3, 7, 8, 9, 50, 255, 257, 1003, 4099]),
    rows_at_once=st.integers(1, 64),
    coarse=st.booleans(),
)
def test_opinions(seed: int, nodes: int, vocab: int, rows_at_once: int, coarse: bool) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, nodes, vocab)
    logits = torch.from_numpy(rng.normal(0, 4, (len(tree), vocab)).astype(np.float32))
    if coarse:  # ties everywhere
        logits = logits.round()
    scores = TreeScores.from_logits(logits, chunk_bytes=4 * vocab * rows_at_once)
    check(scores.opinions(tree), tree, logits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_head_of_any_float_type(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(3)
    tree = random_tree(rng, 40, 3001)
    hidden = torch.randn(len(tree), 32, generator=torch.Generator().manual_seed(1)).to(dtype)
    head = torch.nn.Linear(32, 3001, bias=False).to(dtype)
    scores = TreeScores(hidden, head, 3001, chunk_bytes=10**9)
    logits = scores.logits(slice(0, len(tree))).detach()
    assert logits.dtype == torch.float32
    check(scores.opinions(tree), tree, logits)


def test_chunks_are_bounded_and_gone_before_the_next() -> None:
    vocab, bound = 1000, 40_000
    tree = random_tree(np.random.default_rng(0), 65, vocab)
    made: list[weakref.ref[Tensor]] = []
    sizes: list[int] = []

    def head(rows: Tensor) -> Tensor:
        assert all(old() is None for old in made), "two chunks of logits were alive at once"
        logits = rows @ weight
        made.append(weakref.ref(logits))
        sizes.append(logits.numel() * 4)
        return logits

    weight = torch.randn(16, vocab)
    seen: list[tuple[int, int]] = []
    scores = TreeScores(torch.randn(len(tree), 16), head, vocab, chunk_bytes=bound)
    scores.opinions(tree, lambda start, logits: seen.append((start, len(logits))))
    assert max(sizes) <= bound
    assert sum(sizes) == 4 * vocab * len(tree)
    assert [start for start, _ in seen] == [sum(rows for _, rows in seen[:i]) for i in range(len(seen))]


def test_a_row_larger_than_the_bound_still_goes_through() -> None:
    tree = random_tree(np.random.default_rng(0), 5, 100)
    logits = torch.randn(len(tree), 100)
    check(TreeScores.from_logits(logits, chunk_bytes=8).opinions(tree), tree, logits)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("vocab", [5, 1003])
def test_non_finite_logits_are_refused(value: float, vocab: int) -> None:
    tree = random_tree(np.random.default_rng(0), 6, vocab)
    logits = torch.randn(len(tree), vocab)
    logits[-1, 3] = value
    with pytest.raises(NonFiniteLogits, match=f"after 1 of {len(tree)} nodes.*float32"):
        TreeScores.from_logits(logits).opinions(tree)


def test_a_token_outside_the_vocabulary_is_refused() -> None:
    builder = TreeBuilder(1)
    builder.add(0, 10)
    with pytest.raises(Incompatible, match="token 10"):
        TreeScores.from_logits(torch.zeros(2, 10)).opinions(builder.build())


def test_scores_of_another_tree_are_refused() -> None:
    with pytest.raises(ValueError, match="2 nodes"):
        TreeScores.from_logits(torch.zeros(3, 10)).opinions(random_tree(np.random.default_rng(1), 2, 10))


def test_tied_tokens_share_a_rank_and_only_the_lowest_is_chosen() -> None:
    builder = TreeBuilder(0)
    builder.add(0, 1)
    builder.add(0, 2)
    logits = torch.tensor([[0.0, 5.0, 5.0, 1.0]] * 3)
    found = TreeScores.from_logits(logits).opinions(builder.build())
    assert found.rank.tolist() == [0, 1, 1]
    assert found.choice.tolist() == [1, 1, 1]


@pytest.mark.parametrize("coarse", [False, True])
def test_host_and_device_read_the_same(coarse: bool) -> None:
    tree = random_tree(np.random.default_rng(1), 5, 5003)
    logits = torch.randn(5, 5003, generator=torch.Generator().manual_seed(1)) * 4
    logits = logits.round() if coarse else logits
    here, there = _HostNotes(tree, 8), _DeviceNotes(tree, 8, torch.device("cpu"))
    for notes in (here, there):
        for nodes in (slice(0, 2), slice(2, 5)):
            notes.take(nodes, logits[nodes])
    found, wanted = vars(here.opinions()), vars(there.opinions())
    for name in ("choice", "rank", "top_token"):
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)
    for name in ("logprob", "entropy", "top_logprob"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=3e-5, err_msg=name)

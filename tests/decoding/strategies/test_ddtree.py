"""DDTree end to end: logits of a one-pass drafter to a tree."""

import numpy as np
import pytest
import torch

from decoding.drafters.base import OnePassDrafter
from decoding.errors import BadRequest, Incompatible
from decoding.marginals import top_marginals
from decoding.settings import parse_settings
from decoding.strategies.ddtree import DDTree, DDTreeSettings
from decoding.tree import cumulative_logprob, depths
from decoding.types import Source


class GivenLogits(OnePassDrafter):
    """A drafter whose forward pass has already been made."""

    name = "given"

    def __init__(self, logits):
        self.logits = logits
        self.positions, self.vocab_size = logits.shape
        self.calls = []

    def begin(self, capacity):
        pass

    def observe(self, observation):
        pass

    def marginals(self, root, k):
        self.calls.append((root, k))
        return top_marginals(self.logits, k)


@pytest.fixture
def drafter():
    return GivenLogits(torch.randn(6, 500, generator=torch.Generator().manual_seed(0)) * 4)


def test_tree_of_the_budget_in_pop_order(drafter):
    growth = DDTree(DDTreeSettings(budget=100)).grow(drafter, root=42, max_depth=6)
    tree = growth.tree
    assert drafter.calls == [(42, 100)]
    assert tree.token[0] == 42
    assert tree.drafted == 100
    assert (tree.source[1:] == Source.DRAFT).all()
    score = cumulative_logprob(tree)
    assert (np.diff(score) <= 1e-5).all()
    depth = depths(tree.parent)
    assert growth.decision["depth"] == depth.max()
    assert growth.decision["expected_accepted"] == pytest.approx(float(np.exp(score[1:]).sum()), rel=1e-5)
    logprob = drafter.logits.log_softmax(-1).numpy()
    np.testing.assert_allclose(tree.logprob[1:], logprob[depth[1:] - 1, tree.token[1:]], atol=1e-5)


def test_smaller_budgets_are_heads_of_larger_ones(drafter):
    large = DDTree(DDTreeSettings(budget=300)).grow(drafter, 1, 6).tree
    for budget in (1, 10, 64, 299):
        small = DDTree(DDTreeSettings(budget=budget)).grow(drafter, 1, 6).tree
        assert np.array_equal(small.token, large.token[: budget + 1])
        assert np.array_equal(small.parent, large.parent[: budget + 1])


@pytest.mark.parametrize("max_depth", [0, 1, 3, 99])
def test_depth_limit(drafter, max_depth):
    tree = DDTree(DDTreeSettings(budget=200)).grow(drafter, 1, max_depth).tree
    assert depths(tree.parent).max() <= max_depth
    assert tree.drafted == (0 if max_depth == 0 else 200)


def test_impossible_tokens_are_not_drafted():
    logits = torch.full((4, 50), float("-inf"))
    logits[:, 7] = 0.0
    logits[1, 9] = 0.0
    growth = DDTree(DDTreeSettings(budget=64)).grow(GivenLogits(logits), 1, 4)
    assert growth.tree.drafted == 1 + 2 + 2 + 2
    assert set(growth.tree.token[1:].tolist()) == {7, 9}
    assert growth.decision["expected_accepted"] == pytest.approx(4.0)


def test_settings_and_needs():
    assert DDTree(parse_settings(DDTreeSettings, {"budget": "128"})).max_nodes == 128
    assert DDTreeSettings().budget == 32
    for budget in (0, 1025):
        with pytest.raises(BadRequest):
            DDTreeSettings(budget=budget)
    with pytest.raises(Incompatible):
        DDTree(DDTreeSettings()).grow(None, 1, 4)

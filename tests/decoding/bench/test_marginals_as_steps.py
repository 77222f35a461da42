"""Trees over a one-pass drafter's marginals: the candidates of a depth are its row, and DDTree's tree is the best."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decoding.bench.marginals_as_steps import MarginalsAsSteps
from decoding.strategies import make_strategy
from decoding.tree import cumulative_logprob, depths
from decoding.types import Tree
from tests.decoding.strategies.scripted import paths_of
from tests.decoding.strategies.test_ddtree import GivenLogits

OTHERS = ("fixed", "recycle", "eagle", "opt_tree", "dynatree", "linear")


def given_logits(seed: int, positions: int = 4, vocab: int = 30) -> GivenLogits:
    return GivenLogits(torch.randn(positions, vocab, generator=torch.Generator().manual_seed(seed)) * 3)


def expected_accepted(tree: Tree) -> float:
    """The paper's surrogate objective (Proposition 1)."""
    return float(np.exp(cumulative_logprob(tree)[1:]).sum())


def test_every_node_of_a_depth_has_the_row_of_its_position() -> None:
    drafter = GivenLogits(torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]]).log())
    steps = MarginalsAsSteps(drafter, 8)
    first = steps.start(7, 2)
    assert first.token.tolist() == [[0, 1]]
    np.testing.assert_allclose(np.exp(first.logprob), [[0.6, 0.3]], rtol=1e-5)
    second = steps.expand(np.array([0, 1]), np.array([0, 0]), 4)
    assert second.token.tolist() == [[1, 2, 0, -1]] * 2, "the vocabulary ends"
    assert steps.expand(np.array([1]), np.array([2]), 2).token.tolist() == [[-1, -1]], "so does the block"
    assert drafter.calls == [(7, 8)], "one pass"
    with pytest.raises(ValueError, match="9 candidates were asked for"):
        steps.start(7, 9)


def test_impossible_tokens_are_no_candidates() -> None:
    steps = MarginalsAsSteps(GivenLogits(torch.tensor([[0.5, -np.inf, 0.1]])), 8)
    assert steps.start(0, 3).token.tolist() == [[0, 2, -1]]


@given(st.integers(0, 10**6), st.sampled_from([3, 8, 20, 40]), st.sampled_from(OTHERS))
def test_no_tree_over_the_same_marginals_expects_more_than_ddtrees(seed: int, budget: int, name: str) -> None:
    """Proposition 2, and that the others really are grown over the same marginals, within the budget."""
    drafter = given_logits(seed)
    best = make_strategy("ddtree", {"budget": budget}).grow(drafter, 1, 4).tree
    settings = {"budget": budget, **({"threshold": 0} if name == "fixed" else {})}
    tree = make_strategy(name, settings).grow(MarginalsAsSteps(drafter, 64), 1, 4).tree
    assert 1 <= tree.drafted <= budget
    assert expected_accepted(tree) <= expected_accepted(best) + 1e-4
    logprob = drafter.logits.log_softmax(-1).numpy()
    np.testing.assert_allclose(tree.logprob[1:], logprob[depths(tree.parent)[1:] - 1, tree.token[1:]], atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_opt_tree_that_never_stops_is_ddtree(seed: int) -> None:
    drafter = given_logits(seed)
    ours = make_strategy("opt_tree", {"budget": 25, "threshold": 0}).grow(MarginalsAsSteps(drafter, 64), 1, 4).tree
    assert paths_of(ours) == paths_of(make_strategy("ddtree", {"budget": 25}).grow(drafter, 1, 4).tree)

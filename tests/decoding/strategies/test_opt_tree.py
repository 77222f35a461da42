"""OPT-Tree against every subtree there is, against Algorithm 1 taken literally, and at the edge of its threshold."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.strategies import make_strategy
from decoding.tree import depths
from tests.decoding.strategies.scripted import Path, Scripted, paths_of
from tests.decoding.strategies.test_stepwise_strategies import VOCAB, Toy

toys = st.builds(Toy, st.integers(0, 10_000))


def weights_below(drafter: Toy, depth: int, width: int) -> dict[Path, float]:
    """The path probability of every node of the `width`-ary tree of this depth, the root left out."""
    found: dict[Path, float] = {(): 1.0}
    for level in range(depth):
        for path in [path for path in found if len(path) == level]:
            token, logprob = drafter.row(path, width)
            found |= {
                (*path, t): found[path] * np.exp(float(lp)) for t, lp in zip(token.tolist(), logprob, strict=True)
            }
    del found[()]
    return found


@settings(max_examples=40)
@given(toys, st.integers(1, 4), st.integers(1, 2))
def test_no_subtree_expects_more(drafter: Toy, budget: int, depth: int):
    """Brute force: every set of `budget` nodes that holds the parents of all its nodes."""
    candidates = weights_below(drafter, depth, 4)
    most = max(
        sum(candidates[path] for path in chosen)
        for chosen in combinations(candidates, budget)
        if all(len(path) == 1 or path[:-1] in chosen for path in chosen)
    )
    growth = make_strategy("opt_tree", {"budget": budget, "depth": depth, "threshold": 0}).grow(drafter, 5, 99)
    drafted = len(growth.decision["expected_accepted"])
    assert drafted == min(depth, budget)  # with a threshold of 0 the layers go on as long as they can add anything
    assert growth.decision["expected_accepted"][-1] == pytest.approx(most, rel=1e-5)
    assert growth.tree.drafted == budget


def literal_algorithm(drafter: Toy, n: int, delta: float, deepest: int) -> tuple[list[float], list[float]]:
    """Algorithm 1 as it is printed, n nodes in every layer: E_sub after each layer, and the weights it ends with."""
    layer: dict[Path, float] = {(): 1.0}
    everything: dict[Path, float] = {}
    expected = [0.0]
    while True:
        below = {}
        for path, weight in layer.items():
            token, logprob = drafter.row(path, VOCAB)
            below |= {(*path, t): weight * np.exp(float(lp)) for t, lp in zip(token.tolist(), logprob, strict=True)}
        layer = dict(sorted(below.items(), key=lambda item: -item[1])[:n])
        everything |= layer
        best = sorted(everything.values(), reverse=True)[:n]
        expected.append(sum(best))
        if len(expected) - 1 >= min(n, deepest) or expected[-1] - expected[-2] <= delta:
            return expected[1:], best


@given(toys, st.integers(1, 40), st.sampled_from([0.0, 0.05, 0.2, 0.5, 0.8]), st.integers(1, 6))
def test_drafting_fewer_nodes_than_the_paper_gives_its_tree(drafter: Toy, budget: int, threshold: float, depth: int):
    strategy = make_strategy("opt_tree", {"budget": budget, "threshold": threshold, "depth": depth})
    growth = strategy.grow(drafter, 5, 99)
    expected, best = literal_algorithm(drafter, budget, threshold, depth)
    steps = growth.decision["drafter_steps"]
    # Where nothing can be added any more the paper goes on drafting; its tree no longer changes.
    np.testing.assert_allclose(growth.decision["expected_accepted"], expected[:steps], rtol=1e-5)
    np.testing.assert_allclose(expected[steps - 1 :], expected[steps - 1], rtol=1e-5)
    found = [weights_below(drafter, len(path), VOCAB)[path] for path in paths_of(growth.tree) if 0 < len(path) < 4]
    assert set(np.round(found, 4)) <= set(np.round(best, 4))
    assert growth.tree.drafted == len(best) <= strategy.max_nodes
    assert drafter.calls == steps <= min(depth, budget)


@given(toys, st.integers(0, 9), st.integers(1, 9))
def test_depth_is_never_exceeded(drafter: Toy, max_depth: int, depth: int):
    tree = make_strategy("opt_tree", {"depth": depth, "threshold": 0, "budget": 30}).grow(drafter, 5, max_depth).tree
    assert depths(tree.parent).max() <= min(depth, max_depth)
    assert drafter.calls <= min(depth, max_depth)


SCRIPT: dict[Path, list[float]] = {
    (): [0.75, 0.25],
    (0,): [0.5, 0.25],
    (1,): [0.9],
    (0, 0): [0.9],
    (0, 1): [0.9],
    (1, 0): [0.9],
}


def test_an_example_by_hand():
    """n = 3. Layer 1: .75 + .25. Layer 2: .375, .1875 and .225, so .75 + .375 + .25 = 1.375, a gain of .375.
    Layer 3: .3375 below .375, so .75 + .375 + .3375 = 1.4625, a gain of .0875."""
    grow = make_strategy("opt_tree", {"budget": 3, "threshold": 0.1}).grow(Scripted(SCRIPT), 7, 99)
    assert grow.decision["expected_accepted"] == pytest.approx([1.0, 1.375, 1.4625])
    assert paths_of(grow.tree) == {(), (0,), (0, 0), (0, 0, 0)}  # the last layer counts, though it gained too little
    drafter = Scripted(SCRIPT)
    make_strategy("opt_tree", {"budget": 3, "threshold": 0.1}).grow(drafter, 7, 99)
    assert drafter.asked == [[()], [(0,), (1,)], [(0, 0)]]  # .225 and .1875 are not among the best three


def test_a_gain_of_exactly_delta_ends_the_draft():
    drafter = Scripted({(): [1.0], (0,): [1.0], (0, 0): [1.0]})
    for threshold, steps in ((1.0, 1), (0.999, 3)):  # every layer gains exactly 1
        make_strategy("opt_tree", {"budget": 3, "threshold": threshold}).grow(drafter, 7, 99)
        assert len(drafter.asked) == steps

"""DynaTree's adaptation: the steps of the control, its window, and what it takes from a verdict."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.strategies import make_strategy
from decoding.strategies.dynatree_control import AcceptanceHistory, Controls, Gains, adjusted
from decoding.types import Source, Tree, Verdict
from tests.decoding.strategies.test_stepwise_strategies import Toy

GAINS = Gains(target=0.7, depth_step=1.0, threshold_step=0.05)


@pytest.mark.parametrize(
    ("now", "mean", "then"),
    [
        ((4.0, 0.9, 0.4), 0.9, (4.2, 0.89, 0.39)),
        ((4.0, 0.9, 0.4), 0.5, (3.8, 0.91, 0.41)),
        ((4.0, 0.9, 0.4), 0.7, (4.0, 0.9, 0.4)),  # on target, nothing moves
        ((6.9, 0.9, 0.4), 1.0, (7.0, 0.885, 0.385)),  # D_0 at most D_max - 1
        ((1.1, 0.99, 0.4), 0.0, (1.0, 1.0, 0.435)),  # D_0 at least 1, tau_h at most 1
        ((4.0, 0.01, 0.005), 1.0, (4.3, 0.0, 0.0)),
        ((4.0, 0.9, 0.895), 0.0, (3.3, 0.935, 0.93)),
        ((4.0, 0.98, 0.975), 0.0, (3.3, 1.0, 1.0)),  # tau_l never above tau_h
    ],
)
def test_one_step(now: tuple[float, ...], mean: float, then: tuple[float, ...]):
    assert adjusted(Controls(*now), mean, GAINS, max_depth=8) == pytest.approx(then)


@pytest.mark.parametrize(("base", "gate"), [(3.0, 3), (3.49, 3), (3.5, 4), (1.0, 1), (6.99, 7)])
def test_a_depth_is_compared_with_the_nearest(base: float, gate: int):
    assert Controls(base, 0.9, 0.4).gate_depth == gate


def test_the_window_and_the_warm_up_by_hand():
    history = AcceptanceHistory(Controls(4.0, 0.9, 0.4), GAINS, max_depth=8, window=3, warm_up=2)
    assert history.mean is None
    depths = []
    for acceptance in (1.0, 0.8, 0.3, 0.1, 0.5):
        history.observe(acceptance)
        depths.append(history.controls.base_depth)
    # means 1, .9, .7, .4, .3; the first round only fills the window
    assert depths == pytest.approx([4.0, 4.2, 4.2, 3.9, 3.5])
    assert history.mean == pytest.approx(0.3)
    assert history.controls.high_confidence == pytest.approx(0.9 - 0.05 * (0.2 + 0.0 - 0.3 - 0.4))


@given(st.lists(st.floats(0, 1), max_size=60), st.integers(2, 12))
def test_the_controls_stay_in_their_ranges(acceptances: list[float], max_depth: int):
    history = AcceptanceHistory(Controls(1.0, 0.9, 0.4), Gains(0.5, 3.0, 0.9), max_depth, window=4, warm_up=1)
    for acceptance in acceptances:
        history.observe(acceptance)
        base, high, low = history.controls
        assert 1 <= base <= max_depth - 1
        assert 0 <= low <= high <= 1


def forked(depth: int) -> Tree:
    """A chain of `depth` nodes and one sibling of the first."""
    parent = [-1, *range(depth), 0]
    return Tree(np.arange(depth + 2), parent, np.zeros(depth + 2), [Source.ROOT] + [Source.DRAFT] * (depth + 1))


def verdict_of(tree: Tree, accepted: int) -> Verdict:
    count = len(tree)
    zeros = np.zeros(count)
    return Verdict(range(accepted + 1), 0, zeros, zeros, zeros, zeros, np.zeros((count, 1)), np.zeros((count, 1)))


@pytest.mark.parametrize(("measure", "statistic"), [("path", 3 / 4), ("nodes", 3 / 5)])
def test_the_acceptance_of_a_round(measure: str, statistic: float):
    strategy: Any = make_strategy("dynatree", {"acceptance": measure})
    strategy.observe(forked(4), verdict_of(forked(4), 3))
    assert strategy.adaptation.mean == pytest.approx(statistic)
    strategy.observe(Tree.root_only(3), verdict_of(Tree.root_only(3), 0))  # nothing drafted: nothing learnt
    assert strategy.adaptation.mean == pytest.approx(statistic)


def test_rounds_draft_deeper_or_shallower_with_the_acceptance():
    """Five rounds of warm-up; then D_0 moves by a - a* a round, and the next tree is drafted with it."""
    for accepted, error in ((4, 0.3), (0, -0.7)):
        strategy = make_strategy("dynatree", {"deep_above": 0.9999})
        used = []
        for _ in range(8):
            used.append(strategy.grow(Toy(0), 5, 99).decision["base_depth"])
            strategy.observe(forked(4), verdict_of(forked(4), accepted))
        expected = [5.0] * 5 + [min(max(5 + error * rounds, 1), 7) for rounds in (1, 2, 3)]
        assert used == pytest.approx(expected)


def test_history_off_changes_nothing():
    off, on = (make_strategy("dynatree", {"history": flag}) for flag in (False, True))
    before = [strategy.grow(Toy(2), 5, 99).tree for strategy in (off, on)]
    for _ in range(30):
        for strategy in (off, on):
            strategy.observe(forked(4), verdict_of(forked(4), 0))
    after = [strategy.grow(Toy(2), 5, 99) for strategy in (off, on)]
    assert after[0].tree.token.tolist() == before[0].token.tolist()
    assert after[0].decision["mean_acceptance"] is None
    assert after[1].decision["base_depth"] == 1.0
    assert after[1].tree.drafted < before[1].drafted

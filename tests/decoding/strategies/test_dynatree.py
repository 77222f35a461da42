"""DynaTree against its pseudocode taken literally, against examples by hand, and each of its switches alone."""

from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.errors import BadRequest, Incompatible
from decoding.strategies import make_strategy
from decoding.strategies.dynatree_control import Controls
from decoding.strategies.dynatree_rules import DynaTreeSettings, Fate, fates, widths
from decoding.tree import children, cumulative_logprob, depths
from tests.decoding.strategies.scripted import Path, Scripted, paths_of
from tests.decoding.strategies.test_stepwise_strategies import VOCAB, Toy

CODE = {"high_confidence": 0.8, "low_confidence": 0.3, "max_branches": 4, "base_depth": 4}
"""The class defaults of the authors' code."""
toys = st.builds(Toy, st.integers(0, 10_000))


def settings_by(data: st.DataObject, **fixed: Any) -> dict[str, Any]:
    low, high = sorted(data.draw(st.lists(st.integers(1, 99), min_size=2, max_size=2, unique=True)))
    stop, deep = sorted(data.draw(st.lists(st.integers(0, 60), min_size=2, max_size=2, unique=True)))
    branches = sorted(data.draw(st.lists(st.integers(1, 4), min_size=3, max_size=3)))
    base = data.draw(st.integers(1, 4))
    return {
        "low_confidence": low / 100,
        "high_confidence": high / 100,
        "stop_below": stop / 100,
        "deep_above": deep / 100,
        **dict(zip(("min_branches", "mid_branches", "max_branches"), branches, strict=True)),
        "base_depth": base,
        "max_depth": base + data.draw(st.integers(1, 3)),
        "prune_below": data.draw(st.sampled_from([0.0, 0.01, 0.05, 0.2])),
        "pruning": data.draw(st.sampled_from(["stop", "remove", "off"])),
        "version": data.draw(st.sampled_from(["v1", "v2"])),
        "budget": data.draw(st.integers(1, 60)),
        "dynamic_breadth": data.draw(st.booleans()),
        "dynamic_depth": data.draw(st.booleans()),
        "root_width": data.draw(st.integers(0, 3)),
        **fixed,
    }


def literal_algorithm(drafter: Toy, s: DynaTreeSettings) -> list[Path]:
    """DRAFTTREE of Algorithm 1 as it is printed: a queue, one node at a time; with our reading of the switches."""

    def best(path: Path, count: int) -> list[tuple[int, float]]:
        token, logprob = drafter.row(path, min(count, VOCAB))
        return list(zip(token.tolist(), logprob.astype(float).tolist(), strict=True))

    def branches(path: Path) -> int:
        if not s.dynamic_breadth:
            return s.mid_branches
        confidence = np.exp(best(path, 1)[0][1])
        return (
            s.min_branches
            if confidence >= s.high_confidence
            else s.max_branches if confidence < s.low_confidence else s.mid_branches
        )  # fmt: skip

    tree = {(token,): score for token, score in best((), s.root_width or branches(()))[: s.budget]}
    active = deque(tree)
    while active and len(tree) < s.budget:
        node = active.popleft()
        p, depth = np.exp(tree[node]), len(node) - 1
        if s.pruning != "off" and p < s.prune_below:
            continue
        if depth >= (s.max_depth if s.dynamic_depth else s.base_depth):
            continue
        if s.dynamic_depth and p < s.stop_below:
            continue
        deep = p >= s.deep_above if s.version == "v1" else p > s.deep_above
        if s.dynamic_depth and depth >= s.base_depth and not deep:
            continue
        for token, score in best(node, branches(node)):
            child = tree[node] + score
            unlikely = s.pruning == "remove" and np.exp(child) < s.prune_below
            if len(tree) < s.budget and not unlikely:
                tree[(*node, token)] = child
                active.append((*node, token))
    return list(tree)


@given(toys, st.data())
def test_the_layers_give_the_tree_of_the_pseudocode(drafter: Toy, data: st.DataObject):
    chosen = settings_by(data)
    strategy = make_strategy("dynatree", chosen)
    growth = strategy.grow(drafter, 5, 99)
    expected = literal_algorithm(drafter, strategy.settings)
    assert paths_of(growth.tree) == {(), *expected}
    tokens = [path[-1] for path in expected]  # breadth-first, as the queue filled
    assert growth.tree.token[1:].tolist() == tokens


@given(toys, st.integers(0, 12), st.data())
def test_budget_depth_and_one_step_a_depth(drafter: Toy, max_depth: int, data: st.DataObject):
    strategy = make_strategy("dynatree", settings_by(data))
    growth = strategy.grow(drafter, 5, max_depth)
    deepest = int(depths(growth.tree.parent).max())
    assert growth.tree.drafted <= strategy.max_nodes == strategy.settings.budget
    assert deepest <= min(max_depth, strategy.settings.max_depth + 1)
    assert drafter.calls == growth.decision["drafter_steps"]
    assert deepest <= drafter.calls <= deepest + 1  # the last step may find only children to remove


SCRIPT = {
    (): [0.9, 0.08],
    (0,): [0.85, 0.1],
    (0, 0): [0.6, 0.3, 0.05],
    (0, 0, 0): [0.9, 0.05],
    (0, 0, 1): [0.2, 0.2, 0.2],
}
BY_HAND = {**CODE, "base_depth": 1, "max_depth": 3, "max_branches": 3, "history": False}


def test_an_example_by_hand():
    """u_0 has p .9; its confidence .85 >= tau_h gives one child, p .765 > rho_deep, so that it goes below D_0 = 1; its
    confidence .6 gives two, p .459 and .2295, which do not."""
    drafter = Scripted(SCRIPT)
    growth = make_strategy("dynatree", BY_HAND).grow(drafter, 7, 99)
    assert paths_of(growth.tree) == {(), (0,), (0, 0), (0, 0, 0), (0, 0, 1)}
    assert drafter.asked == [[()], [(0,)], [(0, 0)]]
    assert growth.decision == {
        "base_depth": 1.0,
        "high_confidence": 0.8,
        "low_confidence": 0.3,
        "mean_acceptance": None,
        "drafter_steps": 3,
        "nodes_by_width": {"1": 2, "2": 1},
        "expanded": 2,
        "pruned": 0,
        "at_max_depth": 0,
        "stopped": 0,
        "at_base_depth": 2,
    }


@pytest.mark.parametrize(
    ("changes", "paths", "counts"),
    [
        # rho_deep .45: (0, 0, 0) with .459 goes on, by one child since it is sure; (0, 0, 1) still stops at D_0.
        ({"deep_above": 0.45}, {(0, 0, 0, 0)}, {"at_base_depth": 1, "at_max_depth": 1}),
        # With D_0 3 both go on; (0, 0, 1) is unsure and gets three; its own have .0459 < tau.
        (
            {"base_depth": 3, "max_depth": 4},
            {(0, 0, 0, 0), (0, 0, 1, 0), (0, 0, 1, 1), (0, 0, 1, 2)},
            {"at_base_depth": 1, "pruned": 3, "at_max_depth": 0, "stopped": 0},
        ),
        # ... unless rho_stop ends (0, 0, 1) early: .2295 < .3.
        (
            {"base_depth": 3, "max_depth": 4, "stop_below": 0.3},
            {(0, 0, 0, 0)},
            {"stopped": 1, "at_base_depth": 1, "pruned": 0},
        ),
        # ... or tau does, which is asked first.
        (
            {"base_depth": 3, "max_depth": 4, "stop_below": 0.3, "prune_below": 0.25},
            {(0, 0, 0, 0)},
            {"pruned": 1, "stopped": 0},
        ),
    ],
)
def test_depth_and_pruning_by_hand(changes: dict[str, Any], paths: set[Path], counts: dict[str, int]):
    growth = make_strategy("dynatree", {**BY_HAND, **changes}).grow(Scripted(SCRIPT), 7, 99)
    assert paths_of(growth.tree) == {(), (0,), (0, 0), (0, 0, 0), (0, 0, 1)} | paths
    assert {key: growth.decision[key] for key in counts} == counts


def test_pruning_removes_or_keeps_leaves():
    """(0, 0, 1) has p .2295: below tau .25 it is removed, and does not count against the budget."""
    grown = {
        mode: make_strategy("dynatree", {**BY_HAND, "deep_above": 0.45, "prune_below": 0.25, "pruning": mode})
        .grow(Scripted(SCRIPT), 7, 99)
        for mode in ("stop", "remove", "off")
    }  # fmt: skip
    assert (0, 0, 1) in paths_of(grown["stop"].tree)
    assert grown["stop"].decision["pruned"] == grown["remove"].decision["pruned"] == 1
    assert paths_of(grown["remove"].tree) == paths_of(grown["stop"].tree) - {(0, 0, 1)}
    assert grown["off"].decision["pruned"] == 0
    tight = {**BY_HAND, "base_depth": 3, "max_depth": 4, "prune_below": 0.25, "pruning": "remove", "budget": 4}
    assert (0, 0, 0, 0) in paths_of(make_strategy("dynatree", tight).grow(Scripted(SCRIPT), 7, 99).tree)


def test_the_budget_ends_inside_a_layer_in_breadth_first_order():
    wide = {**BY_HAND, "base_depth": 3, "max_depth": 4, "budget": 6}
    drafter = Scripted(SCRIPT)
    tree = make_strategy("dynatree", wide).grow(drafter, 7, 99).tree
    assert paths_of(tree) == {(), (0,), (0, 0), (0, 0, 0), (0, 0, 1), (0, 0, 0, 0), (0, 0, 1, 0)}
    make_strategy("dynatree", {**wide, "budget": 4}).grow(drafter, 7, 99)
    assert drafter.asked == [[()], [(0,)], [(0, 0)]]  # nothing is drafted once the budget is spent


def test_the_root_is_one_token_or_wider():
    for width, expected in ((1, {(0,)}), (2, {(0,), (1,)}), (0, {(0,)})):  # the rule: .9 is sure, one child
        tree = make_strategy("dynatree", {**BY_HAND, "root_width": width}).grow(Scripted(SCRIPT), 7, 1).tree
        assert paths_of(tree) == {()} | expected
    unsure = Scripted({(): [0.2, 0.2, 0.2, 0.2]})
    assert make_strategy("dynatree", {**BY_HAND, "root_width": 0}).grow(unsure, 7, 1).tree.drafted == 3


def rules(**changes: Any) -> tuple[DynaTreeSettings, Controls]:
    chosen = DynaTreeSettings(**{"base_depth": 2, "max_depth": 4, "stop_below": 0.25, "deep_above": 0.5, **changes})
    return chosen, Controls(float(chosen.base_depth), chosen.high_confidence, chosen.low_confidence)


@pytest.mark.parametrize(
    ("probability", "depth", "changes", "fate"),
    [
        (0.25, 1, {}, Fate.EXPANDED),  # rho_stop itself goes on
        (np.nextafter(0.25, 0), 1, {}, Fate.STOPPED),
        (0.125, 0, {"prune_below": 0.125}, Fate.STOPPED),  # tau itself is not pruned
        (np.nextafter(0.125, 0), 0, {"prune_below": 0.125}, Fate.PRUNED),
        (0.001, 0, {"pruning": "off"}, Fate.STOPPED),
        (0.3, 1, {}, Fate.EXPANDED),  # above D_0 rho_deep does not matter
        (0.3, 2, {}, Fate.AT_BASE_DEPTH),
        (0.5, 2, {"version": "v1"}, Fate.EXPANDED),  # rho_deep itself: the difference of the two versions
        (0.5, 2, {"version": "v2"}, Fate.AT_BASE_DEPTH),
        (np.nextafter(0.5, 1), 2, {"version": "v2"}, Fate.EXPANDED),
        (0.9, 3, {}, Fate.EXPANDED),
        (0.9, 4, {}, Fate.AT_MAX_DEPTH),
        (0.1, 4, {}, Fate.AT_MAX_DEPTH),  # asked before rho_stop
        (0.1, 1, {"dynamic_depth": False}, Fate.EXPANDED),
        (0.9, 2, {"dynamic_depth": False}, Fate.AT_BASE_DEPTH),
    ],
)
def test_fates_at_the_edges(probability: float, depth: int, changes: dict[str, Any], fate: Fate):
    assert fates(np.array([probability]), depth, *rules(**changes)).tolist() == [fate]


def test_widths_at_the_edges():
    logprob = np.log(np.array([0.8, 0.6, 0.4, 0.2], np.float32))
    at = np.exp(logprob.astype(np.float64))
    chosen, controls = rules(high_confidence=at[0], low_confidence=at[2])
    assert widths(logprob, chosen, controls).tolist() == [1, 2, 2, 3]  # tau_h itself is sure, tau_l itself not unsure
    above, below = controls._replace(high_confidence=np.nextafter(at[0], 1)), at[2]
    assert widths(logprob, chosen, above).tolist() == [2, 2, 2, 3]
    assert widths(logprob, chosen, controls._replace(low_confidence=np.nextafter(below, 1))).tolist() == [1, 2, 3, 3]
    assert widths(logprob, rules(dynamic_breadth=False)[0], controls).tolist() == [2, 2, 2, 2]


@given(toys, st.data())
def test_each_switch_disables_its_part(drafter: Toy, data: st.DataObject):
    chosen = settings_by(data, budget=200)
    plain = make_strategy("dynatree", {**chosen, "dynamic_breadth": False, "pruning": "stop", "root_width": 1})
    full = plain.grow(drafter, 5, 99).tree
    for below in children(full.parent)[1:] if full.drafted < 200 else []:
        assert len(below) in (0, chosen["mid_branches"])
    growth = make_strategy("dynatree", {**chosen, "dynamic_depth": False}).grow(drafter, 5, 99)
    assert growth.decision["stopped"] == growth.decision["at_max_depth"] == 0
    assert depths(growth.tree.parent).max() <= chosen["base_depth"] + 1
    growth = make_strategy("dynatree", {**chosen, "pruning": "off"}).grow(drafter, 5, 99)
    assert growth.decision["pruned"] == 0
    growth = make_strategy("dynatree", {**chosen, "pruning": "remove"}).grow(drafter, 5, 99)
    later = depths(growth.tree.parent) > 1
    assert (np.exp(cumulative_logprob(growth.tree)[later].astype(np.float64)) >= chosen["prune_below"] - 1e-6).all()


def test_each_switch_changes_some_tree():
    base = {**CODE, "base_depth": 2, "history": False}
    for switch, value, tau in (
        ("dynamic_breadth", False, 0.05),
        ("dynamic_depth", False, 0.05),
        ("root_width", 3, 0.05),
        ("pruning", "remove", 0.05),
        ("pruning", "off", 0.2),  # the early stop at .1 stands before a smaller tau
    ):
        differ = 0
        for seed in range(20):
            both = ({**base, "prune_below": tau}, {**base, "prune_below": tau, switch: value})
            trees = [paths_of(make_strategy("dynatree", chosen).grow(Toy(seed), 5, 99).tree) for chosen in both]
            differ += trees[0] != trees[1]
        assert differ > 3, switch


def test_the_defaults_are_those_of_the_paper():
    s = DynaTreeSettings()
    assert (s.high_confidence, s.low_confidence, s.base_depth, s.max_depth, s.budget) == (0.9, 0.4, 5, 8, 256)
    assert (s.min_branches, s.mid_branches, s.max_branches) == (1, 2, 3)
    assert (s.stop_below, s.deep_above, s.prune_below) == (0.1, 0.5, 0.05)
    assert (s.window, s.warm_up, s.target_acceptance, s.threshold_step) == (10, 5, 0.7, 0.05)


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_branches": 3},
        {"low_confidence": 0.95},
        {"base_depth": 8},
        {"stop_below": 0.5},
        {"warm_up": 11},
        {"version": "v3"},
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong: dict[str, Any]):
    with pytest.raises(BadRequest):
        make_strategy("dynatree", wrong)


@pytest.mark.parametrize("name", ["dynatree", "opt_tree", "ddd", "echo", "svip"])
def test_a_drafter_without_log_probabilities_is_refused(name: str):
    for drafter in (Toy(1, with_logprobs=False), None):
        with pytest.raises(Incompatible, match="log-probabilities"):
            make_strategy(name, {}).grow(drafter, 5, 8)

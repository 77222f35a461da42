"""DDD, ECHO and SVIP: their rules by hand and at the edges, over the beam search that the first two share."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.strategies import make_strategy
from decoding.strategies.beam import grow_beams
from decoding.strategies.ddd import beam_confidence
from decoding.tree import depths
from tests.decoding.strategies.scripted import Path, Scripted, paths_of
from tests.decoding.strategies.test_stepwise_strategies import VOCAB, Toy

toys = st.builds(Toy, st.integers(0, 10_000))
DENSE = {"ddd": {"threshold": -20, "budget": 1024}, "echo": {"root_threshold": 0, "shallow_threshold": 0,
                                                            "deep_threshold": 0, "budget": 1024}}  # fmt: skip


def literal_beams(drafter: Toy, depth: int, width: int) -> dict[Path, float]:
    """EAGLE-2's candidates: below each of the `width` best of the last layer, its `width` best children."""
    scores: dict[Path, float] = {}
    beam: dict[Path, float] = {(): 0.0}
    for _ in range(depth):
        layer = {}
        for path, score in beam.items():
            token, logprob = drafter.row(path, width)
            layer |= {(*path, t): score + float(lp) for t, lp in zip(token.tolist(), logprob, strict=True) if t >= 0}
        scores |= layer
        beam = dict(sorted(layer.items(), key=lambda item: -item[1])[:width])
    return scores


@given(toys, st.integers(1, 5), st.integers(1, 5), st.integers(1, 60))
def test_the_beam_search_is_eagle_2(drafter: Toy, depth: int, width: int, budget: int):
    scores = literal_beams(drafter, depth, width)
    expansion = grow_beams(drafter, 5, depth, width, lambda *_: True)
    assert paths_of(expansion.tree(np.arange(1, len(expansion)))) == {(), *scores}
    kept = paths_of(expansion.tree(expansion.best(budget))) - {()}
    best = sorted(scores.values(), reverse=True)[:budget]
    np.testing.assert_allclose(sorted((scores[path] for path in kept), reverse=True), best)
    assert drafter.calls == depth


def test_eagle_3s_tree_has_710_candidates():
    class Wide(Toy):
        def row(self, path: Path, k: int) -> Any:
            rng = np.random.default_rng([self.seed, *path])
            return rng.permutation(1000)[:k].astype(np.int32), np.log(np.full(k, 1e-3, np.float32))

    assert len(grow_beams(Wide(0), 5, 8, 10, lambda *_: True)) == 1 + 10 + 7 * 100


@given(toys, st.sampled_from(["ddd", "echo"]), st.integers(0, 7), st.integers(1, 7), st.integers(1, 80))
def test_a_cut_tree_is_what_the_dense_one_holds_down_to_the_cut(
    drafter: Toy, name: str, max_depth: int, depth: int, budget: int
):
    shape = {"depth": depth, "width": 4, "budget": budget}
    strategy = make_strategy(name, shape)
    growth = strategy.grow(drafter, 5, max_depth)
    deepest = int(depths(growth.tree.parent).max())
    steps = growth.decision.get("drafter_steps", 0)
    assert drafter.calls == steps <= min(depth, max_depth)
    assert deepest <= steps
    assert growth.tree.drafted <= strategy.max_nodes == budget
    dense = make_strategy(name, {**shape, **DENSE[name], "depth": max(steps, 1)}).grow(Toy(drafter.seed), 5, steps)
    assert paths_of(growth.tree) <= paths_of(dense.tree)
    assert growth.tree.drafted == min(budget, dense.tree.drafted)


CHAIN = {(0,) * length: [0.5, 0.25] for length in range(12)}
"""Two children everywhere; the paths with most zeros are the best."""


@pytest.mark.parametrize(("scores", "h"), [([math.log(0.5), math.log(0.3)], math.log(0.8)), ([0.0], 0.0)])
def test_the_confidence_of_a_beam(scores: list[float], h: float):
    assert beam_confidence(np.array(scores)) == pytest.approx(h)


def test_ddd_by_hand():
    """Width 1: the beam after step d has H = d log .5. Checks after steps 2 and 4 only; -1.4 lies between both."""
    grow = {"width": 1, "depth": 6, "first_check": 2, "check_every": 2, "last_check": 4, "threshold": -1.4}
    drafter = Scripted(CHAIN)
    growth = make_strategy("ddd", grow).grow(drafter, 7, 99)
    assert len(drafter.asked) == 4
    assert growth.decision["stopped_at"] == 4
    assert growth.decision["beam_confidence"] == pytest.approx({"2": 2 * math.log(0.5), "4": 4 * math.log(0.5)})
    make_strategy("ddd", {**grow, "last_check": 3}).grow(drafter, 7, 99)
    assert len(drafter.asked) == 6  # no check after step 4: on to the end


def test_ddd_goes_on_at_the_threshold_itself():
    drafter, h = Scripted(CHAIN), float(np.float64(np.float32(math.log(0.5))))
    check = {"width": 1, "depth": 4, "first_check": 1, "check_every": 1, "last_check": 1}
    for threshold, steps in ((h, 4), (np.nextafter(h, 0), 1)):
        make_strategy("ddd", {**check, "threshold": threshold}).grow(drafter, 7, 99)
        assert len(drafter.asked) == steps


def test_ddd_sums_over_the_beam():
    """Width 2: after step 1 the beam holds .5 and .25, H = log .75."""
    check = {"width": 2, "depth": 3, "first_check": 1, "check_every": 1, "last_check": 1}
    drafter = Scripted(CHAIN)
    for threshold, steps in ((math.log(0.74), 3), (math.log(0.76), 1)):
        make_strategy("ddd", {**check, "threshold": threshold}).grow(drafter, 7, 99)
        assert len(drafter.asked) == steps


def test_ddd_has_the_papers_defaults():
    chosen = make_strategy("ddd", {}).settings
    assert list(range(chosen.first_check, chosen.last_check + 1, chosen.check_every)) == [5, 7, 9]
    assert (chosen.depth, chosen.width, chosen.threshold, chosen.budget) == (11, 10, -0.3, 59)


@pytest.mark.parametrize(
    ("changes", "steps", "cut"),
    [
        ({}, 2, 1),  # c_0 = .5 > .14, c_1 = .25 <= .3
        ({"root_threshold": 0.6}, 1, 0),
        ({"shallow_threshold": 0.2}, 4, 3),  # c_3 = .0625 <= .1
        ({"shallow_threshold": 0.2, "deep_threshold": 0.05}, 6, None),
        ({"shallow_threshold": 0.2, "deep_threshold": 0}, 6, None),
        ({"shallow_threshold": 0, "deep_gate": 1, "deep_threshold": 0.3}, 2, 1),  # the stricter of two at one depth
    ],
)
def test_echo_by_hand(changes: dict[str, float], steps: int, cut: int | None):
    """The best path has probability .5 ** (d + 1) at gate d, whatever the width."""
    gates = {"depth": 6, "width": 2, "shallow_gate": 1, "shallow_threshold": 0.3, "deep_gate": 3, "deep_threshold": 0.1}
    drafter = Scripted(CHAIN)
    growth = make_strategy("echo", {**gates, **changes}).grow(drafter, 7, 99)
    assert (len(drafter.asked), growth.decision["cut_at_gate"]) == (steps, cut)
    assert growth.decision["confidence"]["0"] == pytest.approx(0.5)


def test_echo_is_closed_at_the_threshold_itself():
    drafter, confidence = Scripted(CHAIN), float(np.exp(np.float64(np.float32(math.log(0.5)))))
    for threshold, steps in ((confidence, 1), (np.nextafter(confidence, 0), 2)):
        make_strategy("echo", {"depth": 2, "root_threshold": threshold, "shallow_threshold": 0}).grow(drafter, 7, 99)
        assert len(drafter.asked) == steps


def entropy(probs: list[float]) -> float:
    return -sum(p * math.log(p) for p in probs)


def test_svip_by_hand():
    """The third token is the first unsure one: it is still drafted, and nothing below it."""
    sure, unsure = [0.97, 0.02, 0.01], [0.4, 0.3, 0.2, 0.1]
    drafter = Scripted({(): sure, (0,): sure, (0, 0): unsure, (0, 0, 0): sure})
    growth = make_strategy("svip", {}).grow(drafter, 7, 99)
    assert math.sqrt(0.15 * entropy(sure)) < 0.3 < math.sqrt(0.15 * entropy(unsure))
    assert growth.decision == {"entropy": pytest.approx([entropy(p) for p in (sure, sure, unsure)]), "stopped": True}
    assert paths_of(growth.tree) == {(), (0,), (0, 0), (0, 0, 0)}
    assert len(drafter.asked) == 3
    longer = make_strategy("svip", {"threshold": 1}).grow(drafter, 7, 99)
    assert longer.tree.drafted == 4
    assert not longer.decision["stopped"]


def test_svip_goes_on_at_the_threshold_itself():
    drafter = Scripted({(): [0.5, 0.5], (0,): [0.5, 0.5]})
    h = make_strategy("svip", {"c": 1}).grow(drafter, 7, 1).decision["entropy"][0]
    for threshold, drafted in ((math.sqrt(h), 2), (math.nextafter(math.sqrt(h), 0), 1)):
        assert make_strategy("svip", {"c": 1, "threshold": threshold}).grow(drafter, 7, 99).tree.drafted == drafted


@given(toys, st.integers(1, 9), st.integers(0, 9), st.floats(0, 0.6))
def test_svip_is_a_prefix_of_the_greedy_chain(drafter: Toy, budget: int, max_depth: int, threshold: float):
    chain = make_strategy("linear", {"budget": budget}).grow(Toy(drafter.seed), 5, max_depth).tree.token.tolist()
    growth = make_strategy("svip", {"budget": budget, "threshold": threshold}).grow(drafter, 5, max_depth)
    assert growth.tree.token.tolist() == chain[: len(growth.tree)]
    ends = [math.sqrt(0.15 * h) > threshold for h in growth.decision["entropy"]]
    assert not any(ends[:-1])
    assert len(growth.tree) == len(chain) or ends[-1]
    assert drafter.calls == growth.tree.drafted
    for place, told in enumerate(growth.decision["entropy"]):
        logprob = drafter.row(tuple(chain[1 : place + 1]), VOCAB)[1].astype(float)
        assert told == pytest.approx(-(np.exp(logprob) * logprob).sum(), rel=1e-5, abs=1e-6)

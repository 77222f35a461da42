"""The cost-aware budget: the best of all budgets under any costs, and expectations that come to be true."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from decoding.drafters.prompt_lookup import PromptLookup
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.errors import Incompatible
from decoding.round_costs import RoundCosts
from decoding.strategies import make_strategy
from decoding.strategies.acceptance_rates import BINS, PRIOR_SHARE, AcceptanceRates, best_budget, rate_curve
from decoding.strategies.auto import LEAST_REACH, PROBE_EVERY, Auto, AutoSettings
from decoding.tree import cumulative_logprob
from decoding.types import Ints
from tests.decoding.strategies.test_ddtree import GivenLogits
from tests.decoding.strategies.test_ddtree_graft import matrix_of, verdict_of

VOCAB = 60
NODES = (1, 2, 4, 8, 16, 32, 64)


def costs_of(curve: dict[int, float] | None = None, draft: float = 0.0, **given: Any) -> RoundCosts:
    row = [curve[n] if curve else 10.0 for n in NODES]
    return RoundCosts((10, 1000), NODES, [row, given.get("later", row)], [draft, draft])


FLAT = costs_of()
STEEP = costs_of({n: 10.0 * n for n in NODES})
STEPPED = costs_of({1: 10, 2: 10.1, 4: 10.2, 8: 10.3, 16: 19, 32: 19.5, 64: 60})


@given(
    st.lists(st.floats(0, 1), max_size=30),
    st.lists(st.floats(0.01, 50), min_size=31, max_size=31),
    st.sampled_from(["any", "rising", "flat", "steps"]),
)
def test_no_budget_is_better(chance: list[float], cost: list[float], kind: str) -> None:
    """Brute force over all budgets, whatever the shape of the costs."""
    cost = {"any": cost, "rising": list(np.cumsum(cost)), "flat": [cost[0]] * 31,
            "steps": [cost[0] * (1 + n // 8) for n in range(31)]}[kind]  # fmt: skip
    values = np.sort(np.array(chance))[::-1]
    milliseconds = np.array(cost[: len(chance) + 1])
    choice = best_budget(values, milliseconds)
    rates = [(1 + sum(values[:n])) / cost[n] for n in range(len(chance) + 1)]
    assert rates[choice.nodes] == pytest.approx(max(rates))
    assert choice.tokens_per_second == pytest.approx(1000 * max(rates))
    assert choice.milliseconds == cost[choice.nodes]
    assert choice.expected_accepted == pytest.approx(sum(values[: choice.nodes]))
    if kind == "flat":
        assert choice.nodes >= (values > 1e-9).sum()


def test_known_optima() -> None:
    chance = np.array([0.8, 0.5, 0.1])
    assert best_budget(chance, np.array([10.0, 12, 15, 30])).nodes == 2
    assert best_budget(chance, np.array([10.0, 100, 200, 300])).nodes == 0, "a plain step"
    # The first local maximum is at none, the highest at three: steps as those of a CPU.
    assert best_budget(np.array([0.5, 0.5, 0.5]), np.array([10.0, 16, 16.1, 16.2])).nodes == 3
    assert best_budget(np.array([0.5, 0.0]), np.array([10.0, 10, 10])).nodes == 1, "ties go to the smaller tree"
    assert best_budget(np.zeros(0), np.array([10.0])) == (0, 0.0, 100.0, 10.0)
    assert rate_curve(chance, np.array([10.0, 12, 15, 30]), (1, 2, 4)) == {
        "nodes": [1, 2], "tokens_per_second": [150.0, 153.33]}  # fmt: skip


def path_of(taken: NDArray[np.bool_]) -> Ints:
    """The root, and the nodes that were taken."""
    return np.array([0, *np.flatnonzero(taken) + 1], np.int32)


BIASES = {
    "true": lambda p: p,
    "over": lambda p: p**0.35,
    "under": lambda p: p**1.7,
    "cut": lambda p: np.minimum(p, 0.3),
}


@pytest.mark.parametrize("bias", BIASES)
def test_expectations_come_to_be_true(bias: str) -> None:
    """Whatever a drafter claims, the corrected weights add up to what is accepted; a true one is left as it is."""
    rng, rates = np.random.default_rng(0), AcceptanceRates()
    claimed = accepted = corrected = honest = 0.0
    for index in range(1500):
        truth = rng.uniform(0.01, 1, 20) ** 2
        score = np.log(BIASES[bias](truth))
        taken = rng.random(20) < truth
        if index >= 300:
            corrected += rates.correct(score).sum()
            claimed += np.exp(score).sum()
            accepted += taken.sum()
            honest += truth.sum()
        rates.learn(score, path_of(taken))
    assert corrected == pytest.approx(accepted, rel=0.05)
    if bias == "true":
        assert claimed == pytest.approx(honest)
    else:
        assert abs(claimed - accepted) > 4 * abs(corrected - accepted)


def test_a_bin_keeps_its_prior_until_it_is_seen() -> None:
    rates = AcceptanceRates()
    score = np.log(np.array([1.0, 0.7, 0.2, 1e-9]))
    believed = np.exp(score) * PRIOR_SHARE[[0, 0, 2, -1]]
    np.testing.assert_allclose(rates.correct(score), believed)
    for _ in range(100):
        rates.learn(score[:1], path_of(np.array([False])))
    assert rates.correct(score[:1])[0] < 0.2
    np.testing.assert_allclose(rates.correct(score[2:]), believed[2:])
    assert len(rates.as_json()) == BINS


def test_one_lucky_light_path_does_not_make_all_of_them_heavy() -> None:
    rates = AcceptanceRates()
    light = np.full(10, np.log(0.04))
    before = rates.correct(light)
    for _ in range(2):
        rates.learn(light, path_of(np.arange(10) == 3))
    assert (rates.correct(light) < 1.2 * before).all()
    for _ in range(300):
        rates.learn(light, path_of(np.arange(10) == 3))
    assert rates.correct(light) == pytest.approx(0.1, rel=0.05), "but a tenth of them comes true, again and again"


@pytest.mark.parametrize("bias", ["over", "under"])
def test_correction_makes_rounds_faster(bias: str) -> None:
    """Budgets chosen by a biased drafter's claims, with and without correction, judged by what is true."""
    milliseconds = 10 + 0.6 * np.arange(31)

    def speed(calibrate: bool) -> float:
        rng, rates = np.random.default_rng(1), AcceptanceRates()
        tokens = time = 0.0
        for _ in range(800):
            truth = np.sort(rng.uniform(0, 0.7, 30) ** 3)[::-1]
            score = np.log(np.maximum(BIASES[bias](truth), 1e-12))
            nodes = best_budget(rates.correct(score) if calibrate else np.exp(score), milliseconds).nodes
            tokens, time = tokens + 1 + truth[:nodes].sum(), time + milliseconds[nodes]
            rates.learn(score[:nodes], path_of(rng.random(nodes) < truth[:nodes]))
        return tokens / time

    assert speed(True) > 1.02 * speed(False)


@pytest.fixture
def drafter() -> GivenLogits:
    return GivenLogits(torch.randn(6, VOCAB, generator=torch.Generator().manual_seed(0)) * 2)


def auto(costs: RoundCosts | None, prompt: int = 10, **given: Any) -> Auto:
    strategy = Auto(AutoSettings(**given))
    strategy.costs = costs
    strategy.begin(range(prompt))
    return strategy


def test_flat_costs_take_all_steep_costs_none(drafter: GivenLogits) -> None:
    matrix = TransitionMatrix(VOCAB)
    assert auto(FLAT).grow_beside(drafter, matrix, 7, 9).tree.drafted == 63
    growth = auto(STEEP).grow_beside(drafter, matrix, 7, 9)
    assert growth.tree.drafted == 0
    assert growth.decision["expected_accepted"] == 0.0
    assert growth.decision["expected_tokens_per_second"] == pytest.approx(100)
    assert auto(FLAT, most=5).grow_beside(drafter, matrix, 7, 9).tree.drafted == 5
    assert auto(FLAT).grow_beside(drafter, matrix, 7, 0).tree.drafted == 0


@pytest.mark.parametrize("retrieve", [False, True])
@pytest.mark.parametrize("costs", [FLAT, STEEP, STEPPED], ids=["flat", "steep", "stepped"])
def test_the_tree_is_the_best_first_part_of_the_plan(costs: RoundCosts, retrieve: bool, drafter: GivenLogits) -> None:
    """Against every budget of the strategy that it plans with."""
    matrix = matrix_of({token: [(token * 7 + 1) % 50, 55, 59] for token in range(0, VOCAB, 3)})
    growth = auto(costs, retrieve=retrieve, calibrate=False).grow_beside(drafter, matrix, 7, 9)
    rates = []
    for budget in range(64):
        expected = 0.0
        if budget:
            fixed = make_strategy("ddtree-graft", {"budget": budget, "retrieve": retrieve})
            fixed = fixed.grow_beside(drafter, matrix, 7, 9)
            expected = fixed.decision["expected_accepted"]
            if not retrieve:
                ddtree = make_strategy("ddtree", {"budget": budget}).grow(drafter, 7, 9)
                assert expected == pytest.approx(np.exp(cumulative_logprob(ddtree.tree)[1:]).sum(), rel=1e-4)
            if budget == growth.tree.drafted:
                assert np.array_equal(growth.tree.token, fixed.tree.token)
                assert np.array_equal(growth.tree.parent, fixed.tree.parent)
                assert growth.decision["grafts"] == fixed.decision["grafts"]
        rates.append(1000 * (1 + expected) / costs.verify(10, budget)[-1])
    assert growth.decision["expected_tokens_per_second"] == pytest.approx(max(rates), rel=1e-4)
    assert rates[growth.tree.drafted] == pytest.approx(max(rates), rel=1e-4)


def test_stepped_costs_are_used_up_to_an_edge(drafter: GivenLogits) -> None:
    nodes = auto(STEPPED, retrieve=False).grow_beside(drafter, None, 7, 9).tree.drafted
    assert nodes in (7, 31), "just before the next step"


def test_longer_contexts_are_dearer(drafter: GivenLogits) -> None:
    costs = costs_of({n: 10 + 0.01 * n for n in NODES}, later=[10.5 * n for n in NODES])
    matrix = TransitionMatrix(VOCAB)
    strategy = auto(costs)
    before = strategy.grow_beside(drafter, matrix, 7, 9).tree
    assert before.drafted == 63
    strategy.observe(before, verdict_of(before, [0], 3))
    assert auto(costs, prompt=1000).grow_beside(drafter, matrix, 7, 9).tree.drafted == 0
    strategy.begin(range(1000))
    assert strategy.grow_beside(drafter, matrix, 7, 9).tree.drafted == 0


def rounds_of(strategy: Auto, drafter: GivenLogits, matrix: TransitionMatrix, right: bool, count: int) -> list[str]:
    ways = []
    for _ in range(count):
        growth = strategy.grow_beside(drafter, matrix, 7, 9)
        path = [0, 1] if right and growth.tree.drafted else [0]
        strategy.observe(growth.tree, verdict_of(growth.tree, path, 3))
        ways.append(growth.decision["way"])
    return ways


def test_drafts_that_do_not_pay_are_left_out(drafter: GivenLogits) -> None:
    """A draft of a hundred plain steps: a few rounds to find out, then one in twenty-five to look again."""
    strategy = auto(costs_of(draft=1000.0), copy=False)
    ways = rounds_of(strategy, drafter, TransitionMatrix(VOCAB), False, 100)
    first = ways.index("plain")
    assert 2 <= first <= 6
    assert first < ways.count("drafted") <= first + 100 // PROBE_EVERY
    assert len(drafter.calls) == ways.count("drafted")
    assert "plain" in ways
    assert set(rounds_of(auto(FLAT, copy=False), drafter, TransitionMatrix(VOCAB), True, 40)) == {"drafted"}


def test_retrieval_alone_where_it_pays_better(drafter: GivenLogits) -> None:
    ring = matrix_of({token: [(token + 1) % VOCAB] for token in range(VOCAB)})
    ways = rounds_of(auto(costs_of(draft=1000.0)), drafter, ring, True, 40)
    assert ways.count("retrieved") > 25


def test_a_text_that_repeats_itself_is_copied(drafter: GivenLogits) -> None:
    """The rounds say one and the same token: copying it costs no draft."""
    strategy = auto(costs_of(draft=1000.0))
    ways = rounds_of(strategy, drafter, TransitionMatrix(VOCAB), False, 40)
    assert ways.count("retrieved") > 25
    growth = strategy.grow_beside(drafter, TransitionMatrix(VOCAB), 7, 20)
    assert growth.decision["copied"]["node"]


def test_wrong_claims_shrink_the_tree() -> None:
    """A drafter that is sure and always wrong ends in plain steps, or in trees as small as those of a modest one."""
    sure = torch.full((6, VOCAB), -20.0)
    sure[:, 5] = 20.0
    drafter, matrix = GivenLogits(sure), TransitionMatrix(VOCAB)
    linear = costs_of({n: 10 + 0.5 * n for n in NODES})
    strategy, credulous = auto(linear, copy=False), auto(linear, copy=False, calibrate=False)
    first = strategy.grow_beside(drafter, matrix, 7, 9).tree.drafted
    assert first >= 5
    for chosen in (strategy, credulous):
        rounds_of(chosen, drafter, matrix, False, 60)
    assert strategy.grow_beside(drafter, matrix, 7, 9).tree.drafted == 0
    credulous._worth._since[:] = PROBE_EVERY
    assert credulous.grow_beside(drafter, matrix, 7, 9).tree.drafted == first


def test_what_it_cannot_work_with_is_refused(drafter: GivenLogits) -> None:
    with pytest.raises(Incompatible, match="no costs were measured"):
        auto(None).grow_beside(drafter, TransitionMatrix(VOCAB), 7, 3)
    with pytest.raises(Incompatible, match="one-pass"):
        auto(FLAT).grow_beside(PromptLookup(VOCAB), TransitionMatrix(VOCAB), 7, 3)
    with pytest.raises(Incompatible, match="retrieve=false"):
        auto(FLAT).grow(drafter, 7, 3)


def test_the_largest_tree_is_the_largest_that_was_measured() -> None:
    assert auto(FLAT).max_nodes == 63
    assert auto(FLAT, most=20).max_nodes == 20
    assert auto(None).max_nodes == 1024


def test_plans_reach_as_far_as_large_trees_pay(drafter: GivenLogits) -> None:
    matrix = matrix_of({token: [(token + k) % VOCAB for k in (1, 7, 11, 13)] for token in range(VOCAB)})
    nodes = (1, 64, 256)
    free, dear = (RoundCosts((10,), nodes, [row], [0.0]) for row in ([10, 10, 10], [10, 6400, 25600]))
    strategy = auto(free)
    sizes = []
    for _ in range(4):
        growth = strategy.grow_beside(drafter, matrix, 7, 9)
        sizes.append(growth.tree.drafted)
        strategy.observe(growth.tree, verdict_of(growth.tree, [0], 3))
    assert sizes == [LEAST_REACH, 2 * LEAST_REACH, 255, 255]
    strategy.costs = dear
    rounds_of(strategy, drafter, matrix, False, 4)
    assert strategy.reach == LEAST_REACH

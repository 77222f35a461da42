"""The plan over drafted and retrieved nodes: optimal for its surrogate, with DDTree and the bare matrix as its ends."""

import heapq
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.drafters.base import Observation
from decoding.drafters.prompt_lookup import PromptLookup
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.errors import Incompatible
from decoding.kernels.beliefs import ASKED, LIKELIEST
from decoding.kernels.grafted_selection import Copied, Drafted, Plan, Weights, pop_plan
from decoding.kernels.hit_counts import Heard
from decoding.kernels.prices import NO_PRICES, Prices, best_part, chances, least_slopes
from decoding.kernels.sequel import NO_SEQUEL, Sequel
from decoding.marginals import top_marginals
from decoding.strategies import make_strategy
from decoding.strategies.copying import LENGTHS, LOOKED_AT, MOST, Chain, CopiedText, CopyRates
from decoding.strategies.ddtree_graft import DDTreeGraft, DDTreeGraftSettings
from decoding.strategies.graft_plan import GraftPlan, Rates, columns
from decoding.strategies.hit_rates import ALONE
from decoding.tree import depths
from decoding.types import Source, Tree, Verdict
from tests.decoding.strategies.test_ddtree import GivenLogits

Path = tuple[int, ...]


class Case:
    """Random marginals, rows, copies and weights; `edges` says what they mean, in plain Python."""

    def __init__(
        self, seed: int, vocab: int, positions: int, width: int, choices: int, ties: bool = False, chain: int = 0,
        step: int = 0,
    ) -> None:  # fmt: skip
        rng = np.random.default_rng(seed)
        width = min(width, vocab)
        chance = rng.integers(1, 4, (positions, width)) / 16 if ties else rng.dirichlet(np.ones(width), positions) * 0.9
        chance = -np.sort(-chance.reshape(positions, width), axis=1)
        self.token = np.array([rng.permutation(vocab)[:width] for _ in range(positions)], np.int32).reshape(-1, width)
        self.logprob = np.log(chance).astype(np.float32)
        self.rows = np.full((vocab + 1, choices), -1, np.int32)
        for token in range(vocab):
            known = int(rng.integers(0, choices + 1)) if rng.random() < 0.8 else 0
            self.rows[token, :known] = rng.permutation(vocab)[:known]
        self.floor = np.log(np.array([1e-30, 0.05, 0.3], np.float32))
        rates = rng.integers(1, 5, (8, choices)) / 8 if ties else rng.uniform(0.01, 1, (8, choices))
        drafted = np.sort(rng.uniform(0.2, 1, 3))
        self.weights = Weights(
            np.log(rates).astype(np.float32), self.floor, np.log(drafted).astype(np.float32) * (not ties)
        )
        self.root = int(rng.integers(vocab))
        least = rng.integers(1, 9, chain) / 8 if ties else rng.uniform(0.01, 1, chain)
        self.chain = rng.integers(0, vocab, chain)
        self.copied = Copied(self.chain.astype(np.int32), np.log(least).astype(np.float32))
        shapes = (positions, 4), (step, 4), (positions, step), (vocab, step), (step, step), (vocab, step)
        numbers = [rng.normal(0, 0.8, shape).astype(np.float32) for shape in shapes]
        self.sequel = Sequel(*numbers) if step and positions else NO_SEQUEL

    def plan(self, budget: int, max_depth: int, prices: Prices = NO_PRICES) -> Plan:
        drafted = Drafted(self.token, self.logprob, self.sequel)
        plan: Plan = pop_plan(self.root, drafted, self.rows, self.copied, self.weights, budget, max_depth, prices)
        return plan

    def edges(self, path: Path) -> dict[int, float]:
        """Log-weight of every child of the node that `path`, the tokens below the root, leads to."""
        token, depth = (path[-1] if path else self.root), len(path)
        row = [successor for successor in self.rows[token].tolist() if successor >= 0]
        within = depth < len(self.token)
        chance = dict(zip(self.token[depth].tolist(), self.thought(path), strict=False)) if within else {}
        found = {}
        for successor, logprob in chance.items():
            band = int((logprob >= self.floor[1:]).sum())
            found[successor] = logprob + (float(self.weights.drafted[band]) if row else 0.0)
        for rank, successor in enumerate(row):
            band = int((chance.get(successor, -np.inf) >= self.floor[1:]).sum())
            line = (6 if len(self.token) else 7) if not within else band + (3 if depth else 0)
            found[successor] = float(self.weights.retrieved[line, rank])
        if depth < len(self.chain) and path == tuple(self.chain[:depth].tolist()):
            following, least = int(self.chain[depth]), float(self.copied.weight[depth])
            found[following] = max(least, found.get(following, -np.inf))
        return found

    def thought(self, path: Path) -> list[float]:
        """Log-probabilities of the candidates below the node that `path` leads to: the recurrence from the root on."""
        depth, sequel = len(path), self.sequel
        logprob = self.logprob[depth].astype(np.float64)
        if not len(sequel.states) or not path:
            return logprob.tolist()
        step = np.zeros(len(sequel.carry))
        for position, token in enumerate((self.root, *path)):
            total = sequel.state @ sequel.states[position] + sequel.place[position] + sequel.word[token]
            total = total + sequel.carry @ step
            step = total / (1 + np.exp(-total))
        logprob = logprob[:LIKELIEST]
        raised = logprob + sequel.column[self.token[depth, :LIKELIEST]] @ step
        last = slice(-max(len(logprob) // 4, 1), None)
        raised -= raised.max()
        beyond = max(1 - np.exp(logprob).sum(), 0) * np.exp(raised[last]).sum() / np.exp(logprob[last]).sum()
        return (raised - np.log(np.exp(raised).sum() + beyond)).tolist()


def paths_of(plan: Plan) -> list[Path]:
    paths: list[Path] = []
    for parent, token in zip(plan.parent.tolist(), plan.token.tolist(), strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    return paths


def check(case: Case, budget: int, max_depth: int) -> Plan:
    """Against a plain heap over the surrogate's definition; returns the plan."""
    plan = case.plan(budget, max_depth)
    heap: list[tuple[float, Path]] = [(0.0, ())]
    expected: list[float] = []
    while heap and len(expected) <= budget:
        cost, path = heapq.heappop(heap)
        expected.append(-cost)
        if len(path) < max_depth:
            for child, edge in case.edges(path).items():
                heapq.heappush(heap, (cost - edge, (*path, child)))
    np.testing.assert_allclose(plan.score, expected[1 : budget + 1], atol=1e-5)
    paths = paths_of(plan)
    assert len(set(paths)) == len(paths), "a token that is drafted and retrieved must be one node"
    for place, path in enumerate(paths):
        above = plan.score[plan.parent[place]] if len(path) > 1 else 0.0
        edge = case.edges(path[:-1])[path[-1]]
        assert plan.score[place] == pytest.approx(above + edge, abs=1e-5)
        assert plan.depth[place] == len(path) - 1 < max_depth
        over = path[-2] if len(path) > 1 else case.root
        if plan.row_rank[place] >= 0:
            assert case.rows[over, plan.row_rank[place]] == path[-1]
        if plan.draft_rank[place] >= 0:
            assert case.token[plan.depth[place], plan.draft_rank[place]] == path[-1]
        along = len(path) if path == tuple(case.chain[: len(path)].tolist()) else 0
        assert plan.copied[place] == along
        assert max(plan.row_rank[place], plan.draft_rank[place]) >= 0 or along
    assert (np.diff(plan.score) <= 0).all()
    return plan


def heaviest(case: Case, budget: int, max_depth: int) -> float:
    """The largest sum of path weights over all trees of at most `budget` nodes, by trying every way to share them."""

    @cache
    def best(path: Path, first: int, nodes: int) -> float:
        children = sorted(case.edges(path).items())
        if nodes == 0 or first == len(children) or len(path) == max_depth:
            return 0.0
        token, edge = children[first]
        without = best(path, first + 1, nodes)
        shares = (np.exp(edge) * (1 + best((*path, token), 0, below)) + best(path, first + 1, nodes - 1 - below)
                  for below in range(nodes))  # fmt: skip
        return max(without, *shares)

    return best((), 0, budget)


@pytest.mark.parametrize("seed", range(30))
def test_no_tree_is_heavier(seed: int) -> None:
    """Brute force over all trees, also those that are no first parts of a best-first order."""
    case = Case(seed, vocab=5, positions=seed % 4, width=3, choices=seed % 3, chain=seed % 5, step=seed % 2 * 3)
    for budget in (1, 2, 4, 7):
        plan = check(case, budget, max_depth=3)
        assert np.exp(plan.score).sum() == pytest.approx(heaviest(case, budget, 3), rel=1e-5)


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6), vocab=st.integers(1, 80), positions=st.integers(0, 6), width=st.integers(1, 60),
    choices=st.integers(0, 8), ties=st.booleans(), chain=st.integers(0, 9), step=st.sampled_from([0, 5]),
    budget=st.integers(0, 80), max_depth=st.integers(0, 9),
)  # fmt: skip
def test_any_plan(
    seed: int, vocab: int, positions: int, width: int, choices: int, ties: bool, chain: int, step: int, budget: int,
    max_depth: int,
) -> None:  # fmt: skip
    case = Case(seed, vocab, positions, width, min(choices, vocab), ties, chain, step)
    plan = check(case, budget, max_depth)
    for smaller in {0, budget // 3, budget - 1} - {-1}:
        part = case.plan(smaller, max_depth)
        for whole, head in zip(plan[:-1], part[:-1], strict=True):
            assert np.array_equal(whole[:smaller], head)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6), budget=st.integers(0, 60), kind=st.sampled_from(["any", "flat", "linear", "steps"]),
    step=st.floats(0.0, 3.0), shares=st.lists(st.floats(0.1, 3.0), min_size=1, max_size=12),
)  # fmt: skip
def test_a_priced_plan_ends_where_no_more_nodes_can_pay(
    seed: int, budget: int, kind: str, step: float, shares: list[float]
) -> None:
    """Its nodes are the first of the whole plan, and the best part of that is among them."""
    case = Case(seed, vocab=30, positions=4, width=12, choices=4, chain=seed % 5)
    rise = np.random.default_rng(seed).exponential(step, budget) if kind == "any" else np.full(budget, step)
    rise *= {"flat": 0.0, "steps": np.arange(budget) % 8 == 7}.get(kind, 1.0)
    milliseconds = 10.0 + np.concatenate([[0.0], np.cumsum(rise)])
    share = np.array(shares)
    whole = case.plan(budget, 6)
    part = case.plan(budget, 6, Prices(share, milliseconds, least_slopes(milliseconds)))
    for full, head in zip(whole[:-1], part[:-1], strict=True):
        assert np.array_equal(full[: len(part.score)], head)
    assert best_part(chances(part.score, share), milliseconds) == best_part(chances(whole.score, share), milliseconds)
    if kind == "flat":
        assert len(part.score) == len(whole.score)


def test_dear_nodes_end_a_plan_early() -> None:
    case = Case(0, vocab=80, positions=6, width=60, choices=4)
    milliseconds = 10.0 + np.arange(65.0)
    plan = case.plan(64, 6, Prices(np.ones(12), milliseconds, least_slopes(milliseconds)))
    assert best_part(np.exp(plan.score), milliseconds)[0] <= len(plan.score) < 32


@given(st.lists(st.floats(0.1, 50), min_size=1, max_size=20))
def test_no_more_nodes_are_cheaper_than_the_least_slope(cost: list[float]) -> None:
    milliseconds = np.array(cost)
    slope = least_slopes(milliseconds)
    assert slope[-1] == np.inf
    for few in range(len(cost) - 1):
        assert slope[few] == min((cost[more] - cost[few]) / (more - few) for more in range(few + 1, len(cost)))


@pytest.mark.parametrize("seed", range(3))
def test_beyond_the_heaviest_nodes_the_position_speaks(seed: int) -> None:
    case = Case(seed, vocab=8, positions=6, width=6, choices=0, step=5)
    plan = case.plan(4 * ASKED, 6)
    assert len(plan.believed) == ASKED
    paths = paths_of(plan)
    for place in range(ASKED, len(paths)):
        above, rank = int(plan.parent[place]), plan.draft_rank[place]
        edge = plan.score[place] - (plan.score[above] if above >= 0 else 0.0)
        asked = 0 <= above < ASKED
        expected = case.thought(paths[above])[rank] if asked else case.logprob[plan.depth[place], rank]
        assert edge == pytest.approx(expected, abs=1e-5)
    assert (plan.parent >= ASKED).any()


VOCAB = 60


@pytest.fixture
def drafter() -> GivenLogits:
    return GivenLogits(torch.randn(5, VOCAB, generator=torch.Generator().manual_seed(0)) * 3)


def matrix_of(pairs: dict[int, list[int]]) -> TransitionMatrix:
    matrix = TransitionMatrix(VOCAB)
    following = np.full((len(pairs), 8), -1, np.int32)
    for line, successors in enumerate(pairs.values()):
        following[line, : len(successors)] = successors
    tokens = np.array(list(pairs), np.int32)
    matrix.observe(Observation(tokens, None, tokens, following))
    return matrix


def grown(drafter: Any, matrix: TransitionMatrix | None, budget: int, depth: int = 20, **given: Any) -> Any:
    strategy = make_strategy("ddtree-graft", {"budget": budget, **given})
    return strategy.grow_beside(drafter, matrix, 7, depth)


@pytest.mark.parametrize("budget", [1, 10, 200])
def test_without_retrieval_it_is_ddtree(drafter: GivenLogits, budget: int) -> None:
    expected = make_strategy("ddtree", {"budget": budget}).grow(drafter, 7, 20)
    for matrix, given_settings in ((None, {"retrieve": False}), (TransitionMatrix(VOCAB), {})):
        growth = grown(drafter, matrix, budget, **given_settings)
        for name in ("token", "parent", "logprob", "source"):
            np.testing.assert_array_equal(getattr(growth.tree, name), getattr(expected.tree, name))
        assert growth.decision["expected_accepted"] == pytest.approx(expected.decision["expected_accepted"])
        assert growth.decision["grafts"] == {"node": [], "row": [], "rank": []}


def test_beyond_the_block_retrieval_goes_on_alone() -> None:
    """Without any marginals it is best first over the matrix; a chain of successors leaves the block behind."""
    ring = matrix_of({token: [(token + 1) % VOCAB] for token in range(VOCAB)})
    asked = GivenLogits(torch.zeros(3, VOCAB))
    growth = grown(asked, ring, 6, draft=False)
    assert asked.calls == []
    assert growth.tree.token.tolist() == [7, 8, 9, 10, 11, 12, 13]
    assert growth.tree.parent.tolist() == [-1, 0, 1, 2, 3, 4, 5]
    assert (growth.tree.source[1:] == Source.RETRIEVAL).all()
    certain = torch.full((2, VOCAB), -20.0)
    certain[0, 8] = certain[1, 9] = 20.0
    growth = grown(GivenLogits(certain), ring, 5)
    assert growth.tree.token.tolist()[:4] == [7, 8, 9, 10]
    assert growth.tree.source.tolist()[:4] == [Source.ROOT, Source.DRAFT, Source.DRAFT, Source.RETRIEVAL]
    assert growth.decision["merged"] == [1, 2]


@pytest.mark.parametrize("max_depth", [0, 1, 3, 8])
def test_every_graft_knows_its_row_and_rank(drafter: GivenLogits, max_depth: int) -> None:
    rng = np.random.default_rng(1)
    matrix = matrix_of({token: rng.permutation(VOCAB)[:8].tolist() for token in range(0, VOCAB, 2)} | {7: [3, 5]})
    growth = grown(drafter, matrix, 120, max_depth)
    tree, grafts = growth.tree, growth.decision["grafts"]
    assert min(max_depth, 3) <= depths(tree.parent).max() <= max_depth
    assert grafts["node"] == np.flatnonzero(tree.source == Source.RETRIEVAL).tolist()
    if max_depth:
        assert grafts["node"]
    if max_depth > 1:
        assert growth.decision["merged"]
    for node, row, rank in zip(*grafts.values(), strict=True):
        assert tree.token[tree.parent[node]] == row
        assert matrix.successors()[row, rank] == tree.token[node]
    for node in growth.decision["merged"]:
        assert tree.token[node] in matrix.successors()[tree.token[tree.parent[node]]]
    assert np.isnan(tree.logprob[grafts["node"]]).all()
    assert not np.isnan(tree.logprob[tree.source == Source.DRAFT]).any()
    assert len(growth.decision["graft_weight"]) == len(grafts["node"])


def verdict_of(tree: Tree, path: list[int], bonus: int) -> Verdict:
    count = len(tree)
    return Verdict(
        path, bonus, np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count),
        np.zeros((count, 1)), np.zeros((count, 1)),
    )  # fmt: skip


def test_a_graft_enters_where_it_has_been_right() -> None:
    """The drafter is sure of one token, the matrix names another. Only what is right in the end comes first."""
    logits = torch.full((1, VOCAB), -20.0)
    logits[0, 11] = 0.0
    logits[0, 12] = -1.0
    drafter, matrix = GivenLogits(logits), matrix_of({7: [20]})
    for right in (20, 11):
        strategy = DDTreeGraft(DDTreeGraftSettings(budget=2))
        for _ in range(60):
            tree = strategy.grow_beside(drafter, matrix, 7, 1).tree
            node = tree.token.tolist().index(right) if right in tree.token.tolist() else 0
            strategy.observe(tree, verdict_of(tree, [0, node] if node else [0], 5 if node else right))
        assert strategy.grow_beside(drafter, matrix, 7, 1).tree.token[1] == right
        assert (tree.token.tolist() == [7, 11, 12]) == (right == 11), "a graft that is always wrong must go"


def test_what_a_plan_without_a_draft_would_have_held() -> None:
    """The chain 20 21 30 and the rows of 7 and 20, against what the target said; node for node of the accepted path."""
    rows = matrix_of({7: [20, 9], 20: [21]}).successors()
    rates, chain = Rates(), Chain(np.array([20, 21, 30], np.int32), 3, int(LENGTHS[-1]))
    marginals = top_marginals(torch.zeros(5, VOCAB), 4)
    plan = GraftPlan(7, marginals, rows, rates, 20, 9, chain)
    tree = plan.tree(20)

    def held(path: list[int], bonus: int, least: float) -> int:
        nodes = [0]
        for token in path:
            nodes.append(int(np.flatnonzero((tree.parent == nodes[-1]) & (tree.token == token))[0]))
        return rates.held_alone(chain, plan.heard(tree, verdict_of(tree, nodes, bonus)), least)

    assert held([20, 21], 30, 0.1) == 3, "all of it, the bonus, too"
    assert held([20, 21], 31, 0.1) == 2
    assert held([20, 21], 30, 1.0) == 0, "no path weighs that much"
    assert held([9], 5, 0.01) == 1, "by the row of the root; that of 9 is not known"
    assert held([], 50, 0.0001) == 0
    drafted = int(next(token for token in marginals.token[0] if token not in (20, 9)))
    assert held([drafted] if drafted in tree.token[tree.parent == 0] else [], 20, 0.01) in (0, 1)


def test_it_learns_from_accepted_nodes_alone(drafter: GivenLogits) -> None:
    matrix = matrix_of({token: [1, 2, 3] for token in range(VOCAB)})
    strategy = DDTreeGraft(DDTreeGraftSettings(budget=30))
    before = strategy.rates.hits.weights()
    tree = strategy.grow_beside(drafter, matrix, 7, 10).tree
    strategy.observe(tree, verdict_of(tree, [0], bonus=2))
    after = strategy.rates.hits.weights()
    changed = (before.retrieved != after.retrieved).sum(axis=1)
    assert changed[: len(before.floor)].sum() == 3, "one cell for each entry of the root's row"
    assert changed[ALONE] == 3, "and what it would be worth without a draft"
    assert changed.sum() == 6
    strategy.observe(tree, verdict_of(tree, [0], bonus=2))
    assert np.array_equal(strategy.rates.hits.weights().retrieved, after.retrieved), "a round teaches once"


def test_what_it_cannot_work_with_is_refused(drafter: GivenLogits) -> None:
    strategy = make_strategy("ddtree-graft", {})
    with pytest.raises(Incompatible, match="one-pass"):
        strategy.grow_beside(PromptLookup(VOCAB), TransitionMatrix(VOCAB), 7, 3)
    for source in (None, PromptLookup(VOCAB)):
        with pytest.raises(Incompatible, match="retrieve=false"):
            strategy.grow_beside(drafter, source, 7, 3)


def test_planning_needs_only_the_best_of_each_position() -> None:
    """As Lemma 1 of DDTree: a plan over the kept columns is the plan over the whole vocabulary."""
    vocab = 400
    rng = np.random.default_rng(0)
    rows = np.array([rng.permutation(vocab)[:8] for _ in range(vocab + 1)], np.int32)
    rates = Rates()
    for seed in range(8):
        logits = torch.randn(4, vocab, generator=torch.Generator().manual_seed(seed)) * (0.5 + seed)
        for budget in (1, 20, 230):
            few, all_of_them = (
                GraftPlan(7, top_marginals(logits, k), rows, rates, budget, 9) for k in (columns(budget), vocab)
            )
            for one, other in zip(few.plan[:-1], all_of_them.plan[:-1], strict=True):
                np.testing.assert_array_equal(one, other)


def test_a_copy_is_what_followed_the_longest_match() -> None:
    text = CopiedText([5, 6, 7, 8, 9, 6, 7])
    assert text.chain(30).token.tolist() == []
    token, place, matched = text.chain(8)  # 6, 7, 8 stood before; the root ends the text
    assert (token.tolist(), place, matched) == ([9, 6, 7, 8] * (MOST // 4), 4, 3)
    text.read([8])
    assert text.chain(9).token.tolist() == [6, 7, 8, 9] * (MOST // 4)
    assert text.chain(5).token.tolist() == [], "a match of one token is left to the matrix"
    assert CopiedText([1, 2] * 100).chain(1).token.tolist() == [2, 1] * (MOST // 2)


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(0, 3))
def test_a_copy_comes_from_the_latest_of_the_longest_matches(tokens: list[int], root: int) -> None:
    token, place, matched = CopiedText(tokens).chain(root)
    whole = [*tokens, root]
    places = {n: [at for at in range(n, len(tokens) + 1) if tokens[at - n : at] == whole[-n:]] for n in range(2, 62)}
    longest = max((n for n in places if places[n]), default=0)
    assert matched == longest
    if longest:
        assert place == places[longest][-1]
        assert token.tolist() == np.resize(whole[place:], MOST).tolist()


def test_where_the_root_is_said_over_and_over_the_first_match_is_copied() -> None:
    text = CopiedText([8, 1, 2, *[1, 3] * LOOKED_AT, 8])
    assert text.chain(1).place == 2


def test_a_text_that_repeats_itself_is_copied_beyond_the_block(drafter: GivenLogits) -> None:
    text = [40, 41, 42, 43, 44, 45, 46, 47, 48, 7]
    strategy = DDTreeGraft(DDTreeGraftSettings(budget=30))
    strategy.begin([*text, *range(20, 30), *text[:-1]])
    growth = strategy.grow_beside(drafter, TransitionMatrix(VOCAB), 7, 20)
    tree, copied = growth.tree, growth.decision["copied"]
    assert (copied["place"], copied["matched"]) == (10, 10)
    node = 0
    for token in [*range(20, 30), *text[:-1], 7]:
        below = np.flatnonzero((tree.parent == node) & (tree.token == token))
        if not len(below):
            break
        (node,) = below.tolist()
        assert (tree.source[node] == Source.RETRIEVAL) == (node in copied["node"])
    assert depths(tree.parent)[node] > drafter.positions
    off = DDTreeGraft(DDTreeGraftSettings(budget=30, copy=False))
    off.begin([*text, *range(20, 30), *text[:-1]])
    assert off.grow_beside(drafter, TransitionMatrix(VOCAB), 7, 20).decision["copied"]["node"] == []


def test_copies_that_come_true_weigh_more_and_others_less(drafter: GivenLogits) -> None:
    marginals = drafter.marginals(7, k=VOCAB)
    chain = Chain(np.arange(20, 40, dtype=np.int32), 3, int(LENGTHS[0]))
    rates = CopyRates()
    before = rates.weighed(chain, marginals).weight
    assert (before <= 0).all()
    said = np.array([20, 21, 50, 23], np.int32)  # the third was wrong; of the fourth nothing is known
    path, rows, believed = np.arange(4, dtype=np.int32), np.empty((4, 0), np.int32), np.empty((0, 1), np.float32)
    rates.learn(chain, Heard(path, said, rows, marginals.token, marginals.logprob, believed))
    after = rates.weighed(chain, marginals).weight
    assert (after > before)[:2].all()
    assert after[2] < before[2]
    longer = rates.weighed(chain._replace(matched=20), marginals).weight
    assert (longer[5:] == before[-1]).all(), "what was learnt of short matches says nothing of long ones"


def test_text_that_was_read_round_by_round_is_the_text(drafter: GivenLogits) -> None:
    """The root belongs to the text once it has been verified, the bonus is the next root."""
    strategy = DDTreeGraft(DDTreeGraftSettings(budget=8))
    strategy.begin([1, 2])
    tree = strategy.grow_beside(drafter, TransitionMatrix(VOCAB), 7, 20).tree
    strategy.observe(tree, verdict_of(tree, [0, 1], bonus=9))
    first = int(tree.token[1])
    drafts = [Source.ROOT, Source.DRAFT, Source.DRAFT]
    tree = Tree(np.array([9, 1, 2]), np.array([-1, 0, 1]), np.zeros(3), np.array(drafts))
    strategy.observe(tree, verdict_of(tree, [0, 1, 2], 7))
    chain = strategy._text.chain(7)
    assert (chain.token.tolist()[:5], chain.matched) == ([first, 9, 1, 2, 7], 3)

"""The selection against every tree there is (small cases) and against Algorithm 1 as written (large ones)."""

import heapq
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.strategies.best_first import best_prefixes

LN2 = float(np.log(2.0))


def heap_scores(logprob, budget):
    """Scores that Algorithm 1 pops. Sums from the first position on, so that equal prefixes have equal floats."""
    rows = np.minimum(logprob.astype(np.float64), 0).tolist()
    heap, popped = [], []
    if rows and rows[0]:
        heap = [(-rows[0][0], 0.0, 0, 0)]  # cost, cost of the parent, position, rank
    while heap and len(popped) < budget:
        cost, above, position, rank = heapq.heappop(heap)
        if cost == np.inf:
            break
        popped.append(0.0 - cost)
        if rank + 1 < len(rows[0]):
            heapq.heappush(heap, (above - rows[position][rank + 1], above, position, rank + 1))
        if position + 1 < len(rows):
            heapq.heappush(heap, (cost - rows[position + 1][0], cost, position + 1, 0))
    return np.array(popped)


def check(logprob, budget, prefixes=None):
    """Everything that `best_prefixes` promises."""
    got = best_prefixes(logprob, budget) if prefixes is None else prefixes
    expected = heap_scores(logprob, budget)
    assert np.array_equal(got.score, expected)  # exactly, and in descending order: every first b are optimal for b
    assert (np.diff(got.score) <= 0).all()
    assert np.isfinite(got.score).all()
    count = len(expected)
    assert all(len(field) == count for field in got)
    rooted = got.parent < 0
    assert (got.parent < np.arange(count)).all()
    assert (got.position[rooted] == 0).all()
    assert (got.position[~rooted] == got.position[got.parent[~rooted]] + 1).all()
    assert len({*zip(got.parent.tolist(), got.rank.tolist(), strict=True)}) == count
    above = np.where(rooted, 0.0, got.score[got.parent])
    edge = np.minimum(logprob.astype(np.float64), 0)[got.position, got.rank] if count else np.zeros(0)
    assert np.array_equal(above + edge, got.score)
    # The documented order: score, then length, then ranks from the last position back.
    ranks = []
    for parent, rank in zip(got.parent.tolist(), got.rank.tolist(), strict=True):
        ranks.append((rank, *(ranks[parent] if parent >= 0 else ())))
    keys = [(-score, len(way), way) for score, way in zip(got.score.tolist(), ranks, strict=True)]
    assert keys == sorted(keys)
    return got


def random_logprobs(rng, positions, width, kind):
    """Sorted rows of log-probabilities; some kinds are full of ties."""
    if kind == "smooth":
        rows = rng.standard_normal((positions, width)) * rng.uniform(0.2, 6, (positions, 1))
    elif kind == "ties":
        rows = rng.integers(-4, 1, (positions, width)) * 1.0
    elif kind == "equal":
        rows = np.zeros((positions, width))
    elif kind == "certain":
        rows = rng.standard_normal((positions, width)) * 3
        rows[rng.random(positions) < 0.5, 1:] = -np.inf
    elif kind == "masked":
        rows = rng.standard_normal((positions, width))
        rows[rng.random((positions, width)) < 0.7] = -np.inf
        rows[:, 0] = 0.0
    else:  # "halves": all sums are exact, so that ties between different lengths are, too
        rows = -np.arange(1, width + 1) * np.ones((positions, 1))
        return (rows * LN2).astype(np.float32)
    mass = np.log(np.exp(rows - rows.max(1, keepdims=True)).sum(1, keepdims=True)) + rows.max(1, keepdims=True)
    return -np.sort(-np.minimum(rows - mass, 0.0), axis=1).astype(np.float32)


KINDS = ("smooth", "ties", "equal", "certain", "masked", "halves")


@cache
def trees(depth, width, nodes):
    """Every ordered choice of subtrees: all trees of exactly `nodes` nodes, as sets of rank tuples."""
    if nodes == 0:
        return [frozenset()]
    if depth == 0:
        return []
    return list(forests(depth, width, nodes, 0))


def forests(depth, width, nodes, first):
    if nodes == 0:
        yield frozenset()
        return
    if first == width:
        return
    yield from forests(depth, width, nodes, first + 1)
    for size in range(1, nodes + 1):
        for below in trees(depth - 1, width, size - 1):
            head = frozenset({(first,)} | {(first, *way) for way in below})
            for rest in forests(depth, width, nodes - size, first + 1):
                yield head | rest


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("positions", "width", "budget"), [(1, 3, 2), (2, 2, 3), (2, 3, 4), (3, 2, 5), (3, 3, 5)])
def test_no_tree_is_better(kind, positions, width, budget):
    """Brute force over all prefix-closed sets, not only over sets of best prefixes."""
    rng = np.random.default_rng(hash((positions, width, budget)) % 2**32)
    all_trees = [tree for size in range(budget + 1) for tree in trees(positions, width, size)]
    for tree in all_trees[:200]:
        assert all(len(way) == 1 or way[:-1] in tree for way in tree)
    for _ in range(3):
        logprob = random_logprobs(rng, positions, width, kind)
        value = {(): 1.0}
        for way in sorted({way for tree in all_trees for way in tree}, key=len):
            value[way] = value[way[:-1]] * float(np.exp(logprob[len(way) - 1, way[-1]]))
        best = max(sum(value[way] for way in tree) for tree in all_trees)
        assert np.exp(best_prefixes(logprob, budget).score).sum() == pytest.approx(best, abs=1e-6)


def test_every_tree_is_enumerated():
    # Binary trees of n nodes: the Catalan numbers.
    assert [len(set(trees(6, 2, size))) for size in range(7)] == [1, 2, 5, 14, 42, 132, 429]


def test_the_example_of_the_docstring():
    got = best_prefixes(np.log(np.array([[0.6, 0.4], [0.9, 0.1]], np.float32)), 3)
    assert got.parent.tolist() == [-1, 0, -1]
    assert got.position.tolist() == [0, 1, 0]
    assert got.rank.tolist() == [0, 0, 1]
    np.testing.assert_allclose(np.exp(got.score), [0.6, 0.54, 0.4], rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_against_the_heap(kind):
    rng = np.random.default_rng(11)
    for _ in range(60):
        positions, width, budget = int(rng.integers(1, 16)), int(rng.integers(1, 80)), int(rng.integers(1, 300))
        check(random_logprobs(rng, positions, width, kind), budget)


@pytest.mark.parametrize("budget", [1, 2, 15, 16, 31, 64, 127, 128, 255, 511, 512, 1024])
@pytest.mark.parametrize("kind", KINDS)
def test_every_budget(kind, budget):
    check(random_logprobs(np.random.default_rng(budget), 15, min(budget, 700), kind), budget)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_large_cases(kind):
    rng = np.random.default_rng(12)
    for _ in range(500):
        positions, budget = int(rng.integers(1, 17)), int(rng.integers(1, 1025))
        width = int(rng.integers(1, budget + 1))
        check(random_logprobs(rng, positions, width, kind), budget)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_nodes_are_the_answer_for_a_smaller_budget(kind):
    logprob = random_logprobs(np.random.default_rng(13), 9, 40, kind)
    full = best_prefixes(logprob, 400)
    for budget in range(1, len(full.score) + 1, 7):
        part = best_prefixes(logprob, budget)
        for whole, head in zip(full, part, strict=True):
            assert np.array_equal(whole[:budget], head)


def test_one_certain_token_everywhere():
    logprob = np.full((15, 64), -np.inf, np.float32)
    logprob[:, 0] = 0.0
    got = check(logprob, 64)
    assert got.parent.tolist() == list(range(-1, 14))
    assert got.score.tolist() == [0.0] * 15


def test_budget_beyond_the_vocabulary_and_beyond_all_prefixes():
    logprob = np.log(np.array([[0.7, 0.3]] * 3, np.float32))
    assert len(check(logprob, 1024).score) == 2 + 4 + 8


def test_rounding_above_zero_is_clipped():
    got = check(np.array([[1e-7, -16.0], [1e-7, -16.0]], np.float32), 4)
    assert got.position.tolist()[:2] == [0, 1]


def test_nearly_equal_scores_are_told_apart():
    rng = np.random.default_rng(15)
    logprob = -np.sort(rng.uniform(3, 3 + 1e-5, (12, 64)).astype(np.float32), axis=1)
    check(logprob, 1024)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0)])
def test_nothing_to_choose_from(shape):
    assert all(len(field) == 0 for field in best_prefixes(np.zeros(shape, np.float32), 5))
    assert len(best_prefixes(np.zeros((2, 2), np.float32), 0).score) == 0


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_rows(data):
    positions, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))
    entry = st.one_of(st.floats(-30, 0, width=32), st.just(-np.inf), st.sampled_from([-1.0, -2.0, -0.0, -1e30]))
    rows = [data.draw(st.lists(entry, min_size=width, max_size=width)) for _ in range(positions)]
    check(-np.sort(-np.array(rows, np.float32), axis=1), data.draw(st.integers(1, 60)))

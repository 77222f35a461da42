"""Lookahead's window and pool, worked by hand; SAM-Decoding's and PLD's choices."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decoding.drafters.base import Observation, no_next
from decoding.drafters.prompt_lookup import PromptLookup
from decoding.drafters.sam import SamDrafter
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.errors import Incompatible
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.strategies.lookahead import Lookahead, NgramPool
from decoding.tree import depths, path_to
from decoding.types import Source, Tree, Verdict


def says(tree: Tree, answer: Any) -> Verdict:
    """A verdict in which the target's most likely token after each path is `answer(path)`."""
    paths = [tree.token[path_to(tree.parent, node)].tolist() for node in range(len(tree))]
    top = np.array([[answer(path)] for path in paths])
    zeros = np.zeros(len(tree))
    return Verdict(np.array([0]), int(top[0, 0]), zeros, zeros, top[:, 0], zeros, top, np.zeros(top.shape))


def lookahead(prompt: list[int], **settings: Any) -> Lookahead:
    strategy = make_strategy("lookahead", settings)
    assert isinstance(strategy, Lookahead)
    strategy.begin(prompt, Sampling(), torch.Generator())
    return strategy


def test_the_window_by_hand():
    """N = 3, W = 2, a target that always says last + 1: one row of three (root included), then two rows of two."""
    strategy = lookahead([50], level=3, window=2, guesses=2)
    first = strategy.grow(None, 10, 99).tree
    assert (first.token.tolist(), first.parent.tolist()) == ([10, 50, 50], [-1, 0, 1])
    strategy.observe(first, says(first, lambda path: path[-1] + 1))
    # Said after columns 0, 1, 2: 11, 51, 51. The next window begins one place on: row 0 is root, 50; row 1 is 51, 51.
    second = strategy.grow(None, 11, 99).tree
    assert (second.token.tolist(), second.parent.tolist()) == ([11, 50, 51, 51], [-1, 0, 0, 1])
    strategy.observe(second, says(second, lambda path: path[-1] + 1))
    # Both rows were there: the n-grams are 11 51 52 and 50 51 52.
    third = strategy.grow(None, 50, 99)
    assert third.decision["guesses"] == 1
    assert third.tree.token[:3].tolist() == [50, 51, 52]
    assert (third.tree.source[1:3] == Source.RETRIEVAL).all()
    # Row 0 is root and what stood in row 1 a place on; row 1 is what the target just said.
    assert third.tree.token[3:].tolist() == [52]  # column 1: 51 is merged with the guess, below it hangs 52, merged too
    assert third.tree.parent[3:].tolist() == [0]


def test_a_full_window_has_the_paper_s_shape():
    strategy = lookahead(list(range(100, 140)), from_prompt=False)
    rng = np.random.default_rng(0)
    for number in range(8):
        growth = strategy.grow(None, 10 + number, 99)
        rows = min(number + 1, 4)
        assert growth.decision["rows"] == rows
        columns = 7 + 4 - rows
        assert growth.tree.drafted - growth.decision["guess_nodes"] <= rows * columns - 1
        if number < 4:
            assert growth.tree.drafted == rows * columns - 1
        strategy.observe(growth.tree, says(growth.tree, lambda _: int(rng.integers(200, 10**6))))
    assert strategy.max_nodes == 27 + 28


def test_each_window_token_sees_row_0_up_to_its_column_and_its_own_column():
    """With every token different, the context of the last row's node j is root, row 0 up to j, then column j."""
    strategy = lookahead(list(range(100, 200)), from_prompt=False)
    rng = np.random.default_rng(1)
    for _ in range(3):
        growth = strategy.grow(None, 10, 99)
        strategy.observe(growth.tree, says(growth.tree, lambda _: int(rng.integers(200, 10**6))))
    tree = strategy.grow(None, 11, 99).tree
    row_0, *columns = strategy._rows
    assert [len(row) for row in strategy._rows] == [6, 7, 7, 7]
    for column, end in enumerate(strategy._ends or []):
        path = tree.token[path_to(tree.parent, end)].tolist()
        assert path == [11, *row_0[:column], *(row[column] for row in columns)]


@given(st.integers(2, 6), st.integers(1, 8), st.integers(0, 4), st.integers(0, 12), st.integers(0, 99))
def test_trees_are_valid_and_within_bounds(level: int, window: int, guesses: int, max_depth: int, seed: int):
    rng = np.random.default_rng(seed)
    prompt = rng.integers(0, 4, 12).tolist()
    strategy = lookahead(prompt, level=level, window=window, guesses=guesses)
    for _ in range(7):
        tree = strategy.grow(None, int(rng.integers(0, 4)), max_depth).tree
        assert tree.drafted <= strategy.max_nodes
        assert depths(tree.parent).max() <= max_depth
        strategy.observe(tree, says(tree, lambda _: int(rng.integers(0, 4))))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2))), st.integers(0, 3))
def test_the_pool_keeps_the_latest(grams: list[tuple[int, int, int]], size: int):
    pool = NgramPool(size)
    for gram in grams:
        pool.add(gram)
    for first in range(3):
        rests = [gram[1:] for gram in reversed(grams) if gram[0] == first]
        assert pool.after(first) == list(dict.fromkeys(rests))[:size]


def test_the_prompt_s_n_grams_are_in_the_pool():
    strategy = lookahead([1, 2, 3, 1, 2, 4], level=3, window=1)
    assert strategy._pool.after(1) == [(2, 4), (2, 3)]
    strategy.begin([7, 8, 9], Sampling(), torch.Generator())
    assert strategy._pool.after(1) == []


def committed(tokens: list[int]) -> Observation:
    array = np.array(tokens, np.int32)
    return Observation(array, None, array, no_next(len(array)))


def test_sam_copies_a_long_match_and_else_fills_the_template():
    matrix = TransitionMatrix(20)
    seen = np.arange(20, dtype=np.int32)
    matrix.observe(Observation(seen[:1], None, seen, (seen[:, None] + np.arange(1, 9)).astype(np.int32) % 20))
    drafter = SamDrafter(20)
    drafter.observe(committed([1, 2, 3, 4, 5, 6, 7, 9, 1, 2, 3, 4]))
    strategy = make_strategy("sam", {})
    copied = strategy.grow_beside(drafter, matrix, 5, 99)
    assert copied.decision["matched"]
    assert copied.tree.token.tolist() == [5, 6, 7, 9, 1, 2, 3, 4, 5]
    template = strategy.grow_beside(drafter, matrix, 6, 99)
    assert not template.decision["matched"]
    assert template.tree.drafted == 80
    assert make_strategy("sam", {"fallback": False}).grow(drafter, 6, 99).tree.drafted == 0
    with pytest.raises(Incompatible, match="beside"):
        strategy.grow(drafter, 6, 99)


def test_pld_takes_ten_tokens():
    drafter = PromptLookup(100)
    drafter.observe(committed([*range(30), 3]))
    assert make_strategy("pld", {}).grow(drafter, 4, 99).tree.token.tolist() == list(range(4, 15))

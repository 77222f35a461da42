"""Properties of the tree arithmetic, on random trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding import tree as arithmetic
from decoding.types import Source, Tree


@st.composite
def parents(draw, most=40):
    """A parent array: every node hangs below an earlier one."""
    count = draw(st.integers(1, most))
    return np.array([-1] + [draw(st.integers(0, i - 1)) for i in range(1, count)], np.int32)


def tree_with(parent, logprob):
    token = np.arange(len(parent))  # all different, so no siblings share one
    source = np.full(len(parent), Source.DRAFT)
    source[0] = Source.ROOT
    return Tree(token, parent, np.asarray(logprob, np.float32), source)


@given(parents())
def test_depth_is_the_length_of_the_path(parent):
    depth = arithmetic.depths(parent)
    assert depth.dtype == np.int32
    assert depth.tolist() == [len(arithmetic.path_to(parent, node)) - 1 for node in range(len(parent))]


@given(parents())
def test_ancestors_are_the_path(parent):
    matrix = arithmetic.ancestors(parent)
    assert matrix.dtype == np.bool_
    assert matrix.shape == (len(parent), len(parent))
    for node in range(len(parent)):
        assert np.flatnonzero(matrix[node]).tolist() == arithmetic.path_to(parent, node)


@given(parents())
def test_ancestor_lines_walk_up(parent):
    lines = arithmetic.ancestor_lines(parent)
    assert not lines[-1].any()
    for node in range(len(parent)):
        path = arithmetic.path_to(parent, node)[::-1]
        assert lines[:, node].tolist() == path + [0] * (len(lines) - len(path))


def test_a_long_chain():
    parent = np.arange(-1, 999, dtype=np.int32)
    assert arithmetic.depths(parent).tolist() == list(range(1000))
    assert (arithmetic.ancestors(parent) == np.tri(1000, dtype=bool)).all()


@given(parents(), st.data())
def test_cumulative_logprob_adds_up_the_path(parent, data):
    edges = data.draw(st.lists(st.floats(-20, 0, width=32), min_size=len(parent), max_size=len(parent)))
    edges[0] = 0.0
    total = arithmetic.cumulative_logprob(tree_with(parent, edges))
    for node in range(len(parent)):
        path = arithmetic.path_to(parent, node)
        assert total[node] == pytest.approx(sum(edges[i] for i in path), abs=1e-4)


@given(parents(), st.data())
def test_cumulative_logprob_is_unknown_below_an_unknown_edge(parent, data):
    unknown = data.draw(st.sets(st.integers(1, max(1, len(parent) - 1))))
    edges = [float("nan") if i in unknown and i else -0.5 * (i > 0) for i in range(len(parent))]
    total = arithmetic.cumulative_logprob(tree_with(parent, edges))
    for node in range(len(parent)):
        assert np.isnan(total[node]) == any(np.isnan(edges[i]) for i in arithmetic.path_to(parent, node))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=40))
def test_builder_merges_repeated_children(additions):
    builder = arithmetic.TreeBuilder(root_token=9)
    for place, token in additions:
        above = place % len(builder)
        size = len(builder)
        known = arithmetic.child_with_token(builder.build(), above, token)
        node = builder.add(above, token, -1.0)
        assert node == (size if known is None else known)
        assert builder.add(above, token, -2.0) == node
    tree = builder.build()  # checks itself
    assert tree.token[0] == 9
    kids = arithmetic.children(tree.parent)
    assert sorted(node for row in kids for node in row) == list(range(1, len(tree)))
    assert all(tree.parent[node] == above for above, row in enumerate(kids) for node in row)

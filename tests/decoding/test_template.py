"""Templates: prefix-closed, of the stated widths, of exactly the asked size."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.template import (
    CHOICES,
    DEPTH_COST,
    RECYCLE_WIDTHS,
    Template,
    likeliest_template,
    rank_logprob,
    scaled_template,
    template_of_widths,
)
from decoding.tree import depths, path_to
from decoding.types import Source


def widths_of(template: Template) -> list[int]:
    return [level.stop - level.start for level in template.levels]


def paths_of(template: Template) -> set[tuple[int, ...]]:
    return {tuple(template.rank[path_to(template.parent, node)[1:]].tolist()) for node in range(len(template))}


def test_token_recycling_widths():
    template = template_of_widths(RECYCLE_WIDTHS)
    assert widths_of(template) == list(RECYCLE_WIDTHS)
    assert len(template) - 1 == 80
    # Ends of the depths as the authors' README shows them.
    assert {(7,), (7, 0), (5, 0, 0), (1, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 1)} <= paths_of(template)


def test_graft_table_7_widths():
    widths = (8, 10, 8, 6, 5, 4, 4, 4, 3)
    assert widths_of(template_of_widths(widths)) == list(widths)


def test_worked_example():
    assert paths_of(template_of_widths((2, 3), choices=2)) == {(), (0,), (1,), (0, 0), (0, 1), (1, 0)}


@given(st.integers(0, 400))
def test_scaled_template(budget: int):
    template = scaled_template(RECYCLE_WIDTHS, budget)
    paths = paths_of(template)
    assert len(template) - 1 == budget == len(paths) - 1
    assert all(path[:-1] in paths for path in paths if path)
    assert all((*path[:-1], path[-1] - 1) in paths for path in paths if path and path[-1])
    assert template.rank.max() < CHOICES
    assert len(template.levels) <= len(RECYCLE_WIDTHS)
    full = paths_of(template_of_widths(RECYCLE_WIDTHS))
    assert paths <= full if budget <= 80 else full <= paths


def test_scaled_templates_are_nested():
    sizes = [paths_of(scaled_template(RECYCLE_WIDTHS, budget)) for budget in range(0, 200, 7)]
    assert all(a <= b for a, b in pairwise(sizes))


@given(st.integers(0, 120), st.integers(0, 8))
def test_cut(budget: int, depth: int):
    template = scaled_template(RECYCLE_WIDTHS, budget)
    cut = template.cut(depth)
    assert paths_of(cut) == {path for path in paths_of(template) if len(path) <= depth}


@pytest.mark.parametrize("budget", [0, 1, 17, 80])
def test_inner_nodes_are_the_parents_depth_by_depth(budget: int):
    template = scaled_template(RECYCLE_WIDTHS, budget)
    depth = depths(template.parent).tolist()
    parents = sorted(set(template.parent[1:].tolist()))
    shapes, first, at_depth, row = template.drawing
    assert np.flatnonzero(first >= 0).tolist() == parents
    assert [at_depth[p] for p in parents] == [depth[p] for p in parents]
    start, below = template.shape
    children = [below[begin:end].tolist() for begin, end in pairwise(start.tolist())]
    assert [node for node, found in enumerate(children) if found] == parents
    assert all(template.parent[child] == node for node, found in enumerate(children) for child in found)
    begin = 0
    for at, (places, most) in enumerate(shapes):
        drawing = [p for p in parents if depth[p] == at]
        assert (len(drawing), max(len(children[p]) for p in drawing)) == (places, most)
        assert first[drawing].tolist() == [begin + most * place for place in range(places)]
        begin += places * most
    assert len(shapes) == len(template.levels)
    assert row.tolist() == [at for at, (places, most) in enumerate(shapes) for _ in range(places * most)]


@given(st.data())
def test_tree_leaves_out_what_has_no_token(data: st.DataObject):
    template = scaled_template(RECYCLE_WIDTHS, data.draw(st.integers(0, 60)))
    missing = data.draw(st.sets(st.integers(1, max(1, len(template) - 1))))
    token = np.arange(len(template), dtype=np.int32)
    token[[node for node in missing if node < len(template)]] = -1
    tree = template.tree(token, np.full(len(template), -1.0, np.float32), Source.RETRIEVAL)
    expected = [n for n in range(len(template)) if all(token[m] >= 0 for m in path_to(template.parent, n))]
    assert tree.token.tolist() == expected
    for node in range(len(tree)):
        whole = path_to(template.parent, int(tree.token[node]))
        assert tree.token[path_to(tree.parent, node)].tolist() == whole
    assert (tree.source[1:] == Source.RETRIEVAL).all()


def test_unordered_template_is_refused():
    with pytest.raises(ValueError, match="ordered by depth"):
        Template(np.array([-1, 0, 1, 0]), np.array([0, 0, 0, 1]))


def test_rank_weights_fall():
    weights = [rank_logprob(rank) for rank in range(8)]
    assert weights[0] == pytest.approx(-np.log(DEPTH_COST))
    assert weights == sorted(weights, reverse=True)
    assert (depths(np.array([-1, 0])) == [0, 1]).all()


def expected_accepted(template: Template, acceptance: list[float]) -> float:
    """Sequoia's objective: the sum over the nodes of the product of their paths' entries."""
    return sum(float(np.prod([acceptance[rank] for rank in path])) for path in paths_of(template) if path)


@cache
def best_by_dynamic_program(acceptance: tuple[float, ...], budget: int, depth: int) -> float:
    """Sequoia, section 3.1: the best subtree below a node with `budget` nodes, child by child.

    `with_rest(k, n)` shares n nodes among the children from the k-th on; the k-th has to be there for the next.
    """

    @cache
    def with_rest(rank: int, nodes: int) -> float:
        if nodes == 0 or rank == len(acceptance) or depth == 0:
            return 0.0
        return max(
            acceptance[rank] * (1 + best_by_dynamic_program(acceptance, own - 1, depth - 1))
            + with_rest(rank + 1, nodes - own)
            for own in range(1, nodes + 1)
        )

    return with_rest(0, budget)


falling = st.lists(st.integers(0, 20), min_size=1, max_size=4).map(
    lambda shares: tuple(sorted((share / 20 for share in shares), reverse=True))
)


@settings(deadline=None)
@given(falling, st.integers(0, 12), st.integers(0, 5))
def test_the_likeliest_template_is_sequoias_optimum(acceptance: tuple[float, ...], budget: int, depth: int):
    template = likeliest_template(acceptance, budget, depth)
    assert len(template) - 1 <= budget
    assert len(template.levels) <= depth
    paths = paths_of(template)
    assert all(path[:-1] in paths and (path[-1] == 0 or (*path[:-1], path[-1] - 1) in paths) for path in paths if path)
    best = best_by_dynamic_program(acceptance, budget, depth)
    assert expected_accepted(template, list(acceptance)) == pytest.approx(best)


def test_the_likeliest_template_of_the_docstring():
    assert paths_of(likeliest_template([0.6, 0.3], 3, 9)) == {(), (0,), (0, 0), (1,)}
    assert paths_of(likeliest_template([1.0, 0.1], 4, 9)) == {(), (0,), (0, 0), (0, 0, 0), (0, 0, 0, 0)}
    with pytest.raises(ValueError, match="must not exceed"):
        likeliest_template([0.3, 0.4], 3, 9)

"""Layouts: ids, positions and masks against a direct reading of what each node may see."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.layout import Layout, chain_layout, tree_layout
from decoding.tree import ancestors, depths
from decoding.tree_mask import TreeMask
from decoding.types import Source, Tree

CPU = torch.device("cpu")
WINDOWS = (None, 4, 9)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    parent = [-1] + [draw(st.integers(0, node)) for node in range(draw(st.integers(0, 14)))]
    count = len(parent)
    source = [Source.ROOT] + [Source.DRAFT] * (count - 1)
    return Tree(np.arange(count) + 30, np.array(parent), np.zeros(count), np.array(source))


def expected_mask(tree: Tree, past: int, window: int | None) -> torch.Tensor:
    depth, above = depths(tree.parent), ancestors(tree.parent)
    mask = torch.full((len(tree), past + len(tree)), float("-inf"))
    for node in range(len(tree)):
        position = past + depth[node]
        places = [(column, column) for column in range(past)]
        places += [(past + other, past + depth[other]) for other in range(len(tree)) if above[node, other]]
        for column, place in places:
            if window is None or place > position - window:
                mask[node, column] = 0.0
    return mask


def assert_layout(layout: Layout, tree: Tree, past: int) -> None:
    assert layout.input_ids.tolist() == [tree.token.tolist()]
    assert layout.position_ids.tolist() == [(past + depths(tree.parent)).tolist()]
    if layout.masks is None:
        assert len(tree) == 1
        return
    assert set(layout.masks) == set(WINDOWS)
    for window, mask in layout.masks.items():
        assert torch.equal(mask[0, 0], expected_mask(tree, past, window)), window


@given(st.lists(st.tuples(trees(), st.integers(0, 3)), min_size=1, max_size=5), st.integers(0, 8))
@settings(max_examples=60, deadline=None)
def test_the_trees_of_a_run_leave_nothing_behind_in_the_mask(rounds: list[tuple[Tree, int]], past: int) -> None:
    mask = TreeMask(15, 8 + 15 + 15, torch.float32, CPU)
    for tree, committed in rounds:
        assert_layout(tree_layout(tree, past, WINDOWS, mask), tree, past)
        past += committed


@pytest.mark.parametrize("past", [0, 3])
def test_a_chain_of_text_is_a_tree_without_branches(past: int) -> None:
    count = 6
    tree = Tree(np.arange(count), np.arange(count) - 1, np.zeros(count), np.array([0] + [1] * (count - 1)))
    layout = chain_layout(tree.token, past, WINDOWS, CPU, torch.float32)
    assert_layout(layout, tree, past)
    whole = chain_layout(tree.token, past, (None,), CPU, torch.float32)
    assert (whole.masks is None) == (past == 0), "plain causal attention where nothing stands before the chain"


def test_the_mask_refuses_what_it_has_no_room_for() -> None:
    mask = TreeMask(2, 8, torch.float32, CPU)
    with pytest.raises(ValueError, match="no room for 3 nodes"):
        mask.write(torch.zeros(0, dtype=torch.int64), 3, 0)
    mask.write(torch.zeros(0, dtype=torch.int64), 2, 5)
    with pytest.raises(ValueError, match="behind 4"):
        mask.write(torch.zeros(0, dtype=torch.int64), 2, 4)

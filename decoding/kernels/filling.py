"""A sampled tree out of what was drawn for the places of a template."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled
from decoding.types import Floats, Ints

Numbers = NDArray[np.int64]


class Growing(NamedTuple):
    """A tree in the making; only the first of each are there yet."""

    token: Ints
    parent: Ints
    logprob: Floats
    """`[nodes]` as in `types.Tree`."""
    place: Numbers
    """`[nodes]` of the template."""
    drawn: Ints
    """`[draws]` the node that each draw gave, as in `draws.Draws`."""
    size: Numbers
    """`[2]` nodes and draws so far."""


class Shape(NamedTuple):
    """The children of every place of a template."""

    start: Numbers
    """`[places + 1]` where each place's own begin in `below`."""
    below: Numbers
    """`[places - 1]`."""


@compiled
def _add_children(growing: Growing, shape: Shape, node: int, token: Ints, logprob: Floats) -> None:
    """Adds what was drawn below a node: `token` and `logprob` `[most]` in the order of the draws, -1 where nothing was
    left. A token that is drawn twice makes one node, which fills the place of its first draw."""
    first, place = growing.size[0], growing.place[node]
    begin = shape.start[place]
    for rank in range(min(shape.start[place + 1] - begin, len(token))):
        wanted = token[rank]
        if wanted < 0:
            break
        child = first
        while child < growing.size[0] and growing.token[child] != wanted:
            child += 1
        growing.drawn[growing.size[1]] = child
        growing.size[1] += 1
        if child == growing.size[0]:
            growing.size[0] += 1
            growing.token[child], growing.parent[child], growing.logprob[child] = wanted, node, logprob[rank]
            growing.place[child] = shape.below[begin + rank]


@compiled
def fill_level(growing: Growing, shape: Shape, node: Numbers, token: Ints, logprob: Floats) -> None:
    """Adds what was drawn, `token` and `logprob` `[level, most]`, below the nodes `node` `[level]` of one depth."""
    for i in range(len(node)):
        _add_children(growing, shape, node[i], token[i], logprob[i])


@compiled
def fill_tree(growing: Growing, shape: Shape, first: Numbers, token: Ints, logprob: Floats) -> None:
    """Adds all that was drawn, `token` and `logprob` `[draws]`, depth by depth: those below the place p of the template
    stand from `first[p]` on. Nothing was drawn there where that is below 0, or behind the last."""
    node = 0
    while node < growing.size[0]:
        place = growing.place[node]
        begin = first[place]
        if 0 <= begin < len(token):
            end = begin + shape.start[place + 1] - shape.start[place]
            _add_children(growing, shape, node, token[begin:end], logprob[begin:end])
        node += 1

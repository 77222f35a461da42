"""A sampled tree out of what was drawn for the places of a template, one depth at a time."""

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
def fill_level(
    growing: Growing, shape: Shape, node: Numbers, place: Numbers, token: Ints, logprob: Floats, following: Numbers
) -> int:
    """Adds what was drawn below the nodes `node` `[level]`, which fill the places `place` `[level]`.

    `token` and `logprob` `[level, most]` are the draws in their order, -1 where nothing was left. A token that is
    drawn twice below one node makes one node, which fills the place of its first draw. Writes nodes and places of the
    next level that have places below them to `following` `[2, places]` and returns how many these are.
    """
    count = 0
    for i in range(len(node)):
        first, begin = growing.size[0], shape.start[place[i]]
        for rank in range(min(shape.start[place[i] + 1] - begin, token.shape[1])):
            wanted = token[i, rank]
            if wanted < 0:
                break
            child = first
            while child < growing.size[0] and growing.token[child] != wanted:
                child += 1
            growing.drawn[growing.size[1]] = child
            growing.size[1] += 1
            if child < growing.size[0]:
                continue
            growing.size[0] += 1
            growing.token[child] = wanted
            growing.parent[child] = node[i]
            growing.logprob[child] = logprob[i, rank]
            below = shape.below[begin + rank]
            if shape.start[below] < shape.start[below + 1]:
                following[0, count] = child
                following[1, count] = below
                count += 1
    return count

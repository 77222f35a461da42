"""DDTree, Algorithm 1: the most probable prefixes, popped from a heap one at a time."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled
from decoding.types import Floats, Ints


class Prefixes(NamedTuple):
    """Prefixes in pop order, each field `[prefixes]`; the first b of them are the answer for a budget of b."""

    parent: Ints
    """Place of the parent in this very order, -1 for prefixes of length one; always smaller than the own place."""
    position: Ints
    """Position of the last token, from 0: the length of the prefix minus one."""
    rank: Ints
    """Rank of the last token at its position, from 0."""
    score: NDArray[np.float64]
    """Log-probability (nats) of the whole prefix: its float32 entries added up in float64, the first one first."""


@compiled
def pop_prefixes(logprob: Floats, budget: int) -> Prefixes:
    """At most `budget` prefixes in pop order; the rows of `logprob` `[positions, k]` descend.

    A prefix becomes a candidate when the one it follows is popped: its previous sibling, or for a first child its
    parent. Both come before it even on ties (the sibling has a smaller rank, the parent is shorter, and neither has
    a lower score), so the pops keep the order of `_precedes` throughout.

    A pop makes at most two candidates. Their parents are places among the popped, and so is all of `done`.
    """
    room = 2 * budget + 1
    offered = Prefixes(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room))
    done = Prefixes(
        np.empty(budget, np.int32), np.empty(budget, np.int32), np.empty(budget, np.int32), np.empty(budget)
    )
    heap = np.empty(room, np.int32)  # the candidates that wait, as indices into `offered`
    made = _offer(logprob, -1, 0, 0, 0.0, heap, 0, 0, offered, done) if budget > 0 else 0
    count = 0
    while count < min(made, budget):
        best = heap[0]
        parent, position, rank = offered.parent[best], offered.position[best], offered.rank[best]
        score = offered.score[best]
        done.parent[count], done.position[count], done.rank[count], done.score[count] = parent, position, rank, score
        _sink(heap, made - count - 1, heap[made - count - 1], offered, done)
        count += 1
        above = done.score[parent] if parent >= 0 else 0.0
        made = _offer(logprob, parent, position, rank + 1, above, heap, made - count, made, offered, done)
        made = _offer(logprob, count - 1, position + 1, 0, score, heap, made - count, made, offered, done)
    return Prefixes(done.parent[:count], done.position[:count], done.rank[:count], done.score[:count])


@compiled
def _offer(
    logprob: Floats,
    parent: int,
    position: int,
    rank: int,
    above: float,
    heap: Ints,
    waiting: int,
    made: int,
    offered: Prefixes,
    done: Prefixes,
) -> int:
    """Puts a candidate whose parent scores `above` into the heap, if it is possible; returns how many were made."""
    if position >= logprob.shape[0] or rank >= logprob.shape[1]:
        return made
    # A log-probability above zero can only be rounding, and would put a child before its parent.
    score = above + min(np.float64(logprob[position, rank]), 0.0)
    if not score > -np.inf:
        return made
    offered.parent[made], offered.position[made], offered.rank[made], offered.score[made] = (
        parent,
        position,
        rank,
        score,
    )
    place = waiting
    while place > 0:
        up = (place - 1) // 2
        if not _precedes(made, heap[up], offered, done):
            break
        heap[place] = heap[up]
        place = up
    heap[place] = made
    return made + 1


@compiled
def _sink(heap: Ints, size: int, moved: int, offered: Prefixes, done: Prefixes) -> None:
    """Lets the candidate `moved` take the first place of a heap of `size`, and sink to where it belongs."""
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _precedes(heap[below + 1], heap[below], offered, done):
            below += 1
        if not _precedes(heap[below], moved, offered, done):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = moved


@compiled
def _precedes(one: int, other: int, offered: Prefixes, done: Prefixes) -> bool:
    """Whether candidate `one` is popped before the `other`.

    The higher score first, then the shorter, then the smaller rank from the last position back: of equal scores,
    ranks (5, 0) come before (0, 1).
    """
    if offered.score[one] != offered.score[other]:
        return offered.score[one] > offered.score[other]
    if offered.position[one] != offered.position[other]:
        return offered.position[one] < offered.position[other]
    rank, other_rank = offered.rank[one], offered.rank[other]
    up, other_up = offered.parent[one], offered.parent[other]
    while rank == other_rank and up != other_up:
        rank, other_rank = done.rank[up], done.rank[other_up]
        up, other_up = done.parent[up], done.parent[other_up]
    return rank < other_rank

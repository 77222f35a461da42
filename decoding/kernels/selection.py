"""DDTree, Algorithm 1: the most probable prefixes, popped from a heap one at a time."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled, inlined
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


class Heap(NamedTuple):
    """Candidates that wait, the next one first: entry i precedes entries 2i + 1 and 2i + 2."""

    score: NDArray[np.float64]
    candidate: Ints
    """Index of the candidate, in the order in which they were made."""


@compiled
def pop_prefixes(logprob: Floats, budget: int) -> Prefixes:
    """At most `budget` prefixes in pop order; the rows of `logprob` `[positions, k]` descend.

    A prefix becomes a candidate when the one it follows is popped: its previous sibling, or for a first child its
    parent. Both come before it even on ties (the sibling has a smaller rank, the parent is shorter, and neither has
    a lower score), so the pops keep the order of `_tie` throughout.

    A pop makes at most two candidates. `way` `[candidates, 3]` holds their parent (a place among the popped),
    position and rank, and `popped` the candidate of every pop.
    """
    room = 2 * budget + 2
    heap = Heap(np.empty(room, np.float64), np.empty(room, np.int32))
    way, popped = np.empty((room, 3), np.int32), np.empty(budget, np.int32)
    answer = Prefixes(
        np.empty(budget, np.int32), np.empty(budget, np.int32), np.empty(budget, np.int32), np.empty(budget, np.float64)
    )
    count, made, waiting = 0, 0, 0
    if budget > 0 and logprob.size > 0 and logprob[0, 0] > -np.inf:
        way[0, 0], way[0, 1], way[0, 2] = -1, 0, 0
        rise(heap, 0, extended(0.0, logprob[0, 0]), 0, way, popped)
        made = waiting = 1
    while waiting > 0 and count < budget:
        score, best = heap.score[0], heap.candidate[0]
        parent, position, rank = way[best, 0], way[best, 1], way[best, 2]
        popped[count] = best
        answer.parent[count], answer.position[count], answer.rank[count] = parent, position, rank
        answer.score[count] = score
        if rank + 1 < logprob.shape[1] and logprob[position, rank + 1] > -np.inf:
            above = answer.score[parent] if parent >= 0 else 0.0
            way[made, 0], way[made, 1], way[made, 2] = parent, position, rank + 1
            sink(heap, waiting, extended(above, logprob[position, rank + 1]), made, way, popped)
            made += 1
        else:
            waiting -= 1
            sink(heap, waiting, heap.score[waiting], heap.candidate[waiting], way, popped)
        if position + 1 < logprob.shape[0] and logprob[position + 1, 0] > -np.inf:
            way[made, 0], way[made, 1], way[made, 2] = count, position + 1, 0
            rise(heap, waiting, extended(score, logprob[position + 1, 0]), made, way, popped)
            made += 1
            waiting += 1
        count += 1
    return Prefixes(answer.parent[:count], answer.position[:count], answer.rank[:count], answer.score[:count])


@inlined
def extended(above: float, logprob: float) -> float:
    """A log-probability above zero can only be rounding, and would put a child before its parent."""
    return above + min(np.float64(logprob), 0.0)


@compiled
def rise(heap: Heap, place: int, score: float, candidate: int, way: Ints, popped: Ints) -> None:
    """Puts a candidate at the end, `place`, of the heap and lets it rise to where it belongs."""
    while place > 0:
        up = (place - 1) // 2
        if heap.score[up] > score or (heap.score[up] == score and _tie(heap.candidate[up], candidate, way, popped)):
            break
        heap.score[place], heap.candidate[place] = heap.score[up], heap.candidate[up]
        place = up
    heap.score[place], heap.candidate[place] = score, candidate


@compiled
def sink(heap: Heap, size: int, score: float, candidate: int, way: Ints, popped: Ints) -> None:
    """Puts a candidate into the first place of a heap of `size` and lets it sink to where it belongs."""
    place, below = 0, 1
    while below < size:
        if below + 1 < size:
            left, right = heap.score[below], heap.score[below + 1]
            if right > left or (right == left and _tie(heap.candidate[below + 1], heap.candidate[below], way, popped)):
                below += 1
        best = heap.score[below]
        if score > best or (score == best and _tie(candidate, heap.candidate[below], way, popped)):
            break
        heap.score[place], heap.candidate[place] = best, heap.candidate[below]
        place, below = below, 2 * below + 1
    heap.score[place], heap.candidate[place] = score, candidate


@compiled
def _tie(one: int, other: int, way: Ints, popped: Ints) -> bool:
    """Whether candidate `one` comes before the `other`, which has the same score.

    The shorter first, then the smaller rank from the last position back: ranks (5, 0) come before (0, 1).
    """
    if way[one, 1] != way[other, 1]:
        return way[one, 1] < way[other, 1]
    while way[one, 2] == way[other, 2] and way[one, 0] != way[other, 0]:
        one, other = popped[way[one, 0]], popped[way[other, 0]]
    return way[one, 2] < way[other, 2]

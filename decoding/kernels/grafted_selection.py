"""Best-first selection over drafted candidates, retrieved successors and a copied chain together; its special case is
DDTree's. Where the drafter has a sequential head, what it thinks of a node's children depends on the path to it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled, inlined
from decoding.kernels.beliefs import Beliefs, falls, new_beliefs, next_likely, think, thought_below
from decoding.kernels.hit_counts import band_of, rank_among
from decoding.kernels.lending import lent
from decoding.kernels.prices import Prices, acceptance_chance, pays_no_more
from decoding.kernels.selection import Heap, extended, rise, sink
from decoding.kernels.sequel import Sequel
from decoding.types import Floats, Ints, Source

NONE = -1


class Drafted(NamedTuple):
    """What the drafter says of the positions after the root, as in `Marginals`."""

    token: Ints
    """`[positions, k]`, best first."""
    logprob: Floats
    """`[positions, k]`, falling."""
    sequel: Sequel
    """What changes that from node to node; `NO_SEQUEL` where nothing does."""


class Weights(NamedTuple):
    """Log-weights (nats, at most 0) of the edges below a node whose row is known."""

    retrieved: Floats
    """`[2 * bands + 2, choices]` of a retrieved token by its rank in the row: a line for each band at the first
    position, one for each band at later positions, one beyond the drafted positions, and one where nothing is drafted
    at all."""
    floor: Floats
    """`[bands]` the least log-probability under the drafter of every band, rising; the first is -inf."""
    drafted: Floats
    """`[bands]` what is added to the log-probability of a drafted token that the row does not hold; never falling, so
    that the drafted tokens of a position keep their order."""


class Copied(NamedTuple):
    """A chain below the root that is copied from elsewhere in the text."""

    token: Ints
    """`[length]`, from the root down; empty where there is none."""
    weight: Floats
    """`[length]` the least log-weight (nats, at most 0) of the edge to each of them from the one before."""


class Plan(NamedTuple):
    """Nodes in pop order, each field `[nodes]`; the first b of them are the answer for a budget of b."""

    parent: Ints
    """Place of the parent in this very order, -1 below the root; always smaller than the own place."""
    depth: Ints
    """0 below the root: the position whose marginals speak of the node."""
    token: Ints
    draft_rank: Ints
    """Rank among the marginal candidates of the position, from 0; -1 for what is only retrieved: the token is none of
    them, or too unlikely to be called drafted (the first band)."""
    row_rank: Ints
    """Rank in the row of the parent's token, from 0; -1 where the row does not hold the token."""
    copied: Ints
    """How many tokens of the copied chain the path from the root is; 0 where it is none of it."""
    score: NDArray[np.float64]
    """Log-weight (nats) of the path from the root: its edges added up, the first one first."""
    believed: Floats
    """`[nodes, kept]` what the sequential head says of the likeliest candidates below every node, log-probabilities
    (nats) in the order of the marginals; no rows for what it was not asked about (without a head: nothing), and NaN
    first where it knows nothing."""


class _Given(NamedTuple):
    """What a plan is made of."""

    drafted: Drafted
    successors: Ints
    copied: Copied
    weights: Weights
    beliefs: Beliefs


class _Above(NamedTuple):
    """A node of the plan, or the root, as its children see it."""

    place: int
    """-1 for the root."""
    token: int
    depth: int
    """Of the children."""
    score: float
    along: int
    """How many tokens of the copied chain the path to it is."""
    over: int
    """The place of its own parent."""


class _Pool(NamedTuple):
    """Candidates, numbered as they are made; only some of them wait in the heap."""

    heap: Heap
    way: Ints
    """`[candidates, 3]` parent (a place in the plan), depth, and what decides among equals: the drafted rank, or k plus
    the rank in the row."""
    what: Ints
    """`[candidates, 3]` token, drafted rank, rank in the row."""
    score: NDArray[np.float64]
    """`[candidates]`."""
    popped: Ints
    """`[nodes]` the candidate of every pop."""
    size: Ints
    """How many were made, and how many wait."""


@compiled
def pop_plan(
    root: int,
    drafted: Drafted,
    successors: Ints,
    copied: Copied,
    weights: Weights,
    budget: int,
    max_depth: int,
    prices: Prices,
) -> Plan:
    """At most `budget` nodes below the token `root`, none deeper than `max_depth` levels, in pop order; no more of them
    once none can pay by the `prices`, if there are any.

    The children of a node are the drafted candidates of its position, the entries of its token's row
    `successors[token]` (`[vocab, choices]`, -1 where there is none) and, along the copied chain, its next token; what
    is several of these is one child, and a copied one weighs at least what the chain says. A popped node puts the
    best of its retrieved children, the best of those that are only drafted and the copied one into the heap; each of
    the first two makes way for the next of its kind when it is popped. No edge weighs more than 1, so nothing that is
    still to come outweighs what is popped: every first b nodes are the heaviest b.
    """
    room = (budget + 1) * (successors.shape[1] + 3)
    pool = _Pool(
        Heap(np.empty(room, np.float64), np.empty(room, np.int32)),
        np.empty((room, 3), np.int32),
        np.empty((room, 3), np.int32),
        np.empty(room, np.float64),
        np.empty(budget, np.int32),
        np.zeros(2, np.int32),
    )
    numbers, scores = np.empty((6, budget), np.int32), np.empty(budget, np.float64)
    beliefs = new_beliefs(drafted.token, drafted.logprob, drafted.sequel, budget)
    given = _Given(drafted, successors, copied, weights, beliefs)
    count = _pop(root, given, pool, max_depth, prices, numbers, scores)
    plan, believed = numbers[:, :count], beliefs.believed
    return Plan(
        plan[0], plan[1], plan[2], plan[3], plan[4], plan[5], scores[:count], believed[: min(count, len(believed))]
    )


@compiled
def _pop(
    root: int,
    owned: _Given,
    owned_pool: _Pool,
    max_depth: int,
    owned_prices: Prices,
    numbers: Ints,
    scores: NDArray[np.float64],
) -> int:
    """Writes the fields of a `Plan` to `numbers` `[6, budget]` and `scores` `[budget]`; returns how many nodes."""
    given, pool, prices, numbers, scores = (
        lent(owned),
        lent(owned_pool),
        lent(owned_prices),
        lent(numbers),
        lent(scores),
    )
    copied, budget = given.copied, len(scores)
    top = _Above(NONE, np.int64(root), 0, 0.0, 0, NONE)
    newest, count, heap, size = top, 0, pool.heap, pool.size
    priced, tokens = len(prices.milliseconds) > 0, 1.0
    rate = tokens / prices.milliseconds[0] if priced else 0.0
    while count < budget:
        if newest.depth < max_depth:
            _offer_children(newest, given, pool)
        if size[1] == 0:
            break
        best, score = heap.candidate[0], heap.score[0]
        if priced:
            if pays_no_more(prices, count, rate, score):
                break
            tokens += acceptance_chance(score, prices.share)
            rate = max(rate, tokens / prices.milliseconds[count + 1])
        parent, depth = pool.way[best, 0], pool.way[best, 1]
        token, draft_rank, row_rank = pool.what[best, 0], pool.what[best, 1], pool.what[best, 2]
        numbers[0, count], numbers[1, count], numbers[2, count] = parent, depth, token
        numbers[3, count], numbers[4, count], scores[count] = draft_rank, row_rank, score
        pool.popped[count] = best
        size[1] -= 1
        sink(heap, size[1], heap.score[size[1]], heap.candidate[size[1]], pool.way, pool.popped)
        above = top if parent == NONE else _above(parent, numbers, scores)
        is_copied = token == _following(above, copied)
        numbers[5, count] = depth + 1 if is_copied else 0
        if row_rank == NONE and not is_copied:
            _offer_drafted(above, draft_rank, given, pool)
        elif (
            row_rank != NONE
            and best + 1 < size[0]
            and pool.way[best + 1, 0] == parent
            and pool.what[best + 1, 2] != NONE
        ):
            _wait(pool, best + 1)
        newest = _above(count, numbers, scores)
        count += 1
    return count


@compiled
def edges_of(plan: Plan, most: int, root: int, logprob: Floats) -> tuple[Ints, Ints, Floats, NDArray[np.uint8]]:
    """Token, parent, log-probability under the drafter (nats) and source `[nodes]`, as those of a `Tree`, of the
    `root` and at most the first `most` nodes of a plan over the marginals `logprob` `[positions, k]`."""
    count = min(most, len(plan.token))
    token, parent = np.empty(count + 1, np.int32), np.empty(count + 1, np.int32)
    said, source = np.empty(count + 1, np.float32), np.empty(count + 1, np.uint8)
    token[0], parent[0], said[0], source[0] = root, -1, 0.0, Source.ROOT
    for place in range(count):
        node, above, rank = place + 1, plan.parent[place], plan.draft_rank[place]
        token[node], parent[node] = plan.token[place], above + 1
        source[node] = Source.RETRIEVAL if rank == NONE else Source.DRAFT
        if rank == NONE:
            said[node] = np.nan
        elif 0 <= above < len(plan.believed):
            said[node] = plan.believed[above, rank]
        else:
            said[node] = logprob[plan.depth[place], rank]
    return token, parent, said, source


@inlined
def _above(place: int, numbers: Ints, scores: NDArray[np.float64]) -> _Above:
    """A node of the plan, whose `numbers` are the fields of `Plan` in their order."""
    depth, token, along = numbers[1, place] + 1, numbers[2, place], numbers[5, place]
    over = np.int64(numbers[0, place])
    return _Above(np.int64(place), np.int64(token), np.int64(depth), scores[place], np.int64(along), over)


@inlined
def _following(above: _Above, copied: Copied) -> int:
    """The copied token among the children of a node; -1: none."""
    return copied.token[above.depth] if above.along == above.depth < len(copied.token) else NONE


@inlined
def _offer_children(above: _Above, given: _Given, pool: _Pool) -> None:
    """Makes candidates of a node's children, and lets the first of each kind wait."""
    think(given.beliefs, above.place, above.over, above.depth, above.token)
    _offer_retrieved(above, given, pool)
    _offer_drafted(above, NONE, given, pool)
    _offer_copied(above, given, pool)


@inlined
def _offer_retrieved(above: _Above, given: _Given, pool: _Pool) -> None:
    """Makes candidates of all successors, heaviest first, and lets the first one wait; what is copied, too, weighs at
    least what the chain says."""
    drafted, successors, copied, weights, _ = given
    depth, following = above.depth, _following(above, copied)
    width = drafted.token.shape[1]
    first = pool.size[0]
    made = first
    for rank in range(successors.shape[1]):
        successor = successors[above.token, rank]
        if successor < 0:
            break
        draft_rank, band = _ranked(above, given, successor)
        line = 2 * len(weights.floor) + (1 if len(drafted.token) == 0 else 0)
        if band != NONE:
            line = band if depth == 0 else len(weights.floor) + band
        order = draft_rank if draft_rank != NONE else width + rank
        edge = np.float64(weights.retrieved[line, rank])
        if successor == following:
            edge = max(edge, np.float64(copied.weight[depth]))
        total = extended(above.score, edge)
        if total == -np.inf:
            continue
        spot = made
        while spot > first and (
            pool.score[spot - 1] < total or (pool.score[spot - 1] == total and pool.way[spot - 1, 2] > order)
        ):
            pool.score[spot] = pool.score[spot - 1]
            for column in range(3):
                pool.way[spot, column] = pool.way[spot - 1, column]
                pool.what[spot, column] = pool.what[spot - 1, column]
            spot -= 1
        pool.score[spot] = total
        pool.way[spot, 0], pool.way[spot, 1], pool.way[spot, 2] = above.place, depth, order
        pool.what[spot, 0], pool.what[spot, 1], pool.what[spot, 2] = successor, draft_rank, rank
        made += 1
    pool.size[0] = made
    if made > first:
        _wait(pool, first)


@inlined
def _offer_drafted(above: _Above, last: int, given: _Given, pool: _Pool) -> None:
    """Makes a candidate of the likeliest drafted token behind that of rank `last` which the row does not hold and which
    is not copied."""
    drafted, successors, copied, weights, beliefs = given
    depth, following = above.depth, _following(above, copied)
    if depth >= len(drafted.token):
        return
    known, thought, falling = (
        _has_row(above, successors),
        thought_below(beliefs, above.place, depth),
        falls(beliefs, above.place),
    )
    width = len(thought)
    rank = next_likely(thought, last, falling)
    while rank < width and (
        drafted.token[depth, rank] == following
        or (known and _holds(successors, above.token, drafted.token[depth, rank]))
    ):
        rank = next_likely(thought, rank, falling)
    if rank < width and thought[rank] > -np.inf:
        edge = _drafted_edge(thought[rank], weights, known)
        _add(pool, above, rank, drafted.token[depth, rank], rank, edge)


@inlined
def _offer_copied(above: _Above, given: _Given, pool: _Pool) -> None:
    """Makes a candidate of the copied child, where there is one that the row does not hold."""
    drafted, successors, copied, weights, beliefs = given
    depth, following = above.depth, _following(above, copied)
    if following == NONE or _holds(successors, above.token, following):
        return
    draft_rank, _ = _ranked(above, given, following)
    edge, order = np.float64(copied.weight[depth]), drafted.token.shape[1] + successors.shape[1]
    if draft_rank != NONE:
        thought = thought_below(beliefs, above.place, depth)[draft_rank]
        edge = max(edge, _drafted_edge(thought, weights, _has_row(above, successors)))
        order = draft_rank
    if edge > -np.inf:
        _add(pool, above, order, following, draft_rank, edge)


@inlined
def _drafted_edge(logprob: float, weights: Weights, known: bool) -> float:
    """Log-weight of a token that the row, where one is `known`, does not hold."""
    edge = np.float64(logprob)
    if known:
        edge += weights.drafted[band_of(logprob, weights.floor)]
    return edge


@inlined
def _add(pool: _Pool, above: _Above, order: int, token: int, draft_rank: int, edge: float) -> None:
    """A candidate that no row holds, which waits from now on."""
    made = pool.size[0]
    pool.score[made] = extended(above.score, edge)
    pool.way[made, 0], pool.way[made, 1], pool.way[made, 2] = above.place, above.depth, order
    pool.what[made, 0], pool.what[made, 1], pool.what[made, 2] = token, draft_rank, NONE
    pool.size[0] = made + 1
    _wait(pool, made)


@inlined
def _wait(pool: _Pool, candidate: int) -> None:
    rise(pool.heap, pool.size[1], pool.score[candidate], candidate, pool.way, pool.popped)
    pool.size[1] += 1


@inlined
def _has_row(above: _Above, successors: Ints) -> bool:
    return successors.shape[1] > 0 and successors[above.token, 0] >= 0


@inlined
def _holds(successors: Ints, over: int, token: int) -> bool:
    found = False
    for rank in range(successors.shape[1]):
        found = found or successors[over, rank] == token
    return found


@inlined
def _ranked(above: _Above, given: _Given, token: int) -> tuple[int, int]:
    """The drafted rank of `token` below a node, -1 where it is too unlikely to be called drafted, and its band, -1
    beyond the drafted positions."""
    drafted, depth = given.drafted, above.depth
    if depth >= drafted.token.shape[0]:
        return NONE, NONE
    rank, thought = rank_among(drafted.token[depth], token), thought_below(given.beliefs, above.place, depth)
    band = 0 if rank == NONE or rank >= len(thought) else band_of(thought[rank], given.weights.floor)
    return (NONE if band == 0 else rank), band

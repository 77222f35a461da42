"""Draws from rows of probabilities, with and without replacement."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled
from decoding.kernels.crew import Marks, finish, take
from decoding.kernels.pieces import Doubles, can_hold, passing, piece_sums, room_for_sums
from decoding.types import Floats, Ints

Tokens = NDArray[np.int64]


@compiled
def draw_independent(probs: Floats | Doubles, uniform: Doubles) -> Tokens:
    """Tokens `[rows, count]` at which the running sums of `probs` `[rows, vocab]` pass the part `uniform`
    `[rows, count]`, from [0, 1), of all. `probs` may be one row for all. No token of probability 0 is drawn.
    """
    rows = len(uniform)
    drawn, mass = np.empty(uniform.shape, np.int64), room_for_sums(1, probs.shape[1])[0]
    for line in range(len(probs)):
        first, behind = (0, rows) if len(probs) == 1 else (line, line + 1)
        piece_sums(probs[line], mass)
        _draw_independent(probs[line], mass, uniform[first:behind], drawn[first:behind])
    return drawn


@compiled
def _draw_independent(probs: Floats | Doubles, mass: Doubles, uniform: Doubles, drawn: Tokens) -> None:
    """Writes to `drawn` `[times, count]` what is drawn from one row of which the sums are known."""
    for row in range(len(uniform)):
        for place in range(uniform.shape[1]):
            drawn[row, place], _ = passing(probs, mass, _at(uniform[row, place], mass[-1]))


@compiled
def draw_distinct(probs: Floats, uniform: Doubles, least_left: float) -> Tokens:
    """Different tokens `[rows, count]` for numbers `uniform` `[rows, count]` in [0, 1), drawn one after the other from
    what the earlier ones have left of a row of `probs` `[rows, vocab]`, renormalised; -1 where nothing is left. `probs`
    may be one row for all.

    Where `count - 1` draws can leave less than the part `least_left` of a row, its sums are made anew for every draw.
    """
    rows = len(uniform)
    drawn, mass = np.empty(uniform.shape, np.int64), room_for_sums(1, probs.shape[1])[0]
    for line in range(len(probs)):
        first, behind = (0, rows) if len(probs) == 1 else (line, line + 1)
        piece_sums(probs[line], mass)
        _draw_distinct(probs[line], mass, uniform[first:behind], least_left, drawn[first:behind])
    return drawn


@compiled
def _draw_distinct(probs: Floats, mass: Doubles, uniform: Doubles, least_left: float, drawn: Tokens) -> None:
    """Writes to `drawn` `[times, count]` what is drawn from one row of which the sums are known."""
    bound = (1.0 - least_left) * mass[-1]
    crowded = bound > 0.0 and can_hold(probs, mass, uniform.shape[1] - 1, bound)
    for row in range(len(uniform)):
        if crowded:
            _draw_from_the_rest(probs, uniform[row], drawn[row])
        else:
            _draw_around_gaps(probs, mass, uniform[row], drawn[row])


class Wanted(NamedTuple):
    """How many draws are wanted of some rows of probabilities."""

    probs: Floats
    """`[rows, vocab]`."""
    mass: Doubles
    """`[rows, pieces]` their sums (see `pieces`), if these `are_known`; else room for them."""
    are_known: bool
    counts: Tokens
    """`[drawn rows, 2]` (n, count) asks for `count` tokens n times; nothing is drawn from the rows behind."""
    uniform: Doubles
    """`[draws]`, from [0, 1)."""
    distinct: bool
    least_left: float
    """As in `draw_distinct`."""
    marks: Marks


@compiled
def draw_each(wanted: Wanted, drawn: Tokens, thread: int) -> None:
    """Writes to `drawn` `[draws]` what a call of `draw_distinct` or `draw_independent` for each row would give. Every
    thread of a crew calls it with the same arguments but its number."""
    rows, own = len(wanted.counts), 0
    start = np.zeros(rows + 1, np.int64)
    for row in range(rows):
        start[row + 1] = start[row] + wanted.counts[row, 0] * wanted.counts[row, 1]
    while True:
        row = take(wanted.marks, 0, rows, thread)
        if row == rows:
            break
        own += 1
        probs, mass, shape = wanted.probs[row], wanted.mass[row], (wanted.counts[row, 0], wanted.counts[row, 1])
        if not wanted.are_known:
            piece_sums(probs, mass)
        begin, end = start[row], start[row + 1]
        numbers, found = wanted.uniform[begin:end].reshape(shape), drawn[begin:end].reshape(shape)
        if wanted.distinct:
            _draw_distinct(probs, mass, numbers, wanted.least_left, found)
        else:
            _draw_independent(probs, mass, numbers, found)
    finish(wanted.marks, 0, rows, own)


NO_IDS = np.empty(0, np.int32)


@compiled
def tell_draws(drawn: Tokens, row: Tokens, logits: Floats, normaliser: Floats, ids: Ints) -> tuple[Ints, Floats]:
    """Tokens and their log-probabilities `[draws]` (nats, 0 at most) of the columns `drawn` from the rows `row`
    `[draws]` of `logits` `[rows, vocab]`, whose exponentials add up to that of `normaliser` `[rows]`; -1 stays -1, with
    any log-probability. The columns stand for the tokens `ids` `[vocab]`, or for themselves if there are none."""
    token, logprob = np.empty(len(drawn), np.int32), np.zeros(len(drawn), np.float32)
    for place in range(len(drawn)):
        column = drawn[place]
        token[place] = column
        if column >= 0:
            token[place] = ids[column] if len(ids) > 0 else column
            logprob[place] = min(logits[row[place], column] - normaliser[row[place]], np.float32(0.0))
    return token, logprob


@compiled
def _sums(weights: Floats | Doubles, mass: Doubles) -> float:
    """Writes the running sums of the weights to `mass` and returns the last one."""
    total = np.float64(0.0)
    for token in range(len(weights)):
        total += weights[token]
        mass[token] = total
    return total


@compiled
def _at(number: float, total: float) -> float:
    """A point of [0, total); rounding must not bring it up to the end, where a search would run off."""
    return min(number * total, np.nextafter(total, 0.0))


@compiled
def _draw_from_the_rest(probs: Floats, uniform: Doubles, drawn: Tokens) -> None:
    """Sums what is left anew for every draw: exact however little that is."""
    left, mass = probs.astype(np.float64), np.empty(len(probs), np.float64)
    for place in range(len(uniform)):
        total = _sums(left, mass)
        if total > 0.0:
            token = int(np.searchsorted(mass, _at(uniform[place], total), side="right"))
            drawn[place], left[token] = token, 0.0
        else:
            drawn[place] = -1


@compiled
def _draw_around_gaps(probs: Floats, mass: Doubles, uniform: Doubles, drawn: Tokens) -> None:
    """Steps over what was drawn: with masses .5 .3 .2 and the second token drawn, a point of [0, .7) is taken for one
    of the row without [.5, .8): .4 stays .4, in the first token; .6 becomes .9, in the third."""
    count = len(uniform)
    start, end = np.empty(count, np.float64), np.empty(count, np.float64)  # of the gaps, rising
    left = mass[-1]
    for place in range(count):
        point = _at(uniform[place], left)
        for gap in range(place):
            if point >= start[gap]:
                point = max(point + (end[gap] - start[gap]), end[gap])  # no rounding may leave it inside
        token, before = passing(probs, mass, point)
        drawn[place] = token
        after = before + probs[token]
        gap = place
        while gap > 0 and start[gap - 1] > before:
            start[gap], end[gap] = start[gap - 1], end[gap - 1]
            gap -= 1
        start[gap], end[gap] = before, after
        left -= after - before

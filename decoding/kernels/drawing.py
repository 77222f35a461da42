"""Draws from rows of probabilities, with and without replacement."""

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled, compiled_with
from decoding.types import Floats

Doubles = NDArray[np.float64]
Tokens = NDArray[np.int64]
PIECE = 1024
"""A draw looks for its piece of a row first, then for its token in the piece."""


@compiled
def draw_independent(probs: Floats | Doubles, uniform: Doubles) -> Tokens:
    """Tokens `[rows, count]` at which the running sums of `probs` `[rows, vocab]` pass the part `uniform`
    `[rows, count]`, from [0, 1), of all. `probs` may be one row for all. No token of probability 0 is drawn.
    """
    rows, count = uniform.shape
    drawn = np.empty((rows, count), np.int64)
    mass = np.empty((probs.shape[1] + PIECE - 1) // PIECE, np.float64)
    for row in range(rows):
        line = row if len(probs) > 1 else 0
        if row == line:
            _piece_sums(probs[line], mass)
        for place in range(count):
            drawn[row, place] = _passing(probs[line], mass, _at(uniform[row, place], mass[-1]))
    return drawn


@compiled
def _piece_sums(weights: Floats | Doubles, mass: Doubles) -> None:
    """Writes the running sums of the weights at the end of every piece."""
    total = 0.0
    for piece in range(len(mass)):
        total += _sum(weights[piece * PIECE : (piece + 1) * PIECE])
        mass[piece] = total


@compiled_with({"reassoc"})
def _sum(weights: Floats | Doubles) -> float:
    total = 0.0
    for weight in weights:
        total += weight
    return total


@compiled
def _passing(weights: Floats | Doubles, mass: Doubles, point: float) -> int:
    """The token with which the running sum passes `point`; rounding must not lead beyond its piece."""
    piece = int(np.searchsorted(mass, point, side="right"))
    total = mass[piece - 1] if piece > 0 else 0.0
    last = -1
    for token in range(piece * PIECE, min((piece + 1) * PIECE, len(weights))):
        if weights[token] > 0.0:
            total += weights[token]
            last = token
            if total > point:
                break
    return last


@compiled
def draw_distinct(probs: Floats, uniform: Doubles, least_left: float) -> Tokens:
    """Different tokens `[rows, count]` for numbers `uniform` `[rows, count]` in [0, 1), drawn one after the other from
    what the earlier ones have left of a row of `probs` `[rows, vocab]`, renormalised; -1 where nothing is left. `probs`
    may be one row for all.

    Where `count - 1` draws can leave less than the part `least_left` of a row, its sums are made anew for every draw.
    """
    rows, count = uniform.shape
    drawn = np.empty((rows, count), np.int64)
    mass = np.empty(probs.shape[1], np.float64)
    for line in range(len(probs)):
        total = _sums(probs[line], mass)
        crowded = _likeliest(probs[line], count - 1) >= (1.0 - least_left) * total
        first, behind = (0, rows) if len(probs) == 1 else (line, line + 1)
        for row in range(first, behind):
            if crowded:
                _draw_from_the_rest(probs[line], uniform[row], mass, drawn[row])
            else:
                _draw_around_gaps(mass, uniform[row], drawn[row])
    return drawn


@compiled
def draw_each(
    probs: Floats, rows: Tokens, counts: Tokens, uniform: Doubles, distinct: bool, least_left: float
) -> Tokens:
    """As `rows[i]` calls of `draw_distinct` or `draw_independent` for `counts[i]` tokens of row i of `probs`, for all i
    one after the other; `uniform` and what is drawn are `[sum of rows[i] * counts[i]]`."""
    drawn = np.empty(len(uniform), np.int64)
    start = 0
    for line in range(len(rows)):
        end = start + rows[line] * counts[line]
        numbers = uniform[start:end].reshape(rows[line], counts[line])
        own = probs[line : line + 1]
        found = draw_distinct(own, numbers, least_left) if distinct else draw_independent(own, numbers)
        drawn[start:end] = found.reshape(end - start)
        start = end
    return drawn


@compiled
def _sums(weights: Floats | Doubles, mass: Doubles) -> float:
    """Writes the running sums of the weights to `mass` and returns the last one."""
    total = np.float64(0.0)
    for token in range(len(weights)):
        total += weights[token]
        mass[token] = total
    return total


@compiled
def _likeliest(probs: Floats, count: int) -> float:
    """The sum of the `count` largest."""
    best = np.zeros(count + 1, np.float64)  # the last place is for the one that falls out
    for token in range(len(probs)):
        if probs[token] > best[count - 1]:
            place = count
            while place > 0 and best[place - 1] < probs[token]:
                best[place] = best[place - 1]
                place -= 1
            best[place] = probs[token]
    return best[:count].sum()


@compiled
def _at(number: float, total: float) -> float:
    """A point of [0, total); rounding must not bring it up to the end, where a search would run off."""
    return min(number * total, np.nextafter(total, 0.0))


@compiled
def _draw_from_the_rest(probs: Floats, uniform: Doubles, mass: Doubles, drawn: Tokens) -> None:
    """Sums what is left anew for every draw: exact however little that is."""
    left = probs.astype(np.float64)
    for place in range(len(uniform)):
        total = _sums(left, mass)
        if total > 0.0:
            token = int(np.searchsorted(mass, _at(uniform[place], total), side="right"))
            drawn[place], left[token] = token, 0.0
        else:
            drawn[place] = -1
    _sums(probs, mass)


@compiled
def _draw_around_gaps(mass: Doubles, uniform: Doubles, drawn: Tokens) -> None:
    """Steps over what was drawn: with masses .5 .3 .2 and the second token drawn, a point of [0, .7) is taken for one
    of the row without [.5, .8): .4 stays .4, in the first token; .6 becomes .9, in the third."""
    count, last = len(uniform), len(mass) - 1
    start, end = np.empty(count, np.float64), np.empty(count, np.float64)  # of the gaps, rising
    left = mass[last]
    for place in range(count):
        point = _at(uniform[place], left)
        for gap in range(place):
            if point >= start[gap]:
                point = max(point + (end[gap] - start[gap]), end[gap])  # no rounding may leave it inside
        token = min(int(np.searchsorted(mass, point, side="right")), last)
        drawn[place] = token
        before = mass[token - 1] if token > 0 else 0.0
        gap = place
        while gap > 0 and start[gap - 1] > before:
            start[gap], end[gap] = start[gap - 1], end[gap - 1]
            gap -= 1
        start[gap], end[gap] = before, mass[token]
        left -= mass[token] - before

"""Draws without replacement from rows of probabilities."""

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled
from decoding.types import Floats

Doubles = NDArray[np.float64]
Tokens = NDArray[np.int64]


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

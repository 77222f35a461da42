"""Running sums of a row of weights, piece by piece: a draw looks for its piece first, then for its token in it."""

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled, compiled_with
from decoding.types import Floats

Doubles = NDArray[np.float64]
PIECE = 128


@compiled
def room_for_sums(rows: int, vocab: int) -> Doubles:
    """`[rows, pieces]` for the sums of rows of so many weights."""
    return np.empty((rows, (vocab + PIECE - 1) // PIECE), np.float64)


@compiled
def piece_sums(weights: Floats | Doubles, mass: Doubles) -> None:
    """Writes the running sums of `weights` `[vocab]` at the end of every piece to `mass` `[pieces]`."""
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
def passing(weights: Floats | Doubles, mass: Doubles, point: float) -> tuple[int, float]:
    """The token with which the running sum passes `point`, and the sum before it; the last that weighs anything where
    rounding leads beyond the end. Rounding may also lead beyond the piece in which it is looked for."""
    last, before = -1, 0.0
    for piece in range(int(np.searchsorted(mass, point, side="right")), len(mass)):
        total = mass[piece - 1] if piece > 0 else 0.0
        for token in range(piece * PIECE, min((piece + 1) * PIECE, len(weights))):
            if weights[token] > 0.0:
                last, before = token, total
                total += weights[token]
                if total > point:
                    return last, before
    return last, before


@compiled
def can_hold(weights: Floats, mass: Doubles, count: int, bound: float) -> bool:
    """Whether the `count` largest add up to `bound`, above 0. Pieces that cannot hold one of these are not looked at:
    where other threads made them, they lie in those threads' caches."""
    heaviest, before = 0.0, 0.0
    for total in mass:
        heaviest, before = max(heaviest, total - before), total
    return count * heaviest >= bound and _likeliest(weights, mass, count) >= bound


@compiled
def _likeliest(weights: Floats, mass: Doubles, count: int) -> float:
    """The sum of the `count` largest, one at least."""
    best = np.zeros(count + 1, np.float64)  # the last place is for the one that falls out
    before, slack = 0.0, 1e-12 * mass[-1]
    for piece in range(len(mass)):
        weight, before = mass[piece] - before, mass[piece]
        if weight + slack < best[count - 1]:
            continue
        for token in range(piece * PIECE, min((piece + 1) * PIECE, len(weights))):
            if weights[token] > best[count - 1]:
                place = count
                while place > 0 and best[place - 1] < weights[token]:
                    best[place] = best[place - 1]
                    place -= 1
                best[place] = weights[token]
    return best[:count].sum()

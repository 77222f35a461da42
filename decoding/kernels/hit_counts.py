"""Counting what retrieved and drafted tokens turned out to be worth."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled
from decoding.types import Floats, Ints

Counts64 = NDArray[np.float64]


class Counts(NamedTuple):
    """Decaying counts, changed in place."""

    hits: Counts64
    trials: Counts64
    """`[2 * bands + 2, choices]` of the entries of rows, by band and rank: as `grafted_selection.Weights.retrieved`."""
    drafted_hits: Counts64
    drafted_mass: Counts64
    """`[bands]` of drafted tokens that the row does not hold: right ones, and the drafter's mass on them."""


@compiled
def band_of(weight: float, floor: Floats | Counts64) -> int:
    """The last of the bands `floor` `[bands]`, whose least weights rise, that a token of this weight is in; chances, or
    their logarithms."""
    band = 0
    while band + 1 < len(floor) and weight >= floor[band + 1]:
        band += 1
    return band


@compiled
def chance_of(wanted: int, token: Ints, logprob: Floats) -> float:
    """The probability of a token under one position's candidates; 0 where it is none of them."""
    for place in range(len(token)):
        if token[place] == wanted:
            return np.exp(np.float64(logprob[place]))
    return 0.0


@compiled
def count_trial(
    counts: Counts,
    row: Ints,
    position: int,
    said: int,
    token: Ints,
    logprob: Floats,
    beside_draft: bool,
    floor: Counts64,
    memory: float,
) -> None:
    """Counts every entry of a `row` `[choices]` (-1 for none), and what the drafter thought beside it at that position:
    candidates `token` and `logprob` `[k]`, none beyond the drafted positions. The target `said` a token. An empty row
    says nothing. Every entry counts among those without a draft, too, and only there where it was not `beside_draft`.

    `memory` is how many trials make an old one count 1/e.
    """
    if row.max() < 0:
        return
    bands, drafted = len(floor), len(token) > 0
    if drafted:
        _count_drafted(counts, row, said, token, logprob, floor, memory)
    keep = np.exp(-1.0 / memory)
    for rank in range(len(row)):
        if row[rank] < 0:
            continue
        hit = 1.0 if row[rank] == said else 0.0
        _count(counts, 2 * bands + 1, rank, hit, keep)
        if drafted:
            band = band_of(chance_of(row[rank], token, logprob), floor)
            _count(counts, band if position == 0 else bands + band, rank, hit, keep)
        elif beside_draft:
            _count(counts, 2 * bands, rank, hit, keep)


@compiled
def _count(counts: Counts, line: int, rank: int, hit: float, keep: float) -> None:
    counts.hits[line, rank] = keep * counts.hits[line, rank] + hit
    counts.trials[line, rank] = keep * counts.trials[line, rank] + 1.0


@compiled
def _count_drafted(
    counts: Counts, row: Ints, said: int, token: Ints, logprob: Floats, floor: Counts64, memory: float
) -> None:
    mass, right = np.zeros(len(floor)), np.zeros(len(floor))
    for place in range(len(token)):
        held = False
        for rank in range(len(row)):
            held |= row[rank] == token[place]
        if not held:
            chance = np.exp(np.float64(logprob[place]))
            band = band_of(chance, floor)
            mass[band] += chance
            right[band] += 1.0 if token[place] == said else 0.0
    for band in range(len(floor)):
        keep = np.exp(-mass[band] / memory)
        counts.drafted_hits[band] = keep * counts.drafted_hits[band] + right[band]
        counts.drafted_mass[band] = keep * counts.drafted_mass[band] + mass[band]


@compiled
def bands_along(chain: Ints, token: Ints, logprob: Floats, floor: Counts64, bands: NDArray[np.int64]) -> None:
    """Writes the band of every token of a chain `[length]` at its own position; what lies beyond the positions of
    `token` and `logprob` `[positions, k]` is left as it is."""
    for place in range(min(len(chain), len(token))):
        bands[place] = band_of(chance_of(chain[place], token[place], logprob[place]), floor)

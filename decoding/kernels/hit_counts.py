"""Counting what retrieved and drafted tokens turned out to be worth."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled, inlined
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


@inlined
def rank_among(held: Ints, wanted: int) -> int:
    """The place of a token among different ones, `held` `[any]`; -1 where it is none of them. All are looked at, and
    places added up: that compiles to vector instructions, and is quicker than to sort them by token."""
    token, behind = np.int32(wanted), np.int32(0)
    for place in range(len(held)):
        behind += np.int32(place + 1) if held[place] == token else np.int32(0)
    return behind - 1


class Heard(NamedTuple):
    """What was known of the places after accepted nodes, and what the target said there."""

    path: Ints
    """`[accepted nodes]` from the root down, as places of `row`."""
    said: Ints
    """`[accepted nodes]` the token that the target said next; one fewer where the text ends with the last node."""
    row: Ints
    """`[nodes, choices]` the row of every node's token as it was when the round was planned; -1 where it has no further
    entry."""
    token: Ints
    logprob: Floats
    """`[positions, k]` what is drafted, as in `Marginals`; no positions without a draft."""
    believed: Floats
    """`[nodes asked about, kept]` as in `grafted_selection.Plan`: below all nodes but the root."""


@compiled
def count_hits(counts: Counts, heard: Heard, floor: Counts64, memory: float) -> None:
    """Counts every entry of the row of each accepted node, and what the drafter thought beside it, where it was asked
    about the node. An empty row says nothing. Every entry counts among those without a draft, too, and only there where
    nothing was drafted.

    `floor` `[bands]` is the least probability in each band; `memory` is how many trials make an old one count 1/e.
    """
    for depth in range(min(len(heard.path), len(heard.said))):
        row = heard.row[heard.path[depth]]
        if len(row) > 0 and row[0] >= 0 and _was_asked(heard, depth):
            _count_row(counts, row, heard, depth, floor, np.exp(-1.0 / memory))
            if depth < len(heard.token):
                _count_drafted(counts, row, heard, depth, floor, memory)


@compiled
def _own_line(heard: Heard, depth: int) -> int:
    """The line of `believed` below an accepted node; -1 where the drafter thinks what the marginals say."""
    node = heard.path[depth]
    return node - 1 if 0 < node <= len(heard.believed) else -1


@compiled
def _was_asked(heard: Heard, depth: int) -> bool:
    """Whether it is known what the drafter thought below an accepted node; beyond the drafted positions: nothing."""
    line = _own_line(heard, depth)
    return depth >= len(heard.token) or line < 0 or not np.isnan(heard.believed[line, 0])


@compiled
def _candidates(heard: Heard, depth: int) -> int:
    """How many candidates are known below an accepted node, within the drafted positions."""
    return heard.token.shape[1] if _own_line(heard, depth) < 0 else heard.believed.shape[1]


@compiled
def _chance(heard: Heard, depth: int, place: int) -> float:
    """What the drafter thought of a candidate below an accepted node."""
    line = _own_line(heard, depth)
    logprob = heard.logprob[depth, place] if line < 0 else heard.believed[line, place]
    return np.exp(np.float64(logprob))


@compiled
def _count_row(counts: Counts, row: Ints, heard: Heard, depth: int, floor: Counts64, keep: float) -> None:
    bands, drafted = len(floor), depth < len(heard.token)
    for rank in range(len(row)):
        if row[rank] < 0:
            continue
        hit = 1.0 if row[rank] == heard.said[depth] else 0.0
        _count(counts, 2 * bands + 1, rank, hit, keep)
        if drafted:
            place = rank_among(heard.token[depth], row[rank])
            band = band_of(_chance(heard, depth, place), floor) if 0 <= place < _candidates(heard, depth) else 0
            _count(counts, band if depth == 0 else bands + band, rank, hit, keep)
        elif len(heard.token) > 0:
            _count(counts, 2 * bands, rank, hit, keep)


@compiled
def _count(counts: Counts, line: int, rank: int, hit: float, keep: float) -> None:
    counts.hits[line, rank] = keep * counts.hits[line, rank] + hit
    counts.trials[line, rank] = keep * counts.trials[line, rank] + 1.0


@compiled
def _count_drafted(counts: Counts, row: Ints, heard: Heard, depth: int, floor: Counts64, memory: float) -> None:
    mass, right = np.zeros(len(floor)), np.zeros(len(floor))
    for place in range(_candidates(heard, depth)):
        token, held = heard.token[depth, place], False
        for rank in range(len(row)):
            held |= row[rank] == token
        if not held:
            chance = _chance(heard, depth, place)
            band = band_of(chance, floor)
            mass[band] += chance
            right[band] += 1.0 if token == heard.said[depth] else 0.0
    for band in range(len(floor)):
        keep = np.exp(-mass[band] / memory)
        counts.drafted_hits[band] = keep * counts.drafted_hits[band] + right[band]
        counts.drafted_mass[band] = keep * counts.drafted_mass[band] + mass[band]

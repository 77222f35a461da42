"""Counting what copied tokens turned out to be worth."""

from typing import NamedTuple

import numpy as np

from decoding.kernels import compiled
from decoding.kernels.hit_counts import Counts64, Heard, band_of, rank_among
from decoding.types import Floats, Ints


class CopyCounts(NamedTuple):
    """Counts of copied tokens, changed in place, each `[lengths, bands + 2]`: by the length of the match, and by how
    likely the drafter thinks the token, with a column beyond the drafted positions, and one without a draft."""

    hits: Counts64
    trials: Counts64


class Copies(NamedTuple):
    """A copied chain of tokens, and what lies beside it."""

    chain: Ints
    """`[length]`."""
    matched: int
    """Tokens that were the same before the first of them."""
    token: Ints
    logprob: Floats
    """`[positions, k]` what is drafted, as in `Marginals`; no positions without a draft."""
    lengths: Counts64
    """`[lines]` least length of the match in each line of the counts, rising."""
    floor: Counts64
    """`[bands]` least probability in each band."""


@compiled
def weigh_copies(counts: CopyCounts, copies: Copies) -> Floats:
    """`[length]` log-weights (nats) of the tokens of a chain: how often such ones were right."""
    weight = np.empty(len(copies.chain), np.float32)
    for place in range(len(weight)):
        line, column = _line(copies, place), _column(copies, place)
        weight[place] = np.log(counts.hits[line, column] / counts.trials[line, column])
    return weight


@compiled
def count_copies(counts: CopyCounts, copies: Copies, said: Ints) -> None:
    """Counts the tokens of a chain which `said` `[tokens]` speaks of: as far as it agrees, and the first where it does
    not. All count in the column without a draft, too."""
    alone = len(copies.floor) + 1
    for place in range(min(len(copies.chain), len(said))):
        line, column = _line(copies, place), _column(copies, place)
        hit = copies.chain[place] == said[place]
        _count_copy(counts, line, alone, hit)
        if column != alone:
            _count_copy(counts, line, column, hit)
        if not hit:
            break


@compiled
def _line(copies: Copies, place: int) -> int:
    return band_of(copies.matched + place, copies.lengths)


@compiled
def _column(copies: Copies, place: int) -> int:
    bands = len(copies.floor)
    if place < len(copies.token):
        rank = rank_among(copies.token[place], copies.chain[place])
        return band_of(np.exp(np.float64(copies.logprob[place, rank])), copies.floor) if rank >= 0 else 0
    return bands if len(copies.token) > 0 else bands + 1


@compiled
def _count_copy(counts: CopyCounts, line: int, column: int, hit: bool) -> None:
    counts.trials[line, column] += 1.0
    counts.hits[line, column] += 1.0 if hit else 0.0


@compiled
def held_alone(heard: Heard, hit: Counts64, counts: CopyCounts, copies: Copies, least: float) -> int:
    """How many tokens of what the target said after the root a plan without a draft would have held, if that held all
    paths that weigh at least `least`: along the chain, and along the rows of accepted nodes, whose entries are right as
    often as `hit` `[choices]` says."""
    weight, along, alone = 1.0, True, len(copies.floor) + 1
    count = min(len(heard.path), len(heard.said))
    for place in range(count):
        said, edge = heard.said[place], 0.0
        along &= place < len(copies.chain) and copies.chain[place] == said
        if along:
            line = _line(copies, place)
            edge = counts.hits[line, alone] / counts.trials[line, alone]
        row = heard.row[heard.path[place]]
        for rank in range(len(row)):
            if row[rank] == said:
                edge = max(edge, hit[rank])
        weight *= edge
        if weight < least:
            return place
    return count

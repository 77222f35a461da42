"""Compiles the kernels before they are needed."""

import numpy as np

from decoding.kernels.drawing import draw_independent
from decoding.kernels.filling import Growing, Shape, fill_level
from decoding.kernels.grafted_selection import Copied, Drafted, Weights, edges_of, pop_plan
from decoding.kernels.hit_counts import Counts, bands_along, count_trial
from decoding.kernels.linear import linear
from decoding.kernels.prices import NO_PRICES, best_part, chances, count_nodes, least_slopes
from decoding.kernels.rows import candidates, rank_of, soften, sums
from decoding.kernels.selection import pop_prefixes
from decoding.kernels.sequel import NO_SEQUEL
from decoding.kernels.visibility import tree_numbers


def prepare() -> None:
    """Calls every kernel with the sorts of arguments that a round gives it: seconds once, then under a second from
    the cache on disk, and nothing the second time in a process."""
    row, logprob, ids = np.zeros(64, np.float32), np.zeros((2, 2), np.float32), np.array([-1, 0], np.int32)
    for frozen in (logprob, ids):  # as trees and marginals are
        frozen.flags.writeable = False
    candidates(row, 1, np.empty(64, np.float32), np.empty(64, np.int64))
    sums(row, row[0])
    soften(row, 1.0, row.copy())
    for sort in (np.float32, np.float64):  # of the target, and what is left of it in a verifier
        draw_independent(np.ones((1, 8), sort), np.zeros((1, 1)))
    rank_of(row, 0)
    pop_prefixes(logprob, 2)
    tree_numbers(ids, ids, 0, 16)
    token = np.zeros((2, 2), np.int32)
    token.flags.writeable = False
    rates = Weights(np.zeros((4, 8), np.float32), np.zeros(1, np.float32), np.zeros(1, np.float32))
    copied = Copied(np.zeros(1, np.int32), np.zeros(1, np.float32))
    rows = np.full((2, 8), -1, np.int32)
    plan = pop_plan(0, Drafted(token, logprob, NO_SEQUEL), rows, copied, rates, 2, 2, NO_PRICES)
    edges_of(plan, 1, 0, logprob)
    numbers = np.ones(2)
    best_part(chances(numbers, numbers), least_slopes(np.ones(3)))
    count_nodes(numbers, numbers, numbers, np.zeros(1, np.int32))
    counts = Counts(np.ones((6, 8)), np.ones((6, 8)), np.ones(2), np.ones(2))
    count_trial(counts, np.zeros(8, np.int32), 0, 0, token[0], logprob[0].copy(), True, np.zeros(2), 1.0)
    bands_along(np.zeros(1, np.int32), token, logprob, np.zeros(2), np.zeros(1, np.int64))
    places, numbers = np.zeros(1, np.int64), np.zeros(2, np.int32)
    growing = Growing(numbers, numbers, np.zeros(2, np.float32), numbers, np.array([1, 0]))
    drawn = np.full((1, 1), -1, np.int32), np.zeros((1, 1), np.float32)
    fill_level(growing, Shape(np.array([0, 0]), places), places, places, *drawn, np.zeros((2, 1), np.int64))
    linear(logprob, logprob.copy())

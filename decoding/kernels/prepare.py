"""Compiles the kernels before they are needed."""

import numpy as np

from decoding.kernels.copy_counts import Copies, CopyCounts, count_copies, held_alone, weigh_copies
from decoding.kernels.drawing import NO_IDS, draw_independent, tell_draws
from decoding.kernels.filling import Growing, Shape, fill_level, fill_tree
from decoding.kernels.grafted_selection import Copied, Drafted, Weights, edges_of, pop_plan
from decoding.kernels.hit_counts import Counts, Heard, count_hits
from decoding.kernels.kinship import by_parent, child_with_token
from decoding.kernels.linear import linear
from decoding.kernels.matrix import write_rows
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
    one = np.zeros(1, np.int64)
    tell_draws(one, one, logprob.copy(), row, NO_IDS)
    rank_of(row, 0)
    pop_prefixes(logprob, 2)
    tree_numbers(ids, ids, 0, 16)
    by_parent(ids)
    child_with_token(ids, ids, 0, 1)
    token = np.zeros((2, 2), np.int32)
    token.flags.writeable = False
    rates = Weights(np.zeros((4, 8), np.float32), np.zeros(1, np.float32), np.zeros(1, np.float32))
    copied = Copied(np.zeros(1, np.int32), np.zeros(1, np.float32))
    rows = np.full((2, 8), -1, np.int32)
    plan = pop_plan(0, Drafted(token, logprob, NO_SEQUEL), rows, copied, rates, 2, 2, NO_PRICES)
    edges_of(plan, 1, 0, logprob)
    numbers = np.ones(2)
    best_part(chances(numbers, numbers), least_slopes(np.ones(3)))
    count_nodes(numbers, numbers, numbers, np.zeros(1, np.int32), 1.0)
    counts = Counts(np.ones((6, 8)), np.ones((6, 8)), np.ones(2), np.ones(2))
    heard = Heard(ids[1:], np.zeros(1, np.int32), rows, token, logprob, plan.believed)
    count_hits(counts, heard, np.zeros(2), 1.0)
    copies = Copies(np.zeros(1, np.int32), 2, token, logprob, np.ones(1), np.zeros(2))
    copy_counts = CopyCounts(np.ones((1, 4)), np.ones((1, 4)))
    weigh_copies(copy_counts, copies)
    count_copies(copy_counts, copies, np.zeros(1, np.int32))
    held_alone(heard, np.ones(8), copy_counts, copies, 1.0)
    for seen, following in ((ids[1:], token[1:]), (np.zeros(1, np.int32), np.zeros((1, 2), np.int32))):
        write_rows(rows, seen, following)  # of a round, and of a prompt
    places, numbers = np.zeros(1, np.int64), np.zeros(2, np.int32)
    growing = Growing(numbers, numbers, np.zeros(2, np.float32), np.zeros(2, np.int64), numbers, np.array([1, 0]))
    drawn, said = np.full((1, 1), -1, np.int32), np.zeros((1, 1), np.float32)
    fill_level(growing, Shape(np.array([0, 0]), places), places, drawn, said)
    fill_tree(growing, Shape(np.array([0, 0]), places), places, drawn[0], said[0])
    linear(logprob, logprob.copy())

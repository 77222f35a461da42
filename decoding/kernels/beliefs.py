"""What a drafter thinks of the candidates below each node of a plan: of its position, or of just this node where the
drafter has a sequential head."""

from typing import NamedTuple

import numpy as np

from decoding.kernels import compiled
from decoding.kernels.sequel import Sequel, corrected, look_ahead, take_step
from decoding.types import Floats, Ints

ROOT = -1
LIKELIEST = 24
"""Candidates of a position that a sequential head is asked about."""
ASKED = 256
"""Nodes of a plan, the heaviest ones, whose children it is asked about; those of the others are the position's."""


class Beliefs(NamedTuple):
    """Log-probabilities (nats), in the order of the marginals; nodes are places in the plan, `ROOT` the root."""

    token: Ints
    """`[positions, k]` the candidates of every position."""
    marginal: Floats
    """`[positions, k]` what is thought of them whatever stands before."""
    believed: Floats
    """`[asked, likeliest]` what is thought of the likeliest of them below each node; NaN first where nobody asked."""
    sequel: Sequel
    steps: Floats
    """`[asked + 1, width]` of the sequential head, the root's first."""
    ahead: Floats
    """`[positions, width]` of the same."""


@compiled
def new_beliefs(token: Ints, logprob: Floats, sequel: Sequel, budget: int) -> Beliefs:
    """Before the first question, for a plan of at most `budget` nodes over marginals `[positions, k]`."""
    ahead = look_ahead(sequel)
    asked = min(budget, ASKED) if len(ahead) > 0 else 0
    believed = np.full((asked, min(token.shape[1], LIKELIEST)), np.nan, np.float32)
    steps = np.empty((asked + 1, ahead.shape[1]), np.float32)
    # A copy: marginals cannot be written on, which makes them another type than what is believed.
    return Beliefs(token, logprob.copy(), believed, sequel, steps, ahead)


@compiled
def falls(beliefs: Beliefs, node: int) -> bool:
    """Whether what is thought of a node's candidates is their marginals, which fall: the drafter has read the root, and
    of the lightest nodes nobody asks."""
    return node == ROOT or node >= len(beliefs.believed)


@compiled
def thought_below(beliefs: Beliefs, node: int, depth: int) -> Floats:
    """What is thought of the candidates below a node, which stand at `depth`: of all, or of the likeliest."""
    return beliefs.marginal[depth] if falls(beliefs, node) else beliefs.believed[node]


@compiled
def think(beliefs: Beliefs, node: int, parent: int, depth: int, token: int) -> None:
    """Asks the sequential head, where there is one, of the children of a node that stands below `parent` and holds
    `token`; they stand at `depth`. Its parent was asked about before."""
    believed, steps = beliefs.believed, beliefs.steps
    if len(believed) == 0 or node >= len(believed) or depth >= len(beliefs.token):
        return
    before = steps[parent + 1, : 0 if node == ROOT else steps.shape[1]]
    take_step(beliefs.sequel, beliefs.ahead[depth], token, before, steps[node + 1])
    if node != ROOT:
        corrected(beliefs.sequel, steps[node + 1], beliefs.token[depth], beliefs.marginal[depth], believed[node])


@compiled
def next_likely(thought: Floats, last: int, falling: bool) -> int:
    """The rank of the likeliest candidate behind that of rank `last` (-1: of all), the lower rank first among equals;
    the number of candidates where none is left. They may be known to be in falling order."""
    width = len(thought)
    if falling:
        return last + 1
    best = width
    for rank in range(width):
        behind = last < 0 or thought[rank] < thought[last] or (thought[rank] == thought[last] and rank > last)
        if behind and (best == width or thought[rank] > thought[best]):
            best = rank
    return best

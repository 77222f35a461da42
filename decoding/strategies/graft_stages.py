"""Graft's pruning stages: where the draft may end, what it keeps, and the template that fills the rest (Table 7).

A stage s splits the budget K_max = K_draft + K_ret (Equation 8). The paper states the splits for 60 nodes: pruned at
d0 the draft keeps 8 of them, at d1 24, at d5 40. Other budgets are split in the same proportion (rounded half up, one
drafted node at least), and each stage's template is cut down or grown by the one rule of `template.scaled_template`.
With a budget of 30: 4 + 26, 12 + 18 and 20 + 10.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from decoding.template import Template, scaled_template
from decoding.types import Ints

PAPER_BUDGET = 60
FULL_ENVELOPE = (8, 16, 14, 11, 8, 7, 6, 5, 5)
"""The paper's design template of 80 nodes. No stage uses more of it than d0's 52."""


@dataclass(frozen=True)
class Stage:
    """A checkpoint of the draft. Depth d is judged when the nodes at depth d + 1 of the tree are there: d0 is the
    root's own step (Algorithm 2, line 2), d1 the first expansion after it."""

    name: str
    depth: int
    draft_nodes: int
    """Drafted nodes kept of `PAPER_BUDGET`."""
    widths: tuple[int, ...]
    """Retrieved nodes at depths 1, 2, ... of the tree."""


STAGES = (
    Stage("d0", 0, 8, (8, 10, 8, 6, 5, 4, 4, 4, 3)),
    Stage("d1", 1, 24, (6, 7, 5, 4, 4, 3, 3, 2, 2)),
    Stage("d5", 5, 40, (4, 3, 3, 2, 2, 2, 2, 1, 1)),
)
FIXED_SPLIT = STAGES[-1]
"""The split where nothing is pruned but something retrieved: the paper says "a fixed small share" and no number."""


class Split(NamedTuple):
    """A budget divided."""

    draft: int
    retrieval: int


def split(budget: int, stage: Stage) -> Split:
    """The stage's share of `budget` nodes (Equation 8)."""
    draft = max(1, (2 * budget * stage.draft_nodes + PAPER_BUDGET) // (2 * PAPER_BUDGET))
    return Split(draft, budget - draft)


def retrieval_template(budget: int, stage: Stage, max_depth: int) -> Template:
    """The stage's template for `budget` nodes in all, cut at `max_depth`; the same object for the same shape."""
    return _template(budget, stage, min(max_depth, len(stage.widths)))


@lru_cache(maxsize=128)
def _template(budget: int, stage: Stage, depth: int) -> Template:
    return scaled_template(stage.widths, split(budget, stage).retrieval).cut(depth)


def envelope(budget: int, max_depth: int) -> Template:
    """What is looked up while the draft grows: the template of the first stage, which holds those of the others."""
    return retrieval_template(budget, STAGES[0], max_depth)


def places_in_envelope(budget: int, stage: Stage, max_depth: int) -> Ints:
    """Where the nodes of the stage's template stand in the envelope."""
    return _places(budget, stage, min(max_depth, len(stage.widths)))


@lru_cache(maxsize=128)
def _places(budget: int, stage: Stage, depth: int) -> Ints:
    return retrieval_template(budget, stage, depth).places_in(envelope(budget, depth))

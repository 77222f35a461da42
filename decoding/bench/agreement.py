"""How often a drafter's best tokens are the target's, by position of the draft, on the target's own text.

Drafts begin at every `stride`-th token of the text (the root, with all before it observed) and are judged against the
tokens that follow there, as far as the text goes.

- A one-pass drafter: position i of its marginals against the i-th token after the root. Nothing between root and
  position is given to it, so this is the agreement of the marginals.
- A stepwise drafter: depth by depth along the text's own tokens. Its proposals at depth i are those below the true
  tokens 1 to i - 1, so this is the agreement given that the path so far was accepted.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoding.bench.position_marginals import PositionMarginals
from decoding.drafters.base import StepwiseDrafter
from decoding.replay import Recording, require_replayable
from decoding.types import Ints

WIDTH = 5
"""The wider of the two agreements: among the best five."""


class Agreement:
    """Counts by position; undefined where nothing was judged."""

    def __init__(self, positions: int) -> None:
        self._judged = np.zeros(positions, np.int64)
        self._first = np.zeros(positions, np.int64)
        self._among = np.zeros(positions, np.int64)

    def add(self, position: int, proposed: Ints, actual: int) -> None:
        """`proposed`: up to `WIDTH` tokens for `position` (from 0), best first; -1 is no token."""
        self._judged[position] += 1
        self._first[position] += len(proposed) > 0 and int(proposed[0]) == actual
        self._among[position] += actual in proposed[:WIDTH].tolist()

    def result(self) -> dict[str, Any]:
        """Shares by position (the first is the token after the root), and how many drafts were judged there."""
        return {
            "top1": _shares(self._first, self._judged),
            f"top{WIDTH}": _shares(self._among, self._judged),
            "judged": self._judged.tolist(),
        }


def _shares(part: NDArray[np.int64], whole: NDArray[np.int64]) -> list[float | None]:
    return [a / b if b else None for a, b in zip(part.tolist(), whole.tolist(), strict=True)]


def judge_marginals(agreement: Agreement, table: PositionMarginals, recording: Recording, stride: int) -> None:
    """Adds the drafts of a one-pass drafter."""
    output = recording.output_ids
    for place in range(0, len(table.rows), stride):
        coming = output[place + 1 : place + 1 + table.positions]
        for position, actual in enumerate(coming):
            agreement.add(position, table.rows[place].token[position, :WIDTH], actual)


def judge_steps(agreement: Agreement, drafter: StepwiseDrafter, recording: Recording, depth: int, stride: int) -> None:
    """Adds the drafts of a stepwise drafter, each `depth` steps along the text."""
    require_replayable(drafter)
    prompt, output = len(recording.prompt_ids), recording.output_ids
    drafter.begin(prompt + len(output) + depth)
    try:
        drafter.observe(recording.observation(0, prompt, drafter))
        for place in range(0, len(output) - 1, stride):
            coming = output[place + 1 : place + 1 + depth]
            for position, proposed in enumerate(_along(drafter, output[place], coming)):
                agreement.add(position, proposed, coming[position])
            here, there = prompt + place, prompt + min(place + stride, len(output) - 1)
            drafter.observe(recording.observation(here, there, drafter))
    finally:
        drafter.end()


def _along(drafter: StepwiseDrafter, root: int, coming: tuple[int, ...]) -> Iterator[Ints]:
    """What is proposed at each token of `coming`, the tokens before it given."""
    yield drafter.start(root, WIDTH).token[0]
    for node, token in enumerate(coming[:-1]):
        yield drafter.expand(np.array([token], np.int32), np.array([node], np.int32), WIDTH).token[0]

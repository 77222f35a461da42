"""What followed the longest suffix of the text where it stood before, as a chain of a plan (after SAM-Decoding,
arXiv 2411.10666), and how often such a copy is what the target says next.

A trial is kept apart by how long the match is by then, its copied tokens counted, and by how likely the drafter thinks
the copied token: what was worth nothing after one word is hardly ever wrong after twenty.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.drafters.suffix_automaton import Match, ReadText
from decoding.kernels.copy_counts import Copies, CopyCounts, count_copies, held_alone, weigh_copies
from decoding.kernels.grafted_selection import Copied
from decoding.kernels.hit_counts import Heard
from decoding.strategies.hit_rates import BANDS, FLOORS
from decoding.types import Ints, Marginals

LENGTHS = np.array([2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0])
"""Least length of each line of the table. A match of one token says what a row of the transition matrix says, too."""
MOST = 48
"""Tokens of a chain."""
LOOKED_AT = 64
"""Places of the root's token, the latest first, among which the latest match is looked for."""
BEYOND = BANDS
"""The column of what lies beyond the drafted positions; before it are the bands of `hit_rates`, behind it what is not
drafted at all."""
PRIOR = (
    (0.18, 0.30, 0.36, 0.50, 0.54, 0.73, 0.93, 0.54),
    (0.28, 0.55, 0.56, 0.58, 0.62, 0.80, 0.93, 0.62),
    (0.42, 0.68, 0.68, 0.70, 0.76, 0.85, 0.95, 0.68),
    (0.52, 0.70, 0.78, 0.80, 0.80, 0.86, 0.95, 0.74),
    (0.72, 0.76, 0.79, 0.82, 0.86, 0.88, 0.96, 0.82),
    (0.88, 0.88, 0.88, 0.90, 0.92, 0.95, 0.97, 0.89),
    (0.95, 0.95, 0.96, 0.97, 0.98, 0.98, 0.99, 0.96),
)
"""`[lengths, bands + 1]` believed before the first trial, without a draft as `BEYOND`; smoothed from 36 greedy answers
of the default target to training prompts, 160 tokens each, under its block drafter."""
PRIOR_TRIALS = 6.0


class Chain(NamedTuple):
    """Tokens that may follow the root."""

    token: Ints
    """`[length]`; empty where nothing long enough stood before."""
    place: int
    """Where in prompt and output the first of them stands; the others follow it there, up to the root."""
    matched: int
    """Tokens before that place which are the last tokens of the text, the root included."""


NO_CHAIN = Chain(np.empty(0, np.int32), 0, 0)
NO_COPIES = Copied(NO_CHAIN.token, np.empty(0, np.float32))


class CopiedText:
    """Prompt and output up to the root, and the longest suffix that stood there before."""

    def __init__(self, prompt: Sequence[int] = ()) -> None:
        self._text = ReadText()
        self._places: defaultdict[int, list[int]] = defaultdict(list)
        self.read(prompt)

    def read(self, tokens: Sequence[int]) -> None:
        """The text goes on; amortised O(1) a token."""
        for token in tokens:
            self._places[token].append(len(self._text.automaton.text))
            self._text.read(token)

    def chain(self, root: int) -> Chain:
        """`MOST` tokens that followed the longest suffix of the text and `root` where it stood last; a copy that comes
        to the end of the text goes on with its own beginning.

        On the target's own greedy text a copy from there goes 4% further than one from the first place."""
        match, text = self._text.match(root), self._text.automaton.text
        if match.length < LENGTHS[0]:
            return NO_CHAIN
        place = self._latest_end(match, root) + 1
        copied = np.array([*text[place : place + MOST], root], np.int32)
        return Chain(np.resize(copied, MOST), place, match.length)

    def _latest_end(self, match: Match, root: int) -> int:
        """Where the matched words end last; the first time, where they do not among the places that are looked at."""
        text, length = self._text.automaton.text, match.length
        matched = [*text[len(text) - length + 1 :], root]
        for end in islice(reversed(self._places[root]), LOOKED_AT):
            if text[max(end - length + 1, 0) : end + 1] == matched:
                return end
        return self._text.automaton.first_end(match)


class CopyRates:
    """Counts of hits and trials, begun with a prior worth `PRIOR_TRIALS` trials of each kind."""

    def __init__(self) -> None:
        prior = np.array(PRIOR)
        hits = np.column_stack([prior, prior[:, BEYOND]]) * PRIOR_TRIALS
        self._counts = CopyCounts(hits, np.full(hits.shape, PRIOR_TRIALS))

    def weighed(self, chain: Chain, marginals: Marginals) -> Copied:
        """The chain as the planner takes it."""
        if not len(chain.token):
            return NO_COPIES
        return Copied(chain.token, weigh_copies(self._counts, _copies(chain, marginals)))

    def learn(self, chain: Chain, heard: Heard) -> None:
        """Counts the copied tokens that the target had its say on: as far as it agreed, and the first where it did not.
        Whether they were verified does not matter: it is the text that judges."""
        if len(chain.token):
            count_copies(self._counts, _copies(chain, heard), heard.said)

    def held_alone(self, chain: Chain, heard: Heard, hit: NDArray[np.float64], least: float) -> int:
        """As `Rates.held_alone`; `hit` `[8]` says how often the entries of rows are right."""
        return int(held_alone(heard, hit, self._counts, _copies(chain, heard), least))


def _copies(chain: Chain, beside: Marginals | Heard) -> Copies:
    return Copies(chain.token, chain.matched, beside.token, beside.logprob, LENGTHS, FLOORS)

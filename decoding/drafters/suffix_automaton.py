"""The suffix automaton of a growing text (SAM-Decoding, arXiv 2411.10666, section 3; Blumer et al., 1985).

Its states are the classes of substrings that end at the same places of the text. Each holds the length of its longest
substring, a link to the class of the longest suffix that ends at more places, and the first place where it ends.
"""

from typing import NamedTuple


class Match(NamedTuple):
    """The last `length` tokens that were read are a substring of the class `state`."""

    state: int
    length: int


NO_MATCH = Match(0, 0)


class SuffixAutomaton:
    """Online: a token costs amortised O(1), and `advance` follows the longest suffix of what was read, also O(1).

    Plain dictionaries: the work is a handful of look-ups a token, which a compiled loop would not make faster.
    """

    def __init__(self) -> None:
        self.text: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._first_end = [-1]
        self._last = 0

    def __len__(self) -> int:
        """States, at most 2n - 1 for n tokens."""
        return len(self._next)

    def extend(self, token: int) -> None:
        """Appends a token to the text."""
        place = len(self.text)
        self.text.append(token)
        new = self._state({}, self._length[self._last] + 1, place)
        above = self._last
        while above >= 0 and token not in self._next[above]:
            self._next[above][token] = new
            above = self._link[above]
        if above < 0:
            self._link[new] = 0
        else:
            below = self._next[above][token]
            if self._length[below] != self._length[above] + 1:
                below = self._split(above, below, token)
            self._link[new] = below
        self._last = new

    def _split(self, above: int, below: int, token: int) -> int:
        """Takes the substrings of `below` that now end at one more place into a state of their own."""
        clone = self._state(dict(self._next[below]), self._length[above] + 1, self._first_end[below])
        self._link[clone], self._link[below] = self._link[below], clone
        while above >= 0 and self._next[above].get(token) == below:
            self._next[above][token] = clone
            above = self._link[above]
        return clone

    def _state(self, edges: dict[int, int], length: int, first_end: int) -> int:
        self._next.append(edges)
        self._link.append(-1)
        self._length.append(length)
        self._first_end.append(first_end)
        return len(self._next) - 1

    def advance(self, match: Match, token: int) -> Match:
        """The longest suffix of the matched words and `token` that stands in the text (the paper's state transfer)."""
        state, length = match.state, match.length
        while state and token not in self._next[state]:
            state = self._link[state]
            length = self._length[state]
        following = self._next[state].get(token)
        return NO_MATCH if following is None else Match(following, length + 1)

    def settle(self, match: Match) -> Match:
        """The match's state after the text has grown: `extend` may have split its class."""
        state = match.state
        while state and match.length <= self._length[self._link[state]]:
            state = self._link[state]
        return Match(state, match.length)

    def first_end(self, match: Match) -> int:
        """The first place of the text where the matched words end; -1 for an empty match."""
        return self._first_end[match.state] if match.length else -1


class ReadText:
    """A text that grows, and the longest of its suffixes that stood in it before."""

    def __init__(self) -> None:
        self.automaton = SuffixAutomaton()
        self._match = NO_MATCH

    def read(self, token: int) -> None:
        """The text goes on; amortised O(1)."""
        found = self.match(token)  # before the text has it: an earlier occurrence
        self.automaton.extend(token)
        self._match = self.automaton.settle(found)

    def match(self, root: int) -> Match:
        """The longest suffix of the text and `root`, which is not read yet, that stands in the text."""
        return self.automaton.advance(self._match, root)

"""Prompt lookup decoding (Saxena, 2023): what followed the last words when they stood in the text before?

The longest suffix of the text (the root included) that occurred earlier is found, longest n-gram first, and what
followed it there is proposed. Two choices differ from Hugging Face's `PromptLookupCandidateGenerator`, which takes
the first occurrence from the left (its loop breaks at the first match; a comment there doubts the choice):

- the most recent occurrence comes first: it is the likelier to continue alike, in code and in chat, and it is what
  an index yields without a search. The first one's advantage is that a longer text follows it;
- so a continuation that reaches the end of the text goes on into its own beginning, as an LZ77 copy does: a text
  that repeats itself with period p proposes its period over and over, and no proposal is short.

More than one `matches` gives a tree: further occurrences, then those of shorter n-grams, merged into a trie.
"""

from dataclasses import dataclass

import numpy as np

from decoding.drafters.base import Candidates, Observation, StepwiseDrafter
from decoding.settings import Settings, option
from decoding.types import Ints, Source

SCANNED = 64
"""Occurrences of one n-gram that are looked at for a further different continuation, so that a round has a bound."""
TOKEN_BITS = 32

Trie = dict[int, "Trie"]


@dataclass(frozen=True)
class PromptLookupSettings(Settings):
    """Defaults of the reference: n-grams of up to 3, 10 tokens, one match."""

    ngram: int = option(3, "longest n-gram that is looked up", low=1, high=8)
    tokens: int = option(10, "tokens proposed after a match", low=1, high=64)
    matches: int = option(1, "different matches kept: 1 gives a chain, more give a tree", low=1, high=32)


class PromptLookup(StepwiseDrafter):
    """Proposes what followed the longest earlier occurrence of the text's last tokens.

    A committed token costs one dictionary entry for each n; a round never scans the text.
    With the text `5 6 7 8 5` and the root 6, the 2-gram (5, 6) stood at the start: 7, 8, 5, 6, 7 ... is proposed.
    """

    name = "prompt-lookup"
    source = Source.RETRIEVAL
    gives_logprobs = False

    def __init__(self, vocab_size: int, settings: PromptLookupSettings | None = None) -> None:
        self.vocab_size = vocab_size
        self.settings = settings or PromptLookupSettings()
        self.begin(0)

    def begin(self, capacity: int) -> None:
        self._text: list[int] = []
        # For each n: n-gram -> where it last ended; and for each end, where the same n-gram ended before (-1: never).
        self._latest: list[dict[int, int]] = [{} for _ in range(self.settings.ngram)]
        self._before: list[list[int]] = [[] for _ in range(self.settings.ngram)]
        self._nodes: list[Trie | None] = []

    def end(self) -> None:
        self.begin(0)

    def observe(self, observation: Observation) -> None:
        for token in observation.tokens.tolist():
            self._text.append(token)
            place = len(self._text) - 1
            keys = _suffix_keys(self._text, self.settings.ngram)
            for latest, before, key in zip(self._latest, self._before, keys, strict=False):
                before.append(latest.get(key, -1))
                latest[key] = place
            for before in self._before[len(keys) :]:
                before.append(-1)

    def start(self, root: int, k: int) -> Candidates:
        self._nodes = [self._matches(root)]
        return self._children(self._nodes, k)

    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        above = [self._nodes[parent] for parent in parents.tolist()]
        found = [node.get(token) if node else None for node, token in zip(above, tokens.tolist(), strict=True)]
        self._nodes += found
        return self._children(found, k)

    @staticmethod
    def _children(nodes: list[Trie | None], k: int) -> Candidates:
        token = np.full((len(nodes), k), -1, np.int32)
        for row, node in zip(token, nodes, strict=True):
            best = list(node or ())[:k]
            row[: len(best)] = best
        return Candidates(token, np.full(token.shape, np.nan, np.float32))

    def _matches(self, root: int) -> Trie:
        """The trie of up to `matches` different continuations of the text and `root`, best match first."""
        trie: Trie = {}
        found = 0
        longest = self.settings.ngram
        keys = _suffix_keys([*self._text[max(0, len(self._text) + 1 - longest) :], root], longest)
        for latest, before, key in reversed(list(zip(self._latest, self._before, keys, strict=False))):
            place = latest.get(key, -1)
            for _ in range(SCANNED):
                if place < 0:
                    break
                found += _insert(trie, self._continuation(place + 1, root))
                if found == self.settings.matches:
                    return trie
                place = before[place]
        return trie

    def _continuation(self, start: int, root: int) -> list[int]:
        """What stands from `start` on; behind the root it goes on with its own beginning."""
        out = self._text[start : start + self.settings.tokens]
        if len(out) < self.settings.tokens:
            out.append(root)
        for place in range(self.settings.tokens - len(out)):
            out.append(out[place])
        return out


def _suffix_keys(text: list[int], longest: int) -> list[int]:
    """An exact key for the last 1, 2, ... `longest` tokens of `text`, as many as there are."""
    keys: list[int] = []
    key = 0
    for back in range(min(longest, len(text))):
        key |= text[-1 - back] << (TOKEN_BITS * back)
        keys.append(key)
    return keys


def _insert(trie: Trie, tokens: list[int]) -> bool:
    """Adds a path; says whether any of it was new."""
    new = False
    for token in tokens:
        new |= token not in trie
        trie = trie.setdefault(token, {})
    return new

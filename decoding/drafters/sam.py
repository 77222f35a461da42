"""SAM-Decoding (arXiv 2411.10666): proposes what followed the longest suffix of the text at its first occurrence.

Two suffix automata: a dynamic one of the text so far, prompt and output, and, where a corpus is given, a static one of
that. The dynamic match is taken unless the static one is longer by more than `bias`; a match shorter than `threshold`
is not worth a chain, and nothing is proposed (section 3).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from decoding.drafters.base import Candidates, Observation, StepwiseDrafter
from decoding.drafters.suffix_automaton import NO_MATCH, ReadText, SuffixAutomaton
from decoding.settings import Settings, option
from decoding.types import Ints, Source


@dataclass(frozen=True)
class SamSettings(Settings):
    """Defaults of the paper: 40 predictions, threshold 5, bias 5."""

    tokens: int = option(40, "tokens proposed after a match", low=1, high=256)
    threshold: int = option(5, "shortest match that is followed", low=1, high=64)
    bias: int = option(5, "by how much a match in the corpus must be longer to be preferred", low=0, high=64)


class SamDrafter(StepwiseDrafter):
    """A chain out of the text. A committed token costs O(1), amortised; a round never searches the text.

    With threshold 2, the text `5 6 7 8 5` and the root 6, the suffix (5, 6) stood at the start: 7, 8, 5, 6.
    """

    name = "sam"
    source = Source.RETRIEVAL
    gives_logprobs = False

    def __init__(self, vocab_size: int, settings: SamSettings | None = None, corpus: Iterable[int] = ()) -> None:
        self.vocab_size = vocab_size
        self.settings = settings or SamSettings()
        self._corpus = SuffixAutomaton()
        for token in corpus:
            self._corpus.extend(token)
        self.begin(0)

    def begin(self, capacity: int) -> None:
        self._own = ReadText()
        self._corpus_match = NO_MATCH
        self._chain: list[int] = []
        self._depth: list[int] = []

    def end(self) -> None:
        self.begin(0)

    def observe(self, observation: Observation) -> None:
        """Moves both matches along and appends the committed tokens to the text."""
        for token in observation.tokens.tolist():
            self._own.read(token)
            self._corpus_match = self._corpus.advance(self._corpus_match, token)

    def start(self, root: int, k: int) -> Candidates:
        self._chain = self._proposal(root)
        self._depth = [0]
        return self._best(self._depth, k)

    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        """As `StepwiseDrafter.expand`; nothing follows a node that is off the chain."""
        below = []
        for token, parent in zip(tokens.tolist(), parents.tolist(), strict=True):
            depth = self._depth[parent]
            on_chain = 0 <= depth < len(self._chain) and self._chain[depth] == token
            below.append(depth + 1 if on_chain else -1)
        self._depth += below
        return self._best(below, k)

    def _best(self, depths: list[int], k: int) -> Candidates:
        token = np.full((len(depths), k), -1, np.int32)
        for row, depth in zip(token, depths, strict=True):
            if 0 <= depth < len(self._chain):
                row[0] = self._chain[depth]
        return Candidates(token, np.full(token.shape, np.nan, np.float32))

    def _proposal(self, root: int) -> list[int]:
        """What followed the longest suffix of the text and `root`; empty where the match is too short."""
        settings = self.settings
        own = self._own.match(root)
        corpus = self._corpus.advance(self._corpus_match, root)
        automaton, match, length = self._own.automaton, own, own.length
        if corpus.length - settings.bias > length:
            automaton, match, length = self._corpus, corpus, corpus.length - settings.bias
        if length < settings.threshold:
            return []
        place = automaton.first_end(match) + 1
        copied = automaton.text[place : place + settings.tokens]
        if automaton is self._own.automaton and len(copied) < settings.tokens:
            copied.append(root)
        return copied

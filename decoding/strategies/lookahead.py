"""Lookahead decoding (arXiv 2402.02057): n-grams harvested from the target's own Jacobi iterations."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from decoding.drafters.base import Drafter
from decoding.sampling import Sampling
from decoding.settings import Settings, option
from decoding.strategies.base import Growth, Strategy
from decoding.tree import TreeBuilder
from decoding.types import Source, Tree, Verdict


@dataclass(frozen=True)
class LookaheadSettings(Settings):
    """The paper's N, W and G; defaults of its code's examples for 7B models."""

    level: int = option(5, "tokens in an n-gram: the paper's N", low=2, high=16)
    window: int = option(7, "columns of the lookahead window: the paper's W", low=1, high=32)
    guesses: int = option(7, "n-grams verified in a round, and kept for a first token: the paper's G", low=0, high=32)
    from_prompt: bool = option(True, "put the prompt's n-grams into the pool")


class Lookahead(Strategy[LookaheadSettings]):
    """Algorithm 2. The window and the guesses are one tree, so one tree-attention pass serves both branches.

    Row 0 of the window is a guess at the coming text: the root, then a chain. Below each of its W tokens hang the
    tokens that the last N - 2 iterations made of that place. What the target says after the last of them is the new
    row; with it each column is an n-gram for the pool. So a window token sees row 0 up to its column, and its own
    column: the attention mask of the paper.

    The window moves on by one place a round, however much was accepted, as in the authors' code. Unlike there, a
    window token that the target happens to agree with is accepted like any other node; the text stays the target's.
    """

    name = "lookahead"
    title = "Lookahead decoding"
    paper = "Lookahead decoding (arXiv 2402.02057), Algorithm 2"
    needs = frozenset()
    settings_class = LookaheadSettings

    def __init__(self, settings: LookaheadSettings) -> None:
        super().__init__(settings)
        self._forget(())

    @property
    def max_nodes(self) -> int:
        level, window = self.settings.level, self.settings.window
        columns = {rows: window + level - 1 - rows for rows in range(1, level)}
        return max(rows * count - 1 for rows, count in columns.items()) + self.settings.guesses * (level - 1)

    def begin(self, prompt: Sequence[int], sampling: Sampling, rng: torch.Generator) -> None:
        self._forget(prompt)

    def _forget(self, prompt: Sequence[int]) -> None:
        """Row 0 starts with tokens of the prompt, drawn with a fixed seed, and is longer by what the first rounds eat
        until all N - 1 rows are there."""
        settings = self.settings
        drawn = np.random.default_rng(0).choice(list(prompt) or [0], settings.window + settings.level - 3)
        self._rows: list[list[int]] = [drawn.tolist()]
        self._ends: list[int] | None = None
        self._pool = NgramPool(settings.guesses)
        if settings.from_prompt:
            for start in range(len(prompt) - settings.level + 1):
                self._pool.add(tuple(prompt[start : start + settings.level]))

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        builder = TreeBuilder(root)
        guesses = self._pool.after(root)
        for rest in guesses:
            node = 0
            for token in rest[:max_depth]:
                node = builder.add(node, token, source=Source.RETRIEVAL)
        guessed = len(builder) - 1
        self._ends = self._add_window(builder, max_depth)
        decision = {"guesses": len(guesses), "guess_nodes": guessed, "rows": len(self._rows)}
        return Growth(builder.build(), decision=decision)

    def _add_window(self, builder: TreeBuilder, max_depth: int) -> list[int] | None:
        """The last node of every column; None where the text is about to end and there is no room for the window."""
        if len(self._rows[0]) + len(self._rows) - 1 > max_depth:
            return None
        ends = [0]
        for token in self._rows[0]:
            ends.append(builder.add(ends[-1], token))
        for row in self._rows[1:]:
            ends = [builder.add(above, token) for above, token in zip(ends, row, strict=True)]
        return ends

    def observe(self, tree: Tree, verdict: Verdict) -> None:
        """Takes the new row from the target's most likely tokens, harvests n-grams and moves the window on."""
        if self._ends is None:
            return
        new = verdict.top_token[self._ends, 0].tolist()
        first, *others = self._rows
        if len(self._rows) == self.settings.level - 1:
            for gram in zip([int(tree.token[0]), *first], *others, new, strict=True):
                self._pool.add(gram)
            first, *others = [*others, new]
            self._rows = [first[1:], *others]
        else:
            self._rows = [first[1:], *(row[1:] for row in others), new[1:]]


class NgramPool:
    """For a first token, the latest `size` different n-grams that began with it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._rests: dict[int, dict[tuple[int, ...], None]] = {}

    def add(self, gram: tuple[int, ...]) -> None:
        """Adds an n-gram, or makes it the latest again."""
        kept = self._rests.setdefault(gram[0], {})
        kept.pop(gram[1:], None)
        kept[gram[1:]] = None
        if len(kept) > self.size:
            del kept[next(iter(kept))]

    def after(self, token: int) -> list[tuple[int, ...]]:
        """What followed `token` in its n-grams, latest first."""
        return list(self._rests.get(token, ()))[::-1]

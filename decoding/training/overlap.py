"""Keeps measuring sets out of training: no run of `SIZE` words of a measured prompt may stand in a training prompt."""

import re
from collections.abc import Iterable, Sequence

SIZE = 10
"""Words. Shorter runs are figures of speech ("what is the total cost of the"); copies share far longer ones."""


def word_runs(text: str, size: int = SIZE) -> set[tuple[str, ...]]:
    """All runs of `size` words, in lower case and without punctuation; a shorter text is one run of its own."""
    words = re.findall(r"\w+", text.lower())
    if not words:
        return set()
    return {tuple(words[start : start + size]) for start in range(max(1, len(words) - size + 1))}


def without_overlap(texts: Sequence[str], measured: Iterable[str]) -> tuple[list[str], int]:
    """The texts that share no run of words with a measured one, and how many were dropped."""
    known = set().union(*(word_runs(text) for text in measured))
    kept = [text for text in texts if not word_runs(text) & known]
    return kept, len(texts) - len(kept)

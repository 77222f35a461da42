"""Prompt lookup against a naive scan of the text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.drafters.base import Observation, no_next
from decoding.drafters.prompt_lookup import SCANNED, PromptLookup, PromptLookupSettings
from decoding.errors import BadRequest
from decoding.types import Source


def committed(tokens: list[int]) -> Observation:
    array = np.array(tokens, np.int32)
    return Observation(array, None, array, no_next(len(array)))


def naive(text: list[int], root: int, settings: PromptLookupSettings) -> list[list[int]]:
    """Continuations in order, found by looking at every place of the text."""
    whole = [*text, root]
    found: list[list[int]] = []
    for n in range(min(settings.ngram, len(whole)), 0, -1):
        ends = [end for end in range(n - 1, len(text)) if whole[end - n + 1 : end + 1] == whole[len(whole) - n :]]
        for end in ends[::-1][:SCANNED]:
            copied = whole[end + 1 :]
            proposal = (copied * settings.tokens)[: settings.tokens]  # repeats itself when it reaches the end
            if proposal not in found:
                found.append(proposal)
            if len(found) == settings.matches:
                return found
    return found


def walk(drafter: PromptLookup, root: int, k: int = 40) -> list[list[int]]:
    """All leaf paths that `start` and `expand` give, best first at every node."""
    layer = [([], 0)]
    candidates = drafter.start(root, k)
    given_nodes, leaves = 1, []
    while layer:
        below = []
        for (path, node), row in zip(layer, candidates.token.tolist(), strict=True):
            tokens = [token for token in row if token >= 0]
            below += [([*path, token], node) for token in tokens]
            if not tokens:
                leaves.append(path)
        layer = []
        if below:
            tokens, parents = [path[-1] for path, _ in below], [node for _, node in below]
            candidates = drafter.expand(np.array(tokens, np.int32), np.array(parents, np.int32), k)
            layer = [(path, given_nodes + i) for i, (path, _) in enumerate(below)]
            given_nodes += len(below)
    return leaves


texts = st.lists(st.integers(0, 3), max_size=60)


@given(
    st.lists(texts, min_size=1, max_size=4), st.integers(0, 3), st.integers(1, 4), st.integers(1, 6), st.integers(1, 5)
)
def test_equals_a_naive_scan(pieces: list[list[int]], root: int, ngram: int, tokens: int, matches: int):
    settings = PromptLookupSettings(ngram=ngram, tokens=tokens, matches=matches)
    drafter = PromptLookup(4, settings)
    drafter.begin(100)
    text: list[int] = []
    for piece in pieces:
        drafter.observe(committed(piece))
        text += piece
        expected = naive(text, root, settings)
        found = walk(drafter, root)
        assert sorted(found) == sorted(expected) or (not expected and found == [[]])
        if expected:
            first: list[int] = []
            candidates = drafter.start(root, 1)
            for node in range(tokens):
                first.append(int(candidates.token[0, 0]))
                candidates = drafter.expand(np.array([first[-1]]), np.array([node]), 1)
            assert first == expected[0]


def test_most_recent_occurrence_of_the_longest_ngram():
    drafter = PromptLookup(20, PromptLookupSettings(tokens=2))
    drafter.begin(0)
    drafter.observe(committed([1, 2, 3, 10, 11, 1, 2, 3, 12, 13, 9, 3, 14, 15, 1, 2]))
    assert walk(drafter, 3) == [[12, 13]]


def test_a_loop_goes_on():
    drafter = PromptLookup(20)
    drafter.begin(0)
    drafter.observe(committed([5, 6, 7, 8, 5]))
    assert walk(drafter, 6) == [[7, 8, 5, 6, 7, 8, 5, 6, 7, 8]]


def test_matches_make_a_tree():
    drafter = PromptLookup(20, PromptLookupSettings(ngram=2, tokens=2, matches=3))
    drafter.begin(0)
    drafter.observe(committed([1, 2, 3, 1, 2, 4, 1, 2, 3, 1]))
    # Most recent first: 3 1, then 4 1; the third continuation repeats the first.
    assert drafter.start(2, 4).token.tolist() == [[3, 4, -1, -1]]


def test_long_repeats_stay_bounded_and_unknown_tokens_have_no_children():
    drafter = PromptLookup(5, PromptLookupSettings(matches=8))
    drafter.begin(0)
    drafter.observe(committed([1] * 5000))
    assert drafter.start(1, 2).token.tolist() == [[1, -1]]
    assert drafter.expand(np.array([4]), np.array([0]), 2).token.tolist() == [[-1, -1]]
    assert np.isnan(drafter.start(1, 2).logprob).all()


def test_begin_forgets_and_kind_is_declared():
    drafter = PromptLookup(5)
    drafter.begin(0)
    drafter.observe(committed([1, 2, 1]))
    drafter.begin(0)
    assert drafter.start(1, 1).token.tolist() == [[-1]]
    assert drafter.source == Source.RETRIEVAL
    assert not drafter.gives_logprobs
    with pytest.raises(BadRequest, match="ngram"):
        PromptLookupSettings(ngram=9)

"""The suffix automaton against plain search, and what SAM-Decoding proposes from it."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.drafters.base import Observation, no_next
from decoding.drafters.sam import SamDrafter, SamSettings
from decoding.drafters.suffix_automaton import NO_MATCH, SuffixAutomaton
from decoding.errors import BadRequest
from decoding.types import Source

texts = st.lists(st.integers(0, 3), max_size=50)


def ends_of(text: list[int], words: list[int]) -> list[int]:
    """Every place at which `words` end in `text`."""
    n = len(words)
    return [end for end in range(n - 1, len(text)) if text[end - n + 1 : end + 1] == words]


def longest_suffix(read: list[int], text: list[int]) -> list[int]:
    """The longest suffix of `read` that is a substring of `text`."""
    return next((read[start:] for start in range(len(read)) if ends_of(text, read[start:])), [])


@given(texts, texts)
def test_advance_finds_the_longest_suffix_and_its_first_place(text: list[int], read: list[int]):
    automaton = SuffixAutomaton()
    for token in text:
        automaton.extend(token)
    match = NO_MATCH
    for count, token in enumerate(read, start=1):
        match = automaton.advance(match, token)
        expected = longest_suffix(read[:count], text)
        assert match.length == len(expected)
        assert automaton.first_end(match) == (ends_of(text, expected)[0] if expected else -1)
    assert len(automaton) <= max(1, 2 * len(text))


@given(texts)
def test_while_the_text_grows_the_match_is_an_earlier_occurrence(text: list[int]):
    automaton, match = SuffixAutomaton(), NO_MATCH
    for count, token in enumerate(text, start=1):
        found = automaton.advance(match, token)
        automaton.extend(token)
        match = automaton.settle(found)
        expected = longest_suffix(text[:count], text[: count - 1])
        assert match.length == len(expected)
        assert automaton.first_end(match) == (ends_of(text, expected)[0] if expected else -1)


def test_states_of_a_text_done_by_hand():
    """abb has the classes {}, a, ab, abb and {b}, bb: 5 states and the clone of b."""
    automaton = SuffixAutomaton()
    for token in (0, 1, 1):
        automaton.extend(token)
    assert len(automaton) == 5
    assert automaton.first_end(automaton.advance(NO_MATCH, 1)) == 1
    assert automaton.advance(NO_MATCH, 2) == NO_MATCH


def committed(tokens: list[int]) -> Observation:
    array = np.array(tokens, np.int32)
    return Observation(array, None, array, no_next(len(array)))


def proposed(drafter: SamDrafter, root: int, most: int) -> list[int]:
    """The chain that `start` and `expand` give."""
    chain: list[int] = []
    candidates = drafter.start(root, 2)
    while (token := int(candidates.token[0, 0])) >= 0 and len(chain) <= most:
        assert candidates.token[0, 1] == -1
        chain.append(token)
        candidates = drafter.expand(np.array([token]), np.array([len(chain) - 1]), 2)
    return chain


@given(
    st.lists(texts, min_size=1, max_size=4), texts, st.integers(0, 3), st.integers(1, 6), st.integers(1, 4),
    st.integers(0, 3),
)  # fmt: skip
def test_equals_a_plain_search(
    pieces: list[list[int]], corpus: list[int], root: int, tokens: int, threshold: int, bias: int
):
    drafter = SamDrafter(4, SamSettings(tokens, threshold, bias), corpus)
    drafter.begin(100)
    text: list[int] = []
    for piece in pieces:
        drafter.observe(committed(piece))
        text += piece
        own, other = longest_suffix([*text, root], text), longest_suffix([*text, root], corpus)
        words, source, length = own, [*text, root], len(own)
        if len(other) - bias > len(own):
            words, source, length = other, corpus, len(other) - bias
        expected = []
        if length >= threshold:
            place = ends_of(source[: len(source) - (source is not corpus)], words)[0] + 1
            expected = source[place : place + tokens]
        assert proposed(drafter, root, tokens) == expected


def test_the_example_of_the_docstring_and_the_paper_s_defaults():
    drafter = SamDrafter(20, SamSettings(threshold=2))
    drafter.observe(committed([5, 6, 7, 8, 5]))
    assert proposed(drafter, 6, 40) == [7, 8, 5, 6]
    assert proposed(drafter, 9, 40) == []
    assert SamSettings() == SamSettings(tokens=40, threshold=5, bias=5)
    strict = SamDrafter(20)
    strict.observe(committed([1, 2, 3, 4, 9, 1, 2, 3]))
    assert proposed(strict, 4, 40) == []
    strict.observe(committed([4]))
    assert proposed(strict, 9, 40) == [1, 2, 3, 4, 9]


def test_off_the_chain_and_a_new_run():
    drafter = SamDrafter(20, SamSettings(threshold=1))
    drafter.observe(committed([5, 6, 7, 5]))
    assert drafter.start(6, 3).token.tolist() == [[7, -1, -1]]
    assert drafter.expand(np.array([8, 7]), np.array([0, 0]), 1).token.tolist() == [[-1], [5]]
    assert drafter.expand(np.array([5, 5]), np.array([1, 2]), 1).token.tolist() == [[-1], [6]]
    drafter.begin(0)
    assert drafter.start(6, 1).token.tolist() == [[-1]]
    assert drafter.source == Source.RETRIEVAL
    assert not drafter.gives_logprobs
    with pytest.raises(BadRequest, match="threshold"):
        SamSettings(threshold=0)


@pytest.mark.parametrize("period", [1, 7, 10**9])
def test_a_long_text_costs_the_same_a_token(period: int):
    """Twice the text, about twice the time: a bound with room for a busy machine, far below quadratic."""
    rng = np.random.default_rng(0)
    text = (rng.integers(0, 50, 40_000) if period > 10**6 else np.arange(40_000) % period).tolist()

    def seconds(count: int) -> float:
        drafter = SamDrafter(50)
        start = time.process_time()
        drafter.observe(committed(text[:count]))
        return time.process_time() - start

    short, long = min(seconds(10_000) for _ in range(2)), min(seconds(40_000) for _ in range(2))
    assert long < 12 * short

"""Look-alikes of the hard categories, cut from texts as the target writes them."""

import ast
import random

import pytest

from decoding.training import look_alikes


@pytest.mark.parametrize("kind", list(look_alikes.OPENINGS))
def test_every_beginning_is_taken_before_one_is_taken_again(kind: str) -> None:
    known = look_alikes.OPENINGS[kind].beginnings
    assert len(set(known)) == len(known) > 10
    found = look_alikes.beginnings(kind, len(known) + 5, random.Random(0))
    assert set(found[: len(known)]) == set(known)
    assert found[len(known) :] == found[:5]
    assert found != look_alikes.beginnings(kind, len(known) + 5, random.Random(1))


def test_no_opening_ends_with_a_space_that_would_belong_to_its_next_token() -> None:
    for opening in look_alikes.OPENINGS.values():
        assert not any(text.endswith(" ") for text in opening.beginnings)


def test_a_summary_is_asked_of_whole_sentences_of_one_article_or_two() -> None:
    known = [f"A sentence of news, by {name}. " * 40 for name in ("Ada", "Ben", "Eve")]
    prompts = look_alikes.summaries([*(text + "And one that is cut in the mid" for text in known), "Short. To"] * 9,
                                    random.Random(0))  # fmt: skip
    whole = {text.strip() for text in known}
    assert len(prompts) == 27
    assert {prompt for prompt in prompts if len(prompt) < 1500} == {f"Summarize: {text}" for text in whole}
    long = {prompt for prompt in prompts if len(prompt) > 1500}
    assert long
    assert long <= {f"Summarize: {first} {second}" for first in whole for second in whole}


def test_german_sentences_are_many_and_begin_with_a_capital() -> None:
    prompts = look_alikes.translations(500, random.Random(0))
    sentences = {prompt.removeprefix("Translate German to English: ") for prompt in prompts}
    assert len(sentences) > 480
    assert all(text[0].isupper() and text[-1] in ".?" and "  " not in text for text in sentences)
    assert any(text.startswith("In diesem Jahr ") for text in sentences)
    assert prompts == look_alikes.translations(500, random.Random(0))


def test_passages_stand_one_a_line_in_whole_sentences_before_a_question() -> None:
    articles = [f"Article {n} has\na sentence. " * 80 for n in range(5)] + ["Short one. "]
    known = look_alikes.passages(articles)
    assert len(known) == 5
    assert all("\n" not in text and text.endswith("a sentence.") for text in known)
    assert all(len(text) in look_alikes.PASSAGE for text in known)
    questions = [f"who is number {n}" for n in range(40)]
    lines = [prompt.split("\n") for prompt in look_alikes.retrieved(known, questions, random.Random(0))]
    assert [words[-1] for words in lines] == questions
    assert {len(words) for words in lines} == {3, 4}
    assert all(len(set(words[:-1]) & set(known)) == len(words) - 1 for words in lines)
    assert look_alikes.retrieved(known[:2], questions, random.Random(0)) == []


def test_functions_end_with_their_docstring() -> None:
    head = (
        'from typing import List\n\n\ndef count_words(text: str) -> int:\n    """Counts the words of a text.\n    """\n'
    )
    (found,) = look_alikes.functions([head + "    return 0\n", head[:60], "class A:\n    pass\n"])
    assert found == head
    function = ast.parse(found).body[-1]
    assert (ast.get_docstring(function) or "").strip() == "Counts the words of a text."  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "wanted"),
    [(" wrote the song of the sea? And what", "who wrote the song of the sea"), (" wrote it", None), (" was it?", None),
     (" wrote\nthe song of the sea?", None)],
)  # fmt: skip
def test_a_question_ends_at_its_mark_and_may_lose_it(more: str, wanted: str | None) -> None:
    found = {look_alikes.question("who", more, random.Random(seed)) for seed in range(20)}
    assert found == ({None} if wanted is None else {wanted, f"{wanted}?"})

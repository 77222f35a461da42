"""Look-alikes of the hard categories, cut from texts as the target writes them."""

import ast
import random

import pytest

from decoding.training import look_alikes

SENTENCE = "Die Kinder haben den ganzen Tag im Garten gespielt."


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


def test_a_summary_is_asked_of_whole_sentences() -> None:
    article = "A sentence of news. " * 40 + "And one that is cut in the mid"
    (prompt,) = look_alikes.summaries([article, "Too short. To summar"])
    assert prompt == f"Summarize: {('A sentence of news. ' * 40).strip()}"


@pytest.mark.parametrize(
    ("fourth", "wanted"),
    [(SENTENCE, [SENTENCE]), (f" {SENTENCE} ", [SENTENCE]), ("Ja.", []), ("wort " * 70 + ".", []), (SENTENCE[:-1], [])],
)
def test_the_sentence_that_follows_the_given_three_is_translated(fourth: str, wanted: list[str]) -> None:
    text = f"eins.\nzwei.\ndrei.\n{fourth}\nfünf und etwas mehr als vierzig Zeichen."
    found = look_alikes.translations([text, "eins.\nzwei.\ndrei."])
    assert found == [f"Translate German to English: {sentence}" for sentence in wanted]


def test_passages_stand_one_a_line_in_whole_sentences() -> None:
    articles = [f"Article {n} has\na sentence. " * 80 for n in range(5)] + ["Short one. "]
    known = look_alikes.passages(articles)
    assert len(known) == 5
    assert all("\n" not in text and text.endswith("a sentence.") for text in known)
    assert all(len(text) in look_alikes.PASSAGE for text in known)
    prompts = look_alikes.retrieved(known, 40, random.Random(0))
    assert {len(prompt.split("\n")) for prompt in prompts} == {2, 3}
    assert all(len(set(prompt.split("\n")) & set(known)) == len(prompt.split("\n")) for prompt in prompts)
    assert look_alikes.retrieved(known[:2], 40, random.Random(0)) == []


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

"""Prompts of the kinds that a drafter of short chats is worst at, all from text that the target wrote itself.

The target goes on with bare openings, outside any chat: news, encyclopaedia articles, German sentences, functions.
These texts are cut to documents to summarise, sentences to translate, passages to answer from and docstrings to
implement. Questions are user turns that it goes on with after an interrogative.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

INTERROGATIVES = (
    "who", "who was the first", "who wrote", "what is the", "what does", "what year did", "when did", "when was the",
    "where is", "where does the", "how many", "how long does", "which", "which country", "Why is", "How did", "Who is",
)  # fmt: skip
QUESTION_TOKENS = 28
PASSAGE = range(500, 1500)
"""Characters; two or three passages make a prompt."""
SENTENCE = range(40, 260)
"""Characters of a sentence to translate."""
QUOTES = '"' * 3


@dataclass(frozen=True)
class Opening:
    """A kind of text: how it begins, and how many tokens of it are written."""

    beginnings: tuple[str, ...]
    tokens: int


GERMAN = (
    "Die Kinder spielen seit heute Morgen im Garten hinter dem Haus.",
    "Der Minister sagte am Dienstag, die Gespräche seien noch nicht beendet.",
    "Das Hotel liegt ruhig und bietet einen schönen Blick auf den See.",
    "Viele Unternehmen suchen in diesem Jahr vergeblich nach neuen Mitarbeitern.",
    "Wer das Spiel gewinnt, steht am Sonntag im Finale.",
    "Nach dem Unfall musste die Straße mehrere Stunden gesperrt werden.",
)
SIGNATURES = (
    "words(text: str) -> int", "pairs(numbers: list[int], limit: int) -> bool", "digits(value: int) -> int",
    "numbers(values: List[int]) -> List[int]", "string(text: str) -> str", "letters(first: str, second: str) -> str",
    "elements(items: list)", "sequence(n: int) -> List[int]", "distance(points: List[float]) -> float", "list(lst)",
)  # fmt: skip
OPENINGS = {
    "news": Opening((
        "(CNN) -- The", "LONDON, England (CNN) -- A", "WASHINGTON -- President", "By a staff reporter.\n\nA man who",
        "NEW YORK -- Police said on Monday that", "PARIS -- The French", "The government has announced",
        "Scientists say that", "A mother of two", "Thousands of people have", "The company said on Tuesday that",
        "Two women were", "Manchester United manager", "Residents of the town", "The president told reporters that",
        "A judge has ruled that", "A new study", "Firefighters were called to",
    ), 352),
    "encyclopaedia": Opening((
        "The Battle of", "The river flows", "Born in", "The University of", "The species is", "In chemistry, a",
        "The album was released", "The film was directed by", "The city of", "The term refers to", "The Treaty of",
        "The national football team", "The human heart", "The novel tells", "Mount", "The company was founded in",
        "The television series", "The Constitution of", "The Roman Empire", "A cell is",
    ), 352),
    "German": Opening(tuple(f"{first}\n{second}\n{third}\n" for first, second, third in permutations(GERMAN, 3)), 64),
    "function": Opening(tuple(
        f"{head}def {verb}_{rest}:\n    {QUOTES}" for head in ("", "from typing import List\n\n\n")
        for verb in ("count", "find", "remove", "sum", "sort", "check", "reverse", "filter", "largest", "common")
        for rest in SIGNATURES
    ), 128),
}  # fmt: skip


def beginnings(kind: str, count: int, rng: random.Random) -> list[str]:
    """How `count` texts of a kind begin, every beginning about equally often."""
    known = list(OPENINGS[kind].beginnings)
    rng.shuffle(known)
    return [known[place % len(known)] for place in range(count)]


def summaries(articles: Sequence[str]) -> list[str]:
    """Articles to summarise, each up to its last whole sentence."""
    return [f"Summarize: {whole}" for text in articles if len(whole := whole_sentences(text)) >= PASSAGE.start]


def translations(texts: Sequence[str]) -> list[str]:
    """The first German sentence that each text adds to the three it begins with, to be translated."""
    sentences = [line for text in texts for line in text.split("\n")[3:4]]
    return [f"Translate German to English: {line}" for sentence in sentences
            if len(line := sentence.strip()) in SENTENCE and line[-1] in ".!?"]  # fmt: skip


def passages(articles: Sequence[str]) -> list[str]:
    """Whole sentences of every article, none of them long."""
    found = (whole_sentences(text.replace("\n", " ")[: PASSAGE.stop]) for text in articles)
    return [text for text in found if len(text) >= PASSAGE.start]


def retrieved(known: Sequence[str], count: int, rng: random.Random) -> list[str]:
    """`count` times two or three passages, one a line, as a search would bring them."""
    if len(known) < 3:
        return []
    return ["\n".join(rng.sample(known, rng.choice((2, 3)))) for _ in range(count)]


def functions(texts: Sequence[str]) -> list[str]:
    """Functions up to the end of their docstring."""
    cut = (re.match(rf"(?s).*?def \w+\([^\n]*:\n\s+{QUOTES}.{{20,}}?{QUOTES}\n", text) for text in texts)
    return [found[0] for found in cut if found is not None]


def question(begun: str, more: str, rng: random.Random) -> str | None:
    """A question as it is typed into a search box, half of them without its mark; None where it does not end."""
    words, mark, _ = (begun + more).partition("?")
    if not mark or "\n" in words or len(words.split()) < 4:
        return None
    return words.strip() + rng.choice(("?", ""))


def whole_sentences(text: str) -> str:
    """The text up to the end of its last whole sentence; empty where it has none."""
    return text[: max(text.rfind(mark) for mark in (". ", ".\n", '." ')) + 1].strip()

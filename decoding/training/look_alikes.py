"""Prompts of the kinds that a drafter of short chats is worst at, nearly all from text that the target wrote itself.

The target goes on with bare openings, outside any chat: news, encyclopaedia articles, functions. These texts are cut to
documents to summarise, passages to answer from and docstrings to implement. Questions are user turns that it goes on
with after an interrogative. Only what is to be translated is not its own (its German is none): phrases put together.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

INTERROGATIVES = (
    "who", "who was the first", "who wrote", "what is the", "what does", "what year did", "when did", "when was the",
    "where is", "where does the", "how many", "how long does", "which", "which country", "Why is", "How did", "Who is",
)  # fmt: skip
QUESTION_TOKENS = 28
PASSAGE = range(500, 1500)
"""Characters; two or three passages make a prompt."""
QUOTES = '"' * 3


@dataclass(frozen=True)
class Opening:
    """A kind of text: how it begins, and how many tokens of it are written."""

    beginnings: tuple[str, ...]
    tokens: int


SUBJECTS = (
    "Der Minister", "Die Regierung", "Ein Sprecher der Polizei", "Das Unternehmen", "Der neue Trainer", "Mein Bruder",
    "Eine junge Frau aus Berlin", "Die Europäische Union", "Das Gericht in München", "Der Präsident", "Unser Nachbar",
    "Die Universität", "Der Hersteller", "Das Hotel am See", "Die Gewerkschaft", "Der Verfasser des Buches",
    "Eine Studie aus Schweden", "Der Bürgermeister", "Die Ärztin", "Das Museum", "Der Verein", "Die Bank",
)  # fmt: skip
PREDICATES = (
    ("hat", "neue Maßnahmen gegen die steigenden Preise angekündigt"), ("wird", "mehr Geld für die Schulen ausgeben"),
    ("hat", "die Gespräche mit den Nachbarländern abgebrochen"), ("musste", "den Flughafen für Stunden schließen"),
    ("will", "das Spiel gegen die Mannschaft aus Spanien gewinnen"), ("hat", "einen Fehler in der Rechnung gefunden"),
    ("bietet", "den Gästen ein Frühstück mit Blick auf die Berge"), ("sucht", "vergeblich nach Mitarbeitern"),
    ("konnte", "die Ursache des Unfalls nicht klären"), ("hat", "das Fahrzeug mit einem leiseren Motor ausgestattet"),
    ("warnt", "vor den Folgen des Klimawandels für die Landwirtschaft"), ("hat", "eine Klage der Anwohner abgewiesen"),
    ("braucht", "nach der Operation viel Ruhe und Geduld"), ("plant", "den Bau von tausend Wohnungen in der Vorstadt"),
    ("hat", "erstmals die Daten der Kunden veröffentlicht"), ("kennt", "die Geschichte der alten Brücke sehr gut"),
    ("verkauft", "die Hälfte der Anteile an einen Konzern aus China"), ("möchte", "im Ausland eine Sprache lernen"),
    ("hat", "die Wähler um Vertrauen gebeten"), ("zeigt", "Bilder und Briefe aus dem neunzehnten Jahrhundert"),
)  # fmt: skip
TIMES = (
    "am Dienstag", "seit gestern", "in diesem Jahr", "nach langem Streit", "trotz der Kritik", "im vergangenen Monat",
    "wegen des schlechten Wetters", "zum zweiten Mal", "vor der Wahl", "ohne Erfolg", "gegen Mittag", "in ganz Europa",
)  # fmt: skip
ENDINGS = (
    ".", " .", ", sagte ein Sprecher.", ", obwohl die Zeit knapp ist.", ", wie die Zeitung berichtet.", "?",
    ", weil viele Menschen darauf warten.", " , und zwar überall .", ", so der Bericht.", ", meinte er.",
)  # fmt: skip
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


def summaries(articles: Sequence[str], rng: random.Random) -> list[str]:
    """Articles to summarise, each up to its last whole sentence; about half of them have another one behind them."""
    whole = [text for article in articles if len(text := whole_sentences(article)) >= PASSAGE.start]
    behind = rng.sample(whole, len(whole))
    return [
        f"Summarize: {text} {more}" if rng.random() < 0.5 else f"Summarize: {text}"
        for text, more in zip(whole, behind, strict=True)
    ]


def translations(count: int, rng: random.Random) -> list[str]:
    """`count` German sentences put together from phrases, to be translated."""
    return [f"Translate German to English: {_german(rng)}" for _ in range(count)]


def _german(rng: random.Random) -> str:
    who, (verb, what), when = rng.choice(SUBJECTS), rng.choice(PREDICATES), rng.choice(TIMES)
    if rng.random() < 0.3:
        who, when = when[0].upper() + when[1:], who[0].lower() + who[1:]
    return f"{who} {verb} {when} {what}{rng.choice(ENDINGS)}"


def passages(articles: Sequence[str]) -> list[str]:
    """Whole sentences of every article, none of them long."""
    found = (whole_sentences(text.replace("\n", " ")[: PASSAGE.stop]) for text in articles)
    return [text for text in found if len(text) >= PASSAGE.start]


def retrieved(known: Sequence[str], questions: Sequence[str], rng: random.Random) -> list[str]:
    """Two or three passages before each question, one a line, as a search brings them: not all speak of it."""
    if len(known) < 3:
        return []
    return ["\n".join([*rng.sample(known, rng.choice((2, 3))), question]) for question in questions]


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

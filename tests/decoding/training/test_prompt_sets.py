"""Prompts for the target: what is published, what it makes up itself, and what is made from its answers."""

import ast
import json
import random
from pathlib import Path
from typing import Any

import pytest

from decoding.errors import BadRequest
from decoding.prompts import encode_prompt
from decoding.training import prompt_sets
from decoding.training.corpus import Example
from tests.decoding.training.material import chat_tokenizer


def write(folder: Path, name: str, rows: list[Any]) -> None:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write(tmp_path, "gsm8k_train.jsonl", [{"question": f"problem {n}", "answer": "7"} for n in range(30)])
    write(tmp_path, "user_oriented_instructions.jsonl", [
        {"instruction": "do it", "instances": [{"input": "with this", "output": "done"}]},
        {"instruction": "do that", "instances": [{"input": "", "output": "done"}]},
    ])  # fmt: skip
    write(tmp_path, "seed_tasks.jsonl", [{"instruction": f"task {n}"} for n in range(3)])
    return tmp_path


def test_half_are_instructions_as_far_as_there_are_any(data: Path) -> None:
    for count, instructions in ((4, 2), (8, 4), (20, 5)):
        found = prompt_sets.published_prompts(data, count, random.Random(0))
        assert len(set(found)) == count
        assert sum(not text.startswith("problem") for text in found) == instructions
    assert len(prompt_sets.published_prompts(data, 1000, random.Random(0))) == 35
    assert "do it\nwith this" in prompt_sets.published_prompts(data, 20, random.Random(0))


def test_the_seed_decides_which(data: Path) -> None:
    first, again, other = (prompt_sets.published_prompts(data, 6, random.Random(seed)) for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize("line", ["{", "[]", '{"answer": "7"}', '{"question": 7}'])
def test_a_bad_line_is_named(line: str, data: Path) -> None:
    (data / "gsm8k_train.jsonl").write_text('{"question": "fine"}\n' + line + "\n")
    with pytest.raises(BadRequest, match=r"gsm8k_train\.jsonl, line 2: no text in question"):
        prompt_sets.published_prompts(data, 4, random.Random(0))


def test_a_missing_file_is_named(data: Path) -> None:
    (data / "seed_tasks.jsonl").unlink()
    with pytest.raises(BadRequest, match=r"seed_tasks\.jsonl cannot be read"):
        prompt_sets.published_prompts(data, 4, random.Random(0))


def test_the_user_s_words_are_found_in_a_prompt() -> None:
    tokenizer, texts = chat_tokenizer(), ["w5 w6 w7", "w9"]
    prompts = [encode_prompt(tokenizer, text) for text in texts]
    assert prompt_sets.user_words(prompts, tokenizer) == texts
    start = prompt_sets.user_turn_start(tokenizer)
    assert all(prompt[: len(start)] == start for prompt in prompts)
    assert len(start) < min(len(prompt) for prompt in prompts)


def test_own_questions_are_whole_and_told_apart() -> None:
    tokenizer = chat_tokenizer()
    said = [("w5 w6 </s>",), ("w5 w6 </s>",), ("</s>",), ("w7 </s>",)]
    examples = [Example("own", 1.0, (1,), tuple(tokenizer(text)["input_ids"])) for (text,) in said]
    assert prompt_sets.own_questions(examples, tokenizer) == ["w5 w6", "w7"]


def test_documents_hold_the_answers_they_ask_about() -> None:
    pairs = [(f"question {n}", f"answer {n}") for n in range(40)]
    prompts = prompt_sets.document_prompts(pairs, random.Random(0))
    assert len(prompts) == 39
    summaries = [text for text in prompts if text.startswith("Summarize: ")]
    assert 10 < len(summaries) < 30
    for place, text in enumerate(prompts):
        if text not in summaries:
            *documents, question = text.split("\n")
            assert question == f"question {place}"
            assert sorted(documents) == sorted((f"answer {place}", f"answer {place + 1}"))


def test_sentences_to_translate_are_neither_short_nor_long() -> None:
    fine = "This sentence has some fifty letters, as it should"
    texts = [f"Short. {fine}. {'much too long ' * 20}."]
    (prompt,) = prompt_sets.translation_prompts(texts, random.Random(0))
    assert prompt.endswith(f": {fine}.")
    assert any(f"Translate English to {language}" in prompt for language in prompt_sets.LANGUAGES)


def test_functions_to_complete_are_python_and_differ() -> None:
    prompts = prompt_sets.function_prompts()
    assert len(set(prompts)) == len(prompts) == 84
    for prompt in prompts:
        (function,) = ast.parse(prompt).body
        assert ast.get_docstring(function)  # type: ignore[arg-type]


def test_long_and_empty_texts_are_left_out() -> None:
    tokenizer = chat_tokenizer()
    found = prompt_sets.encoded(["w5", "  ", "w5 " * 30], tokenizer, 8)
    assert found == [encode_prompt(tokenizer, "w5")]

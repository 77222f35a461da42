"""A tiny target in a folder and questions for it, so that a benchmark can be run whole through the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaForCausalLM

from decoding.__main__ import main
from tests.decoding.tiny import llama_config, save_model

CATEGORIES = ("writing", "coding", "qa", "rag")


def tiny_folder(folder: Path) -> Path:
    """A random Llama of 97 tokens with wide weights, so that its text does not stand still."""
    return save_model(folder, LlamaForCausalLM, llama_config(initializer_range=0.35, tie_word_embeddings=False))


def spec_bench(path: Path, each: int = 1) -> Path:
    """`each` questions of mt_bench twice over, qa and rag; one more of qa is too long for 60 tokens."""
    lines = []
    for number in range(each * len(CATEGORIES)):
        words = " ".join(f"w{(7 * number + 3 * place) % 11}" for place in range(9))
        category = CATEGORIES[number % len(CATEGORIES)]
        lines.append({"question_id": number, "category": category, "turns": [words]})
    lines.append({"question_id": 99, "category": "qa", "turns": ["w3 " * 90]})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def run_bench(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, dict[str, Any]]:
    """What stands on standard output before the last line, and the object on it."""
    assert main(["bench", *words]) == 0
    *before, last = capsys.readouterr().out.splitlines()
    return "\n".join(before), json.loads(last)

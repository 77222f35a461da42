"""Training text on disk: read back as written, strictly, and forgiving only of an interrupted append."""

import gzip
import json
from pathlib import Path

import pytest

from decoding.errors import BadRequest
from decoding.training.corpus import Example, append_examples, keep_lines, read_corpus
from tests.decoding.training.material import texts

VOCAB = 101
GOOD = {"source": "test", "temperature": 0.5, "prompt": [1, 2], "response": [3]}


def test_what_is_appended_is_read_back(tmp_path: Path) -> None:
    path, examples = tmp_path / "text.jsonl", texts(5)
    append_examples(path, examples[:2])
    append_examples(path, examples[2:])
    assert read_corpus([path], VOCAB) == examples
    assert read_corpus([path, path], VOCAB) == [*examples, *examples]


def test_gzip_is_read_as_plain_text_is(tmp_path: Path) -> None:
    plain, packed, examples = tmp_path / "text.jsonl", tmp_path / "text.jsonl.gz", texts(3)
    append_examples(plain, examples)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert read_corpus([packed], VOCAB) == examples


CUT_OFF_GZIP = gzip.compress(b"{}" * 400, mtime=0)[:-12]  # without its time: workers must agree on a test's name


@pytest.mark.parametrize("lost", [1, 2, 10])
def test_a_last_line_that_was_cut_off_is_dropped(lost: int, tmp_path: Path) -> None:
    path, examples = tmp_path / "text.jsonl", texts(3)
    append_examples(path, examples)
    path.write_bytes(path.read_bytes()[:-lost])
    assert read_corpus([path], VOCAB) == (examples if lost == 1 else examples[:2])  # 1: only the line's end is lost


def test_a_cut_off_line_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.jsonl"
    path.write_text(f'{json.dumps(GOOD)}\n{{"source": "te\n{json.dumps(GOOD)}\n')
    with pytest.raises(BadRequest, match=r"text\.jsonl, line 2: not JSON"):
        read_corpus([path], VOCAB)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prompt": None}, "prompt"),
        ({"response": []}, "response"),
        ({"response": [3, VOCAB]}, f"response is not a list of token ids below {VOCAB}"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": [1.0]}, "prompt"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"temperature": "0"}, "temperature"),
        ({"source": 3}, "source"),
    ],
)
def test_a_bad_field_is_named_with_its_line(change: dict[str, object], words: str, tmp_path: Path) -> None:
    path = tmp_path / "text.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps(GOOD | change) + "\n")
    with pytest.raises(BadRequest, match=f"line 2: {words}"):
        read_corpus([path], VOCAB)


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_field_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / "text.jsonl"
    path.write_text(json.dumps({key: value for key, value in GOOD.items() if key != name}) + "\n")
    with pytest.raises(BadRequest, match=f"line 1: {name} is missing"):
        read_corpus([path], VOCAB)


@pytest.mark.parametrize("content", [b"[1]\n", b"3\n", b"\n"])
def test_a_line_that_is_no_object(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "text.jsonl").write_bytes(content)
    with pytest.raises(BadRequest, match="line 1"):
        read_corpus([tmp_path / "text.jsonl"], VOCAB)


@pytest.mark.parametrize(
    ("name", "content"),
    [("text.jsonl", b"\xff\xfe\n"), ("a.gz", b"no gzip"), ("b.gz", CUT_OFF_GZIP), ("gone", None)],
)
def test_a_file_that_cannot_be_read_is_named(name: str, content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadRequest, match=f"{name} cannot be read"):
        read_corpus([tmp_path / name], VOCAB)


def test_keep_lines_drops_the_others_and_ends_the_last(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    for content, count, kept in ((b"a\nb\nc", 3, b"a\nb\nc\n"), (b"a\nb\nc", 2, b"a\nb\n"), (b"a\nb\n", 0, b"")):
        path.write_bytes(content)
        keep_lines(path, count)
        assert path.read_bytes() == kept


def test_an_example_knows_its_length() -> None:
    example = Example("test", 0.0, (1, 2), (3, 4, 5))
    assert (len(example), example.tokens) == (5, (1, 2, 3, 4, 5))

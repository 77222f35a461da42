"""Training text as token ids: a prompt in the target's chat template and what the target itself wrote after it.

One JSON object a line, gzip or not: `source`, `temperature`, `prompt`, `response`. Files grow batch by batch: an
interruption costs one batch, and a last line cut off in the middle is dropped when the file is read.
"""

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from decoding.errors import BadRequest
from decoding.files import write_atomically

FIELDS = ("source", "temperature", "prompt", "response")


@dataclass(frozen=True)
class Example:
    """One prompt and its continuation."""

    source: str
    """Where the prompt comes from."""
    temperature: float
    """What the continuation was sampled at; 0 is greedy."""
    prompt: tuple[int, ...]
    response: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.response)

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.prompt + self.response


def read_corpus(paths: Sequence[Path], vocab_size: int) -> list[Example]:
    """All examples of the files, in order; raises BadRequest naming file, line and field."""
    return [example for path in paths for example in _read(path, vocab_size)]


def _read(path: Path, vocab_size: int) -> list[Example]:
    try:
        content = path.read_bytes()
        lines = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8").split("\n")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise BadRequest(f"{path} cannot be read: {error}.", "Give a corpus: JSON Lines, gzip or not.") from None
    whole, cut_off = lines[:-1], lines[-1]
    examples = [_parse(path, number, line, vocab_size) for number, line in enumerate(whole, 1)]
    if cut_off:
        with suppress(BadRequest):  # an interrupted append: the batch it belonged to is made again
            examples.append(_parse(path, len(lines), cut_off, vocab_size))
    return examples


def _parse(path: Path, number: int, line: str, vocab_size: int) -> Example:
    def bad(what: str) -> BadRequest:
        return BadRequest(f"{path}, line {number}: {what}.", f"Each line is an object with {', '.join(FIELDS)}.")

    try:
        raw = json.loads(line)
    except ValueError:
        raise bad("not JSON") from None
    if not isinstance(raw, dict):
        raise bad("not an object")
    for name in FIELDS:
        if name not in raw:
            raise bad(f"{name} is missing")
    for name in ("prompt", "response"):
        ids = raw[name]
        if not isinstance(ids, list) or not ids or not all(type(i) is int and 0 <= i < vocab_size for i in ids):
            raise bad(f"{name} is not a list of token ids below {vocab_size}")
    if not isinstance(raw["source"], str):
        raise bad("source is not a text")
    if type(raw["temperature"]) not in (int, float) or not 0 <= raw["temperature"] < math.inf:
        raise bad("temperature is not a number from 0")
    return Example(raw["source"], float(raw["temperature"]), tuple(raw["prompt"]), tuple(raw["response"]))


def append_examples(path: Path, examples: Iterable[Example]) -> None:
    """Adds whole lines at the end of a plain file."""
    lines = "".join(json.dumps(asdict(example)) + "\n" for example in examples)
    with path.open("a", encoding="utf-8") as file:
        file.write(lines)


def keep_lines(path: Path, count: int) -> None:
    """Cuts the file after its first `count` lines."""
    content = path.read_bytes()
    kept = b"".join(line + b"\n" for line in content.split(b"\n")[:count])
    if kept != content:
        write_atomically(path, kept)

"""The trace: what is written is read back, and nothing wrong is let in."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoding.drafters.autoregressive import Autoregressive
from decoding.errors import TraceError
from decoding.loop import Request, decode
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.trace import TraceEncoder, TraceWriter, dump_line, parse_trace, read_trace
from decoding.verifiers import make_verifier
from tests.tiny_models import VOCAB, tiny_target


@pytest.fixture(scope="module")
def events() -> list[Any]:
    target = tiny_target("llama")
    request = Request("héllo \u2028 <script>", (5, 6, 7), 12)
    strategy = make_strategy("fixed", {"depth": 3, "branching": 2, "budget": 8})
    return list(decode(target, Autoregressive(target, VOCAB), strategy, make_verifier(None, Sampling()), request))


@pytest.fixture(scope="module")
def lines(events: list[Any]) -> list[dict[str, Any]]:
    encoder = TraceEncoder(lambda token: f"<{token}>")
    return [encoder.encode(event) for event in events]


def as_bytes(lines: list[dict[str, Any]]) -> list[bytes]:
    return [dump_line(line).encode() + b"\n" for line in lines]


def test_a_trace_is_read_back_as_it_was_written(events: list[Any], lines: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with TraceWriter(path) as writer:
        for line in lines:
            writer.write(line)
    trace = read_trace(path)
    assert trace.header == events[0]
    assert trace.summary == events[-1]
    assert len(trace.rounds) == len(events) - 2
    for read, made in zip(trace.rounds, events[1:-1], strict=True):
        np.testing.assert_array_equal(read.tree.token, made.tree.token)
        np.testing.assert_array_equal(read.tree.parent, made.tree.parent)
        np.testing.assert_allclose(read.tree.logprob, made.tree.logprob, atol=1e-5)
        np.testing.assert_array_equal(read.verdict.path, made.verdict.path)
        np.testing.assert_allclose(read.verdict.top_logprob, made.verdict.top_logprob, atol=1e-5)
        assert read.emitted == made.emitted
    shown = {int(token) for item in trace.rounds for token in item.tree.token}
    assert shown <= set(trace.pieces)
    assert trace.lines == tuple(json.loads(json.dumps(line)) for line in lines)


def test_unknown_fields_are_kept_and_an_unknown_schema_is_refused_by_name(lines: list[dict[str, Any]]) -> None:
    later = [{**lines[0], "mood": "good"}, *lines[1:]]
    assert parse_trace(as_bytes(later)).lines[0]["mood"] == "good"
    earlier = [{name: value for name, value in lines[0].items() if name != "retrieval"}, *lines[1:]]
    assert parse_trace(as_bytes(earlier)).header.retrieval == "none"
    with pytest.raises(TraceError, match="schema 7"):
        parse_trace(as_bytes([{**lines[0], "schema": 7}, *lines[1:]]))


def test_a_trace_without_its_end_is_still_a_trace(lines: list[dict[str, Any]]) -> None:
    whole = as_bytes(lines)
    cut = parse_trace(whole[:-1])
    assert cut.summary is None
    torn = parse_trace([*whole[:2], whole[2][:50]])
    assert torn.torn
    assert len(torn.rounds) == 1
    assert len(parse_trace(whole[:1]).rounds) == 0


def changed(lines: list[dict[str, Any]], number: int, path: str, value: Any) -> list[bytes]:
    copy = json.loads(json.dumps(lines))
    *above, name = path.split(".")
    place = copy[number - 1]
    for step in above:
        place = place[step]
    if value is KeyError:
        del place[name]
    else:
        place[name] = value
    return as_bytes(copy)


@pytest.mark.parametrize(
    ("number", "path", "value"),
    [
        (1, "kind", "round"),
        (1, "prompt_ids", [1, "2"]),
        (1, "temperature", "hot"),
        (1, "seed", 2**70),
        (1, "retrieval", 3),
        (2, "tree.token", KeyError),
        (2, "tree.token", [-1, 2]),
        (2, "tree.parent", [-1, 5, 0]),
        (2, "tree.source", [0, 9]),
        (2, "tree.logprob", [0.0, True]),
        (2, "verdict.path", [0, 999]),
        (2, "verdict.top_token", [[1, 2], [3]]),
        (2, "index", 4),
        (2, "emitted", []),
        (2, "pieces", {"x": "y"}),
        (2, "marginals", {"token": [[1]]}),
        (2, "seconds", {"draft": None}),
        (3, "kind", None),
    ],
)
def test_a_wrong_field_is_named_with_its_line(lines: list[dict[str, Any]], number: int, path: str, value: Any) -> None:
    with pytest.raises(TraceError, match=f"Line {number}"):
        parse_trace(changed(lines, number, path, value))


@pytest.mark.parametrize("raw", [b"", b"not json\n", b"[]\n", b'{"kind":"header"}\n', b"NaN\n", b"\xff\xfe\n"])
def test_what_is_no_trace_is_refused(raw: bytes) -> None:
    with pytest.raises(TraceError):
        parse_trace([raw] if raw else [])


def test_deeply_nested_json_is_refused(lines: list[dict[str, Any]]) -> None:
    with pytest.raises(TraceError, match="Line 2"):
        parse_trace([as_bytes(lines)[0], b"[" * 100_000 + b"]" * 100_000 + b"\n"])


def test_a_trace_in_a_place_that_cannot_be_written(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    with (
        TraceWriter(tmp_path / "missing" / "run.jsonl") as writer,
        pytest.raises(TraceError, match="cannot be written"),
    ):
        writer.write(lines[0])
    with pytest.raises(TraceError, match="cannot be read"):
        read_trace(tmp_path / "nothing.jsonl")

"""The trace: what is written is read back, and nothing wrong is let in."""

import io
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from decoding.drafters.autoregressive import Autoregressive
from decoding.errors import TraceError
from decoding.loop import Request, decode
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.trace import MAX_LINES, TraceEncoder, TraceReader, TraceWriter, dump_line, parse_trace, read_trace
from decoding.types import Comparison, Lossless
from decoding.verifiers import make_verifier
from tests.mutated_traces import mutated
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
    assert shown | {5, 6, 7} <= set(trace.pieces)
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


COMPARISON = Comparison({"tokens_per_second": 20.5, "rounds": 12}, 1.7, Lossless(False, 3, 0.25))


def test_a_trace_may_end_with_a_comparison(lines: list[dict[str, Any]]) -> None:
    line = TraceEncoder(str).encode(COMPARISON)
    trace = parse_trace(as_bytes([*lines, line]))
    assert trace.comparison == COMPARISON
    assert trace.lines[-1] == line
    warm = TraceEncoder(str).encode(Comparison({}, None, None))
    assert parse_trace(as_bytes([*lines, warm])).comparison == Comparison({}, None, None)
    assert parse_trace(as_bytes(lines)).comparison is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("baseline", 3),
        ("speedup", "fast"),
        ("speedup", KeyError),
        ("lossless", KeyError),
        ("lossless", True),
        ("lossless.identical", 1),
        ("lossless.identical", True),
        ("lossless.first_divergence", None),
        ("lossless.first_divergence", -1),
        ("lossless.margin", "wide"),
    ],
)
def test_a_wrong_comparison_is_named_with_its_field(lines: list[dict[str, Any]], path: str, value: Any) -> None:
    whole = [*lines, TraceEncoder(str).encode(COMPARISON)]
    with pytest.raises(TraceError, match=rf"Line {len(whole)}: .*{path}"):
        parse_trace(changed(whole, len(whole), path, value))


def test_a_comparison_has_one_place(lines: list[dict[str, Any]]) -> None:
    line = TraceEncoder(str).encode(COMPARISON)
    for misplaced in ([*lines[:-1], line], [*lines[:1], line], [*lines, line, line], [*lines, line, lines[-1]], [line]):
        with pytest.raises(TraceError, match=r"Line \d+"):
            parse_trace(as_bytes(misplaced))


def test_a_reader_keeps_only_its_place(lines: list[dict[str, Any]]) -> None:
    reader = TraceReader()
    kinds = [line["kind"] for line, _ in reader.read([*as_bytes(lines)[:-1], b'{"kind":"summ'])]
    assert kinds == ["header"] + ["round"] * (len(lines) - 2)
    assert (reader.lines, reader.rounds, reader.torn) == (len(lines) - 1, len(lines) - 2, True)
    assert MAX_LINES > 2_000


def outcome(raw: bytes) -> str:
    """`valid`, or the message with which the trace is refused."""
    try:
        trace = parse_trace(io.BytesIO(raw))
    except TraceError as error:
        return error.message
    for line in trace.lines:  # what is let in can be written again
        dump_line(line).encode()
    return "valid"


def test_mutated_traces_are_refused_by_line_or_are_valid(lines: list[dict[str, Any]]) -> None:
    whole = [*lines, TraceEncoder(str).encode(COMPARISON)]
    outcomes = [outcome(mutated(whole, Random(seed))) for seed in range(800)]
    refused = [text for text in outcomes if text != "valid"]
    assert all(text.startswith(("Line ", "The trace is empty")) for text in refused)
    assert len(refused) > 300
    assert len(outcomes) - len(refused) > 50


@pytest.mark.parametrize("settings", ['{"a":"\\ud800"}', '{"a":1e400}', '{"a":-1E+999}', "{" * 3])
def test_what_could_not_be_written_again_is_refused(lines: list[dict[str, Any]], settings: str) -> None:
    raw = dump_line({**lines[0], "settings": {"mark": 1}}).replace('{"mark":1}', settings).encode() + b"\n"
    with pytest.raises(TraceError, match="Line 1"):
        parse_trace([raw])


def test_emoji_written_as_surrogate_pairs_are_text(lines: list[dict[str, Any]]) -> None:
    raw = json.dumps({**lines[0], "prompt": "\U0001f333"}).encode() + b"\n"
    assert b"\\ud83c" in raw
    assert parse_trace([raw]).header.prompt == "\U0001f333"

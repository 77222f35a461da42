"""The trace: JSON Lines, one event a line: a header, every round, a summary, a comparison if there was one. Schema 1.

The same JSON objects go to the file, to the browser and over the API. Trees are columnar (arrays per tree), NaN is
null, and each round carries the display text (`pieces`) of the token ids seen for the first time, so that a trace can
be replayed with no model and no tokenizer.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from decoding.errors import TraceError
from decoding.trace_schema import check_event
from decoding.types import Comparison, Lossless, Marginals, Round, RunHeader, Summary, Tree, Verdict

SCHEMA = 1
MAX_LINE_BYTES = 32 * 2**20
MAX_LINES = 100_000
RECORDED_RANKS = 64
"""Ranks of each position's marginals that are recorded; enough to re-plan any tree of up to 64 nodes exactly."""

Event = RunHeader | Round | Summary | Comparison
BUILT = {"header": RunHeader, "summary": Summary, "comparison": Comparison}


class TraceEncoder:
    """Events to JSON objects. `piece` gives the display text of one token id."""

    def __init__(self, piece: Callable[[int], str]) -> None:
        self._piece = piece
        self._known: set[int] = set()
        self._prompt: tuple[int, ...] = ()  # told with the first round, for drafts that are copied from the prompt

    def encode(self, event: Event) -> dict[str, Any]:
        """The JSON object of one event."""
        if isinstance(event, RunHeader):
            self._prompt = event.prompt_ids
            return {"kind": "header", "schema": SCHEMA, **asdict(event)}
        if isinstance(event, Summary):
            return {"kind": "summary", **asdict(event)}
        if isinstance(event, Comparison):
            return {"kind": "comparison", **asdict(event)}
        return self._round(event)

    def _round(self, item: Round) -> dict[str, Any]:
        tree, verdict, marginals = item.tree, item.verdict, item.marginals
        ranks = None if marginals is None else min(RECORDED_RANKS, marginals.token.shape[1])
        shown = [tree.token, verdict.choice, verdict.top_token, np.array([*item.emitted, verdict.bonus, *self._prompt])]
        self._prompt = ()
        if marginals is not None:
            shown.append(marginals.token[:, :ranks])
        return {
            "kind": "round",
            "index": item.index,
            "tree": {
                "token": tree.token.tolist(),
                "parent": tree.parent.tolist(),
                "logprob": _numbers(tree.logprob),
                "source": tree.source.tolist(),
            },
            "marginals": None
            if marginals is None
            else {
                "token": marginals.token[:, :ranks].tolist(),
                "logprob": _numbers(marginals.logprob[:, :ranks]),
            },
            "verdict": {
                "path": verdict.path.tolist(),
                "bonus": verdict.bonus,
                "logprob": _numbers(verdict.logprob),
                "rank": verdict.rank.tolist(),
                "choice": verdict.choice.tolist(),
                "entropy": _numbers(verdict.entropy),
                "top_token": verdict.top_token.tolist(),
                "top_logprob": _numbers(verdict.top_logprob),
            },
            "emitted": list(item.emitted),
            "emitted_text": list(item.emitted_text),
            "cache_before": item.cache_before,
            "cache_after": item.cache_after,
            "seconds": {name: round(value, 7) for name, value in item.seconds.items()},
            "decision": item.decision,
            "pieces": self._pieces(shown),
        }

    def _pieces(self, shown: Iterable[NDArray[Any]]) -> dict[str, str]:
        new = set(np.concatenate([array.ravel() for array in shown]).tolist()) - self._known
        self._known |= new
        return {str(token): self._piece(token) for token in sorted(new)}


def _numbers(values: NDArray[np.floating[Any]]) -> list[Any]:
    """Nested lists with 5 decimals; NaN and infinities as null."""
    rounded = np.round(values.astype(np.float64), 5).astype(object)
    rounded[~np.isfinite(values)] = None
    return list(rounded.tolist())


def dump_line(line: dict[str, Any]) -> str:
    """One JSON line, without the newline."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


class TraceWriter:
    """Appends lines to a trace file; none waits in a buffer, so an interrupted run leaves the rounds so far.

    The file is made at the first line: a run that fails before its prefill leaves none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, line: dict[str, Any]) -> None:
        """Appends one JSON object."""
        left = (dump_line(line) + "\n").encode("utf-8")
        try:
            if self._file is None:
                self._file = self.path.open("wb", buffering=0)
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            raise TraceError(
                f"The trace {self.path} cannot be written: {error.strerror}.", "Choose another place for it."
            ) from None


@dataclass(frozen=True, eq=False)
class Trace:
    """A recorded run. `summary` is None where the run was cut off."""

    header: RunHeader
    rounds: tuple[Round, ...]
    summary: Summary | None
    pieces: dict[int, str]
    """Display text of every token id that occurs."""
    lines: tuple[dict[str, Any], ...]
    """The JSON objects as they were read: fields that this version does not know are kept here."""
    torn: bool = False
    """The last line was cut off in the middle of a write and has been left out."""
    comparison: Comparison | None = None


def read_trace(path: Path) -> Trace:
    """Reads and checks a trace file; raises TraceError naming line and field."""
    try:
        if path.stat().st_size > MAX_LINES * MAX_LINE_BYTES:
            raise TraceError(f"{path} is too large to be a trace.")
        with path.open("rb") as file:
            return parse_trace(file)
    except OSError as error:
        raise TraceError(f"The trace {path} cannot be read: {error.strerror}.", "Check the file name.") from None


def parse_trace(lines: Iterable[bytes]) -> Trace:
    """A Trace from its lines; strict, with bounded sizes, and every round checked against the types."""
    reader = TraceReader()
    header: RunHeader | None = None
    rounds: list[Round] = []
    summary: Summary | None = None
    comparison: Comparison | None = None
    pieces: dict[int, str] = {}
    kept: list[dict[str, Any]] = []
    for line, event in reader.read(lines):
        kept.append(line)
        if isinstance(event, RunHeader):
            header = event
        elif isinstance(event, Round):
            rounds.append(event)
            pieces.update({int(token): text for token, text in line["pieces"].items()})
        elif isinstance(event, Summary):
            summary = event
        else:
            comparison = event
    if header is None:
        raise TraceError("The trace is empty.", "A trace starts with a header line.")
    return Trace(header, tuple(rounds), summary, pieces, tuple(kept), reader.torn, comparison)


_UNWRITABLE = re.compile(rb"\\u[dD][89a-fA-F]|[eE]\+?[0-9]{3}")
"""Half a surrogate pair or an infinity might be in the line: Python reads them, but nobody could write them again."""


class TraceReader:
    """Reads a trace event by event, strictly. It keeps nothing but its place, so a long trace needs little memory."""

    def __init__(self) -> None:
        self.lines = 0
        """Whole lines read so far."""
        self.rounds = 0
        self.torn = False
        """The last line was cut off in the middle of a write and has been left out."""
        self._last: str | None = None

    def read(self, lines: Iterable[bytes]) -> Iterator[tuple[dict[str, Any], Event]]:
        """Each line's JSON object and the event that it holds; raises TraceError naming line and field."""
        for number, raw in enumerate(lines, start=1):
            if number > MAX_LINES or len(raw) > MAX_LINE_BYTES:
                raise TraceError(f"Line {number}: too long to be a trace.")
            try:
                line = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
                if _UNWRITABLE.search(raw):
                    dump_line(line).encode("utf-8")
            except (ValueError, RecursionError):
                self.torn = not raw.endswith(b"\n") and self._last is not None
                if self.torn:
                    return
                raise TraceError(f"Line {number}: this is not JSON.", "A trace is one JSON object a line.") from None
            event = self._event(line, number)
            self.lines = number
            yield line, event
        if not self.lines:
            raise TraceError("The trace is empty.", "A trace starts with a header line.")

    def _event(self, line: Any, number: int) -> Event:
        kind = check_event(line, number, first=self._last is None)
        if self._last in ("summary", "comparison") and (self._last, kind) != ("summary", "comparison"):
            raise TraceError(f"Line {number}: there is something behind the {self._last}.", "Remove it.")
        if kind == "comparison" and self._last != "summary":
            raise TraceError(f"Line {number}: a comparison stands behind the summary.", "Remove it.")
        self._last = kind
        try:
            if kind == "round":
                if line["index"] != self.rounds:
                    raise ValueError(f"index is {line['index']}, expected {self.rounds}")
                self.rounds += 1
                return _round_from(line)
            if kind == "comparison":
                lossless = line["lossless"]
                line = line | {"lossless": lossless and _from_fields(Lossless, lossless)}
            return cast(Event, _from_fields(BUILT[kind], line))
        except (ValueError, OverflowError) as error:
            raise TraceError(f"Line {number}: {error}.") from None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _from_fields(kind: Any, line: dict[str, Any]) -> Any:
    known = {item.name for item in fields(kind)}
    return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in line.items() if name in known})


def _floats(values: list[Any]) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float64).astype(np.float32)  # None becomes NaN


def _round_from(line: dict[str, Any]) -> Round:
    tree, verdict, marginals = line["tree"], line["verdict"], line["marginals"]
    built = Round(
        index=line["index"],
        tree=Tree(
            np.array(tree["token"]), np.array(tree["parent"]), _floats(tree["logprob"]), np.array(tree["source"])
        ),
        verdict=Verdict(
            path=np.array(verdict["path"]),
            bonus=verdict["bonus"],
            logprob=_floats(verdict["logprob"]),
            rank=np.array(verdict["rank"]),
            choice=np.array(verdict["choice"]),
            entropy=_floats(verdict["entropy"]),
            top_token=np.array(verdict["top_token"]),
            top_logprob=_floats(verdict["top_logprob"]),
        ),
        emitted=tuple(line["emitted"]),
        emitted_text=tuple(line["emitted_text"]),
        cache_before=line["cache_before"],
        cache_after=line["cache_after"],
        seconds=line["seconds"],
        marginals=None
        if marginals is None
        else Marginals(np.array(marginals["token"]), _minus_infinity(_floats(marginals["logprob"]))),
        decision=line["decision"],
    )
    if len(built.verdict.logprob) != len(built.tree):
        raise ValueError("verdict and tree differ in length")
    if built.verdict.top_token.shape != built.verdict.top_logprob.shape:
        raise ValueError("verdict.top_token and verdict.top_logprob differ in shape")
    path = built.verdict.path
    if len(path) > 1 and not np.array_equal(built.tree.parent[path[1:]], path[:-1]):
        raise ValueError("verdict.path is not a path of the tree")
    if len(built.emitted) != len(built.emitted_text) or len(built.emitted) > len(path):
        raise ValueError("emitted does not fit the accepted path")
    return built


def _minus_infinity(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.where(np.isnan(values), np.float32("-inf"), values)

"""Runs kept for links: whole traces in memory, each under an id that nobody can guess, bounded, the oldest gone first.

Nothing here lists runs: whoever holds an id may read that run, only the visitor who gave it may take it away.
"""

import gzip
import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from decoding.errors import BadRequest
from decoding.trace import TraceReader

MAX_FILE_BYTES = 64 * 2**20
"""The longest trace that is taken: about 3,000 rounds of 64 nodes. static/import_runs.js says it, too."""
MAX_VISITOR_RUNS = 24
MAX_VISITOR_BYTES = 48 * 2**20
"""Compressed, as all bytes here are: a trace shrinks to about a fifth."""
MAX_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Kept:
    """What was let in."""

    id: str
    lines: int
    """Whole lines: a last line that was cut off in the middle of a write is left out."""
    rounds: int
    torn: bool


@dataclass(frozen=True)
class _Run:
    visitor: str
    packed: bytes


class KeptRuns:
    """Traces by id. An id is drawn from the visitor's secret and the text: the same file brings a lost link back."""

    def __init__(
        self,
        max_visitor_runs: int = MAX_VISITOR_RUNS,
        max_visitor_bytes: int = MAX_VISITOR_BYTES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.max_visitor_runs = max_visitor_runs
        self.max_visitor_bytes = max_visitor_bytes
        self.max_bytes = max_bytes
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._lock = threading.Lock()
        self._one_check = threading.Lock()

    def keep(self, visitor: str, raw: bytes) -> Kept:
        """Checks a trace with the strict reader and keeps it; raises TraceError naming line and field."""
        with self._one_check:  # a check takes a while: visitors take turns, and leave the device its time
            reader = TraceReader()
            for _ in reader.read(io.BytesIO(raw)):
                pass
        whole = raw[: raw.rfind(b"\n") + 1] if reader.torn else raw
        packed = gzip.compress(whole, compresslevel=4, mtime=0)
        if len(packed) > min(self.max_visitor_bytes, self.max_bytes):
            raise BadRequest("This trace is too large to be kept for a link.", "Send the file itself.")
        run_id = hashlib.sha256(visitor.encode() + whole).hexdigest()[:32]
        with self._lock:
            self._runs.pop(run_id, None)
            self._runs[run_id] = _Run(visitor, packed)
            self._shrink(visitor)
        return Kept(run_id, reader.lines, reader.rounds, reader.torn)

    def find(self, run_id: str) -> bytes | None:
        """The trace, gzipped; None where there is none (any more)."""
        with self._lock:
            run = self._runs.get(run_id)
            return run.packed if run else None

    def drop(self, visitor: str, run_id: str) -> bool:
        """Takes a run away; False where this visitor has none of that id."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is None or run.visitor != visitor:
                return False
            del self._runs[run_id]
            return True

    def _shrink(self, visitor: str) -> None:
        own = [name for name, run in self._runs.items() if run.visitor == visitor]
        while len(own) > self.max_visitor_runs or self._bytes(own) > self.max_visitor_bytes:
            del self._runs[own.pop(0)]
        while self._bytes(self._runs) > self.max_bytes:
            self._runs.popitem(last=False)

    def _bytes(self, ids: Iterable[str]) -> int:
        return sum(len(self._runs[name].packed) for name in ids)

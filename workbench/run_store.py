"""The events of recent runs, as JSON text, so that a browser that missed some can ask for them by number."""

import json
import threading
from collections import OrderedDict
from typing import Any

Event = dict[str, Any]
MAX_RUNS = 16
MAX_BYTES = 128 * 2**20


class RunEvents:
    """The growing event log of one run. One thread adds, others wait and read."""

    def __init__(self, ticket: str) -> None:
        self.ticket = ticket
        self.stop = threading.Event()
        """Set to end the run after the round in hand."""
        self.bytes = 0
        self._lines: list[str] = []
        self._ended = False
        self._changed = threading.Condition()

    def add(self, event: Event) -> None:
        """Appends one event."""
        line = json.dumps(event, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        with self._changed:
            self._lines.append(line)
            self.bytes += len(line)
            self._changed.notify_all()

    def end(self) -> None:
        """No event will follow."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def since(self, first: int, timeout: float = 0) -> tuple[list[str], bool]:
        """The events from number `first` on, and whether these are the last. Waits up to `timeout` seconds for one."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or len(self._lines) > first, timeout)
            return self._lines[first:], self._ended


class RunStore:
    """Keeps the last runs, bounded in number and in bytes; the oldest go first."""

    def __init__(self, max_runs: int = MAX_RUNS, max_bytes: int = MAX_BYTES) -> None:
        self.max_runs = max_runs
        self.max_bytes = max_bytes
        self._runs: OrderedDict[str, RunEvents] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, ticket: str) -> RunEvents:
        """The log of a run, made at the first call: a run that waits its turn can already be stopped."""
        with self._lock:
            if ticket not in self._runs:
                self._runs[ticket] = RunEvents(ticket)
                self._shrink()
            return self._runs[ticket]

    def find(self, ticket: str) -> RunEvents | None:
        """The log of a run, None where there is none (any more)."""
        with self._lock:
            return self._runs.get(ticket)

    def _shrink(self) -> None:
        while len(self._runs) > 1 and (
            len(self._runs) > self.max_runs or sum(run.bytes for run in self._runs.values()) > self.max_bytes
        ):
            self._runs.popitem(last=False)

"""The events of recent runs, as JSON text, so that a browser that missed some can ask for them by number."""

import json
import re
import threading
from collections import OrderedDict
from typing import Any

from decoding.errors import BadRequest

Event = dict[str, Any]
MAX_RUNS = 160
"""More than can wait for the device: what has just ended is still there."""
MAX_STOPPED = 256
MAX_BYTES = 128 * 2**20
TRACE = ("header", "round", "summary", "comparison")
"""Kinds of events that a trace file holds."""
TRACE_LINES = tuple(f'{{"kind":"{kind}"' for kind in TRACE)
LANE = re.compile(r"(.+)-(\d)")
"""What one lane of a comparison is called: its number, and that of the lane."""


class RunEvents:
    """The growing event log of one run, and how far the run may go. One thread adds, others wait, read and steer."""

    def __init__(self, ticket: str) -> None:
        self.ticket = ticket
        self.stop = threading.Event()
        """Set to end the run after the round in hand; `halt` tells those who wait, too."""
        self.begun = False
        self.bytes = 0
        self.rounds = 0
        self._rounds_allowed: int | None = None
        self._lines: list[str] = []
        self._trace: list[int] = []
        self._ended = False
        self._changed = threading.Condition()

    @property
    def live(self) -> bool:
        """Whether a run is writing it."""
        return self.begun and not self._ended

    def add(self, event: Event) -> None:
        """Appends one event."""
        line = json.dumps(event, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        with self._changed:
            if line.startswith(TRACE_LINES):
                self._trace.append(len(self._lines))
            self._lines.append(line)
            self.bytes += len(line)
            self.rounds += event["kind"] == "round"
            if event["kind"] == "summary":
                self._rounds_allowed = None
            self._changed.notify_all()

    def halt(self) -> None:
        """Ends the run after the round in hand, or at once where it waits."""
        with self._changed:
            self.stop.set()
            self._changed.notify_all()

    def step(self) -> None:
        """One more round (or the one in hand), then the run waits."""
        with self._changed:
            self._rounds_allowed = self.rounds + 1
            self._changed.notify_all()

    def proceed(self) -> None:
        """On to the end."""
        with self._changed:
            self._rounds_allowed = None
            self._changed.notify_all()

    @property
    def may_go_on(self) -> bool:
        """Whether another round may begin."""
        return self._rounds_allowed is None or self.rounds < self._rounds_allowed

    def wait_to_go_on(self, seconds: float) -> bool:
        """Waits until another round may begin; False where the run is to end first, or after `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self.stop.is_set() or self.may_go_on, seconds)
            return self.may_go_on and not self.stop.is_set()

    def trace_text(self) -> str | None:
        """The run as a trace file; None while it is being written."""
        with self._changed:
            return "".join(self._lines[number] + "\n" for number in self._trace) if self._ended else None

    def end(self) -> None:
        """No event will follow."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for_end(self, seconds: float) -> None:
        """Returns when no event will follow, or after `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended, seconds)

    def since(self, first: int, timeout: float = 0) -> tuple[list[str], bool]:
        """The events from number `first` on, and whether these are the last. Waits up to `timeout` seconds for one."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or len(self._lines) > first, timeout)
            return self._lines[first:], self._ended


class LaneEvents:
    """One lane of a comparison, read as a run of its own."""

    def __init__(self, log: RunEvents, lane: int) -> None:
        self._log = log
        self._begins = f'{{"lane":{lane},'
        """A line of the lane; the rest of it is the line of a run."""

    def since(self, first: int) -> tuple[list[str], bool]:
        """As that of a run."""
        lines, ended = self._log.since(0)
        own = ["{" + line.removeprefix(self._begins) for line in lines if line.startswith(self._begins)]
        return own[first:], ended

    def trace_text(self) -> str | None:
        """As that of a run."""
        lines, ended = self.since(0)
        return "".join(line + "\n" for line in lines if line.startswith(TRACE_LINES)) if ended else None


class RunStore:
    """Keeps the last runs, bounded in number and in bytes; the oldest go first, and none that is being written."""

    def __init__(self, max_runs: int = MAX_RUNS, max_bytes: int = MAX_BYTES) -> None:
        self.max_runs = max_runs
        self.max_bytes = max_bytes
        self._runs: OrderedDict[str, RunEvents] = OrderedDict()
        self._stopped: OrderedDict[str, None] = OrderedDict()
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

    def find_trace(self, ticket: str) -> RunEvents | LaneEvents | None:
        """What a run, or one lane of a comparison, has said."""
        lane = LANE.fullmatch(ticket)
        log = self.find(ticket)
        if log is None and lane is not None and (whole := self.find(lane[1])) is not None:
            return LaneEvents(whole, int(lane[2]))
        return log

    def begin(self, ticket: str) -> RunEvents:
        """The log for a run that begins; raises BadRequest where another run has this number."""
        log = self.open(ticket)
        with self._lock:
            if log.begun:
                raise BadRequest("There is a run with this number already.", "Load the page again.")
            log.begun = True
            if ticket in self._stopped:
                log.halt()
            return log

    def halt(self, ticket: str) -> None:
        """Ends a run; one that has not begun ends as it begins."""
        with self._lock:
            log = self._runs.get(ticket)
            if log is None:
                self._stopped[ticket] = None
                while len(self._stopped) > MAX_STOPPED:
                    self._stopped.popitem(last=False)
        if log is not None:
            log.halt()

    def _shrink(self) -> None:
        while len(self._runs) > self.max_runs or sum(run.bytes for run in self._runs.values()) > self.max_bytes:
            old = next((ticket for ticket, run in list(self._runs.items())[:-1] if not run.live), None)
            if old is None:
                return
            del self._runs[old]

"""Runs that have begun, and what lets one of them wait between its rounds while others decode.

A run that goes step by step holds its own decoding state (the target's cache, drafters of its own), not the device:
that is given up after each round. It ends where nobody steps for a while, where too many wait, and where another run
needs another target, since two do not fit into memory.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from workbench.policy import ServerPolicy
from workbench.run_store import RunEvents
from workbench.turns import Turn

END_SECONDS = 10.0
"""How long a waiting run may take to let go of what it holds."""


@dataclass(frozen=True, eq=False)
class OpenRun:
    """A run, its hold on the device, and the target that it uses."""

    log: RunEvents
    turn: Turn
    target: str


class OpenRuns:
    """Those that have begun and have not ended."""

    def __init__(self, most_waiting: int) -> None:
        self.most_waiting = most_waiting
        self._open: list[OpenRun] = []
        self._waiting: list[OpenRun] = []
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def waiting(self) -> int:
        """How many wait for a step."""
        return len(self._waiting)

    @contextmanager
    def holding(self, run: OpenRun) -> Iterator[None]:
        """Inside, the run is open."""
        with self._changed:
            self._open.append(run)
        try:
            yield
        finally:
            with self._changed:
                self._open.remove(run)
                self._changed.notify_all()

    def end_others(self, run: OpenRun) -> None:
        """Ends those with another target, which all wait: `run` has the device. Returns when they have let go."""
        with self._changed:
            others = [other for other in self._open if other.target != run.target]
            for other in others:
                _end(other, "Ended: another model is wanted on the device.")
            self._changed.wait_for(lambda: not any(other in self._open for other in others), END_SECONDS)

    def gate(self, run: OpenRun, policy: ServerPolicy) -> Callable[[], bool]:
        """The `should_stop` of a run: asked before each round, it returns when the round may begin, or the run end."""

        def ends() -> bool:
            if run.log.stop.is_set():
                return True
            if run.turn.seconds > policy.max_seconds:
                _end(run, f"Stopped: a run takes {policy.max_seconds:.0f} seconds here at most.")
                return True
            return not run.log.may_go_on and not self._wait_for_step(run, policy.step_seconds)

        return ends

    def _wait_for_step(self, run: OpenRun, seconds: float) -> bool:
        """Gives the device up until the next round is wanted; False where the run is to end."""
        run.turn.give()
        self._make_room(run)
        _say(run, f"Round {run.log.rounds} is done: step, or run on", waiting="step")
        try:
            wanted = run.log.wait_to_go_on(seconds)
        finally:
            with self._changed:
                self._waiting.remove(run)
        if wanted:
            return run.turn.take()
        _end(run, f"Ended: nobody stepped for {seconds:.0f} seconds.")
        return False

    def _make_room(self, run: OpenRun) -> None:
        with self._changed:
            for other in self._waiting[: max(0, len(self._waiting) + 1 - self.most_waiting)]:
                _end(other, "Ended: too many runs wait for a step.")
            self._waiting.append(run)


def _end(run: OpenRun, why: str) -> None:
    if not run.log.stop.is_set():
        _say(run, why)
        run.log.halt()


def _say(run: OpenRun, text: str, **more: str) -> None:
    run.log.add({"kind": "status", "text": text, **more})

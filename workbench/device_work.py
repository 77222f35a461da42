"""The one device: who holds it, who waits for it, and the threads in which its work is done."""

import contextvars
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from decoding.errors import BadRequest
from workbench.boundary import explain
from workbench.open_runs import OpenRun, OpenRuns
from workbench.policy import ServerPolicy
from workbench.run_store import RunEvents, RunStore
from workbench.shares import Shares
from workbench.turns import Busy, DeviceQueue, Turn
from workbench.visitor import Visitor

BATCH_SECONDS = 0.25
"""How long events are gathered after a batch."""
HEARTBEAT_SECONDS = 1.0
"""How often silent work speaks up, so that a closed tab is noticed."""
Work = Callable[[RunEvents], None]
Batch = tuple[int, list[str]]
"""The number of the first event, and the events (JSON text) that came since the last batch."""


class DeviceWork:
    """Everything that uses the device goes through `stream` and `held`, or `at_once`."""

    def __init__(self, policy: ServerPolicy) -> None:
        self.runs = RunStore()
        self.open = OpenRuns(policy.max_stepped)
        self.queue = DeviceQueue(policy.max_waiting)
        self._shares = Shares(policy)

    def stream(self, ticket: str, work: Work, visitor: Visitor, pause: float = BATCH_SECONDS) -> Iterator[Batch]:
        """Does the work in a thread of its own and yields its events; what it raises comes as the last of them.

        The first events come at once, later ones are gathered for `pause` seconds. Closing the iterator asks the work
        to end. It counts to the visitor's share until it has ended, however that comes about; where that share is used
        up an error is the only event, and no run is kept for it. Raises BadRequest where there has been a run with
        this number.
        """
        try:
            log = self._begun(ticket, work, visitor)
        except Busy as error:
            yield 0, [json.dumps(explain(error).event())]
            return
        sent, ended = 0, False
        try:
            while not ended:
                lines, ended = log.since(sent, HEARTBEAT_SECONDS)
                yield sent, lines
                sent += len(lines)
                log.wait_for_end(pause)
        finally:
            self.stop(ticket)

    def _begun(self, ticket: str, work: Work, visitor: Visitor) -> RunEvents:
        """The log of the work, which is under way; raises Busy or BadRequest where it is not to be."""
        self._shares.take(visitor)
        try:
            log = self.runs.begin(ticket)
        except BaseException:
            self._shares.give(visitor)
            raise

        def end() -> None:
            self._shares.give(visitor)  # first: whoever has heard the end may begin again
            log.end()

        def whole() -> None:
            try:
                work(log)
            except BaseException as error:  # also what ends a thread: the visitor would wait for nothing
                log.add(explain(error).event())
            finally:
                end()

        context = contextvars.copy_context()
        try:
            threading.Thread(target=context.run, args=(whole,), name="canopy-run", daemon=True).start()
        except BaseException:
            end()
            raise
        return log

    def stop(self, ticket: str) -> None:
        """Asks work to end; work that waits, for its turn or for a step, ends at once."""
        self.runs.halt(ticket)
        self.queue.look()

    @contextmanager
    def held(self, log: RunEvents, target: str) -> Iterator[OpenRun | None]:
        """Inside, the work has the device, and no other target is in use; None where it is no longer wanted."""
        job = OpenRun(log, self._turn(log), target)
        if not job.turn.take():
            yield None
            return
        try:
            self.open.end_others(job)
            yield job
        finally:
            job.turn.give()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside, the device is held; raises BadRequest where anybody uses or awaits it."""
        if not self.queue.take_at_once():
            raise BadRequest("A run is using the device.", "Stop it, or unload when it has ended.")
        try:
            if len(self.open):
                raise BadRequest("A run that waits for its next step uses it.", "Stop that run first.")
            yield
        finally:
            self.queue.give()

    def _turn(self, log: RunEvents) -> Turn:
        def told(before: int) -> None:
            text = f"Waiting for the device: {before} before you" if before else "Your turn"
            log.add({"kind": "status", "text": text, "place": before})

        return Turn(self.queue, lambda: not log.stop.is_set(), told)


def reporter(log: RunEvents) -> Callable[[str], None]:
    """Writes sentences on what is being done into a log."""
    return lambda text: log.add({"kind": "status", "text": text})

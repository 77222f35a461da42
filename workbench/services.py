"""Owns what runs share: the engine with its models, the one device, cancellation, and the events of recent runs."""

import contextvars
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from decoding.errors import BadRequest, UnknownName
from workbench.boundary import explain
from workbench.engine import Choice, Engine
from workbench.run_request import RunRequest
from workbench.run_store import Event, RunEvents, RunStore

BATCH_SECONDS = 0.1
HEARTBEAT_SECONDS = 1.0
"""How often a silent run speaks up, so that a closed tab is noticed."""
NO_DRAFTER: Choice = ("None", "none")


@dataclass(frozen=True)
class Offer:
    """What can be chosen together, and why the rest cannot."""

    drafters: list[Choice]
    drafter: str
    strategies: list[Choice]
    strategy: str
    reasons: list[tuple[str, str]]
    """Title and reason of each drafter and strategy that is not offered."""


class Services:
    """One per server. Every run goes through `stream`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.runs = RunStore()
        self._device = threading.Lock()

    def offer(self, target: str, drafter: str, strategy: str) -> Offer:
        """What fits the target; the drafter and the strategy asked for are kept where they can be."""
        self.require_known(target, drafter, strategy)
        engine = self.engine
        strategies = engine.strategies()
        drafters = [*engine.drafters(), NO_DRAFTER]

        def fits(one: str, way: str) -> bool:
            return engine.misfit(target, one, way) is None

        usable = [item for item in drafters if any(fits(item[1], name) for _, name in strategies)]
        if not usable:
            raise BadRequest(f"Nothing can be run with {target}.", "Choose another target.")
        kept = drafter if drafter in _ids(usable) else usable[0][1]
        offered = [item for item in strategies if fits(kept, item[1])]
        chosen = strategy if strategy in _ids(offered) else offered[0][1]
        reasons = [(title, self._why_never(target, one)) for title, one in drafters if one not in _ids(usable)]
        reasons += [(t, engine.misfit(target, kept, way) or "") for t, way in strategies if way not in _ids(offered)]
        return Offer(usable, kept, offered, chosen, reasons)

    def _why_never(self, target: str, drafter: str) -> str:
        """Why a drafter fits no strategy; a reason that speaks of the target says more than one about the strategy."""
        reasons = [self.engine.misfit(target, drafter, way) or "" for way in _ids(self.engine.strategies())]
        title = next(title for title, name in self.engine.targets() if name == target)
        return next((reason for reason in reasons if title in reason), reasons[-1])

    def require_known(self, target: str, drafter: str | None, strategy: str) -> None:
        """Only what stands in the catalogue is served: a visitor cannot make the server load a path or a Hub id."""
        engine = self.engine
        for kind, name, known in (
            ("target", target, engine.targets()),
            ("drafter", "none" if drafter is None else drafter, [*engine.drafters(), NO_DRAFTER]),
            ("strategy", strategy, engine.strategies()),
        ):
            if name not in _ids(known):
                raise UnknownName(kind, str(name)[:80], _ids(known))

    def stream(self, ticket: str, build: Callable[[], RunRequest]) -> Iterator[tuple[int, list[str]]]:
        """Runs, and yields the number of the first event and the events (JSON text) that came since the last yield.

        Errors, also those of `build`, come as the last event. Closing the iterator ends the run within a round.
        """
        log = self.runs.open(ticket)
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._work, log, build), name="canopy-run", daemon=True).start()
        sent, ended = 0, False
        try:
            while not ended:
                lines, ended = log.since(sent, HEARTBEAT_SECONDS)
                if not ended:
                    log.stop.wait(BATCH_SECONDS)
                    lines, ended = log.since(sent)
                yield sent, lines
                sent += len(lines)
        finally:
            log.stop.set()

    def events(self, request: RunRequest, ticket: str) -> Iterator[Event]:
        """A run for a program: its events as they are; errors are raised."""
        self.require_known(request.target, request.drafter, request.strategy)
        stop = self.runs.open(ticket).stop
        try:
            with self._device:
                yield from self.engine.run(request, stop.is_set, lambda _: None)
        finally:
            stop.set()

    def stop(self, ticket: str) -> None:
        """Ends a run after the round in hand; one that still waits its turn ends at once when it comes."""
        self.runs.open(ticket).stop.set()

    def _work(self, log: RunEvents, build: Callable[[], RunRequest]) -> None:
        try:
            request = build()
            self.require_known(request.target, request.drafter, request.strategy)
            with self._device:
                if not log.stop.is_set():
                    self._run(log, request)
        except Exception as error:
            log.add(explain(error).event())
        finally:
            log.end()

    def _run(self, log: RunEvents, request: RunRequest) -> None:
        def report(text: str) -> None:
            log.add({"kind": "status", "text": text})

        for event in self.engine.run(request, log.stop.is_set, report):
            log.add(event)


def _ids(choices: list[Choice]) -> list[str]:
    return [name for _, name in choices]

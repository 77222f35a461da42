"""Runs and comparisons on the device: from a request to its events."""

from collections.abc import Callable, Iterator
from itertools import chain

from decoding.errors import OutOfMemory
from decoding.exhaustion import is_out_of_memory
from workbench.boundary import explain
from workbench.device import Device
from workbench.device_work import BATCH_SECONDS, Batch, DeviceWork, reporter
from workbench.engine import Choice, Engine
from workbench.menu import NO_DRAFTER, Menu
from workbench.policy import ServerPolicy
from workbench.run_request import Asked, RunRequest
from workbench.run_store import Event, RunEvents
from workbench.smaller import smaller
from workbench.visitor import Visitor

ALL_TARGETS = "all"
"""What a run holds where no target has to go for another."""


class Running:
    """Runs what the menu has."""

    def __init__(self, engine: Engine, policy: ServerPolicy, menu: Menu, work: DeviceWork, device: Device) -> None:
        self.engine = engine
        self.policy = policy
        self.menu = menu
        self.work = work
        self.device = device

    def stream(
        self, ticket: str, build: Callable[[], Asked], stepping: bool, visitor: Visitor, pause: float = BATCH_SECONDS
    ) -> Iterator[Batch]:
        """See `Services.stream`."""

        def work(log: RunEvents) -> None:
            if stepping:
                self.require_steps()
                log.step()
            self._run(log, self.menu.settled(build()))

        return self.work.stream(ticket, work, visitor, pause)

    def require_steps(self) -> None:
        """Raises BadRequest where a run cannot wait between its rounds."""
        if (refusal := self.device.no_steps()) is not None:
            raise refusal

    def _run(self, log: RunEvents, request: Asked) -> None:
        with self.work.held(log, ALL_TARGETS if self.device.holds_all else request.target) as run:
            if run is None:
                return
            full: OutOfMemory | None = None
            with self.work.open.holding(run):
                may_end = self.work.open.gate(run, self.policy)
                try:
                    for event in self._made(request, may_end, reporter(log)):
                        log.add(event)
                except Exception as error:
                    if not is_out_of_memory(error):
                        raise
                    full = OutOfMemory(explain(error).message, smaller(request, self.menu.nodes(request)))
            if full is not None:  # the error is gone, and with it what its frames held
                self.engine.relieve()
                raise full

    def _made(self, request: Asked, should_stop: Callable[[], bool], report: Callable[[str], None]) -> Iterator[Event]:
        events = self.device.events(request, should_stop, report)
        if isinstance(request, RunRequest):
            return events
        lanes = [{"name": "Plain decoding"}, *map(self._lane, request.ways)]
        return chain([{"kind": "lanes", "lanes": lanes}], events)

    def _lane(self, way: RunRequest) -> Event:
        """What a lane of a comparison is, in titles: those that the choosers show."""
        drafter = self.engine.usual_drafter(way.target, way.strategy) if way.drafter is None else way.drafter
        return {
            "name": _title(self.engine.strategies(), way.strategy),
            "drafter": _title([*self.engine.drafters(), NO_DRAFTER], drafter),
            "settings": {str(name)[:80]: str(value)[:80] for name, value in way.settings.items()},
        }


def _title(choices: list[Choice], wanted: str) -> str:
    return next((title for title, name in choices if name == wanted), wanted)

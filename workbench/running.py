"""Runs and comparisons on the device: from a request to its events."""

from collections.abc import Callable, Iterator
from itertools import chain

from decoding.errors import OutOfMemory
from decoding.exhaustion import is_out_of_memory
from workbench.boundary import explain
from workbench.device import Batch, Device, reporter
from workbench.engine import Choice, Engine
from workbench.menu import NO_DRAFTER, Asked, Menu
from workbench.policy import ServerPolicy
from workbench.run_request import RunRequest
from workbench.run_store import Event, RunEvents
from workbench.smaller import smaller


class Running:
    """Runs what the menu has."""

    def __init__(self, engine: Engine, policy: ServerPolicy, device: Device, menu: Menu) -> None:
        self.engine = engine
        self.policy = policy
        self.device = device
        self.menu = menu

    def stream(self, ticket: str, build: Callable[[], Asked], stepping: bool) -> Iterator[Batch]:
        """See `Services.stream`."""

        def work(log: RunEvents) -> None:
            if stepping:
                log.step()
            self._run(log, self.menu.settled(build()))

        return self.device.stream(ticket, work)

    def _run(self, log: RunEvents, request: Asked) -> None:
        with self.device.held(log, request.target) as run:
            if run is None:
                return
            full: OutOfMemory | None = None
            with self.device.open.holding(run):
                may_end = self.device.open.gate(run, self.policy)
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
        if isinstance(request, RunRequest):
            return self.engine.run(request, should_stop, report)
        lanes = [{"name": "Plain decoding"}, *map(self._lane, request.ways)]
        return chain([{"kind": "lanes", "lanes": lanes}], self.engine.compare(request, should_stop, report))

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

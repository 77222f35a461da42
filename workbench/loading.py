"""Models that visitors look at, load and unload, where the server lets them."""

from collections.abc import Iterator
from typing import Any

from decoding.errors import BadRequest
from workbench.device_work import Batch, DeviceWork, reporter
from workbench.engine import Engine
from workbench.policy import ServerPolicy
from workbench.run_request import checked_model
from workbench.run_store import RunEvents
from workbench.visitor import Visitor


class Loading:
    """Loads and unloads in turn with the runs."""

    def __init__(self, engine: Engine, policy: ServerPolicy, work: DeviceWork) -> None:
        self.engine = engine
        self.policy = policy
        self.work = work

    def survey(self, target: object, drafter: object) -> dict[str, Any]:
        """What a pair is and what it would take, before anything is loaded; raises what says why it cannot be."""
        return self.engine.survey(*self._named(target, drafter))

    def load(self, ticket: str, target: object, drafter: object, visitor: Visitor) -> Iterator[Batch]:
        """Loads a pair in its turn; streams as a run does, `loaded` being the last event."""

        def work(log: RunEvents) -> None:
            names = self._named(target, drafter)
            report = reporter(log)
            report("Looking at what it is")
            found = self.engine.survey(*names)

            def watched(text: str) -> None:
                if log.stop.is_set():
                    raise BadRequest("Loading was stopped.", "What has been fetched is kept.")
                report(text)

            with self.work.held(log, names[0]) as job:
                if job is not None:
                    there = self.engine.load(*names, watched)
                    log.add({"kind": "loaded", "target": there[0], "drafter": there[1], **found})

        return self.work.stream(ticket, work, visitor)

    def unload(self, name: object) -> None:
        """Frees a drafter, or with the target everything; refused while a run uses it."""
        self.policy.require_loading()
        with self.work.at_once():
            self.engine.unload(checked_model(name, "model"))

    def _named(self, target: object, drafter: object) -> tuple[str, str]:
        names = checked_model(target, "target"), checked_model(drafter or "none", "drafter")
        self.policy.require_loading(*names)
        return names

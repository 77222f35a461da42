"""What the panels and the API ask of this server: its menu, its runs, its models, and how it stands."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from decoding.errors import BadRequest, CanopyError
from decoding.settings import Option
from workbench.device import Device, OwnDevice
from workbench.device_work import Batch, DeviceWork
from workbench.engine import Choice, Engine
from workbench.kept_runs import KeptRuns
from workbench.loading import Loading
from workbench.menu import Menu, Offer
from workbench.policy import LOCAL, ServerPolicy
from workbench.run_request import Asked
from workbench.run_store import Event, RunEvents
from workbench.running import Running
from workbench.visitor import NOBODY, Visitor

TICK_SECONDS = 8.0
"""How often a page hears that its run goes on; the events it fetches by itself (static/event_stream.js)."""


class Services:
    """One per server. Every run goes through `stream` or `ticks`, every loading through `load`."""

    def __init__(self, engine: Engine, policy: ServerPolicy = LOCAL, device: Device | None = None) -> None:
        self.engine = engine
        self.policy = policy
        self.kept = KeptRuns()
        self.device = device if device is not None else OwnDevice(engine)
        self._work = DeviceWork(policy)
        self.runs = self._work.runs
        self._menu = Menu(engine, policy)
        self._running = Running(engine, policy, self._menu, self._work, self.device)
        self._loading = Loading(engine, policy, self._work)

    # ---- what there is --------------------------------------------------------------------------------------------

    def targets(self) -> list[Choice]:
        """See `Menu.targets`."""
        return self._menu.targets()

    def drafters(self) -> list[Choice]:
        """See `Menu.drafters`."""
        return self._menu.drafters()

    def options(self, strategy: str) -> dict[str, Option]:
        """See `Menu.options`."""
        return self._menu.options(strategy)

    def text_options(self) -> dict[str, Option]:
        """See `Menu.text_options`."""
        return self._menu.text_options()

    def offer(self, target: str, drafter: str, strategy: str) -> Offer:
        """See `Menu.offer`."""
        return self._menu.offer(target, drafter, strategy)

    def misfit(self, target: str, drafter: str, strategy: str) -> str | None:
        """See `Menu.misfit`."""
        return self._menu.misfit(target, drafter, strategy)

    # ---- runs -----------------------------------------------------------------------------------------------------

    def stream(
        self, ticket: str, build: Callable[[], Asked], stepping: bool = False, visitor: Visitor = NOBODY
    ) -> Iterator[Batch]:
        """Runs, and yields the events in batches; it counts to the visitor's share of the line until it has ended.

        Errors, also those of `build`, come as the last event. Closing the iterator ends the run within a round.
        With `stepping` it waits after each round for `step` or `proceed`, and others may decode meanwhile.
        """
        return self._running.stream(ticket, build, stepping, visitor)

    def ticks(
        self, ticket: str, build: Callable[[], Asked], stepping: bool = False, visitor: Visitor = NOBODY
    ) -> Iterator[Batch]:
        """As `stream`, but says only how many events there are: the page fetches them with `missed`.

        Every update of a Gradio component costs the page more than an event does, often beside the model. The error of
        a run that is refused and not kept comes whole.
        """
        for first, lines in self._running.stream(ticket, build, stepping, visitor, TICK_SECONDS):
            kept = self.runs.find(ticket) is not None
            yield (first + len(lines), []) if kept else (first, lines)

    def events(self, request: Asked, ticket: str, visitor: Visitor = NOBODY) -> Iterator[Event]:
        """A run for a program: its events as `stream` gives them; errors are raised, but for those of one lane."""
        self._menu.settled(request)
        for _, lines in self.stream(ticket, lambda: request, visitor=visitor):
            for line in lines:
                event = json.loads(line)
                if event["kind"] == "error" and "lane" not in event:
                    raise CanopyError(event["message"], event["hint"])
                yield event

    def stop(self, ticket: str) -> None:
        """Ends a run after the round in hand; one that waits, for its turn or for a step, ends at once."""
        self._work.stop(ticket)

    def step(self, ticket: str) -> None:
        """One more round of a stepped run; another run waits after the round in hand."""
        self._running.require_steps()
        self._live(ticket).step()

    def proceed(self, ticket: str) -> None:
        """A stepped run goes on to its end."""
        self._live(ticket).proceed()

    def missed(self, ticket: str, first: int) -> list[str]:
        """The events of a run from number `first` on, as JSON text; none where the run is not known (any more)."""
        log = self.runs.find(ticket)
        return log.since(first)[0] if log is not None else []

    def trace(self, ticket: str) -> str:
        """A run that has ended, as the text of a trace file."""
        log = self.runs.find_trace(ticket)
        text = log.trace_text() if log is not None else ""
        if text is None:
            raise BadRequest("This run has not ended yet.", "Ask again when it has.")
        if not text:
            raise BadRequest("There is no such run, or it is no longer kept.", "Only the last few runs are kept.")
        return text

    def _live(self, ticket: str) -> RunEvents:
        log = self.runs.find(ticket)
        if log is None or not log.live:
            raise BadRequest("This run has ended.", "Start another.")
        return log

    # ---- models ---------------------------------------------------------------------------------------------------

    def survey(self, target: object, drafter: object) -> dict[str, Any]:
        """See `Loading.survey`."""
        return self._loading.survey(target, drafter)

    def load(self, ticket: str, target: object, drafter: object, visitor: Visitor = NOBODY) -> Iterator[Batch]:
        """See `Loading.load`."""
        return self._loading.load(ticket, target, drafter, visitor)

    def unload(self, name: object) -> None:
        """See `Loading.unload`."""
        self._loading.unload(name)

    def status(self) -> dict[str, Any]:
        """The queue, what is loaded, memory, versions and limits; names no run."""
        return {
            "versions": self.engine.versions(),
            "queue": {"length": self._work.queue.length, "stepping": self._work.open.waiting},
            "loaded": self.engine.loaded(),
            "memory": self.engine.memory(),
            "limits": {
                "public": self.policy.public,
                "loading": self.policy.allow_loading,
                "prompt_characters": self.policy.max_prompt,
                "new_tokens": self.policy.max_new_tokens,
                "nodes": self.policy.max_nodes,
                "seconds": self.policy.max_seconds,
                "runs_at_one_time": self.policy.page_runs,
            },
            "said": self.policy.sentences(),
        }

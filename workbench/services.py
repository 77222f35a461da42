"""Owns what runs share: the engine with its models, the turns on the one device, limits, and the events of runs."""

import contextvars
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from decoding.errors import BadRequest, CanopyError, OutOfMemory, UnknownName
from decoding.settings import Option, options_of
from workbench.boundary import explain
from workbench.device import Asked, Device, OwnDevice
from workbench.engine import Choice, Engine
from workbench.kept_runs import KeptRuns
from workbench.open_runs import OpenRun, OpenRuns
from workbench.policy import LOCAL, ServerPolicy
from workbench.run_request import CompareRequest, RunRequest, TextSettings, checked_model
from workbench.run_store import Event, RunEvents, RunStore
from workbench.turns import DeviceQueue, Turn

BATCH_SECONDS = 0.1
HEARTBEAT_SECONDS = 1.0
"""How often a silent run speaks up, so that a closed tab is noticed."""
NO_DRAFTER: Choice = ("None", "none")
ALL_TARGETS = "all"
"""What a run holds where no target has to go for another."""
Work = Callable[[RunEvents], None]


@dataclass(frozen=True)
class Offer:
    """What can be chosen together, and why the rest cannot."""

    drafters: list[Choice]
    drafter: str
    strategies: list[Choice]
    strategy: str
    reasons: list[tuple[str, str]]
    """Title and reason of each target, drafter and strategy that is not offered."""


class Services:
    """One per server. Every run goes through `stream`, every loading through `load`."""

    def __init__(self, engine: Engine, policy: ServerPolicy = LOCAL, device: Device | None = None) -> None:
        self.engine = engine
        self.policy = policy
        self.device = device if device is not None else OwnDevice(engine)
        self.runs = RunStore()
        self.kept = KeptRuns()
        self._queue = DeviceQueue(policy.max_waiting)
        self._open = OpenRuns(policy.max_stepped)

    # ---- what there is --------------------------------------------------------------------------------------------

    def targets(self) -> list[Choice]:
        """The targets that this server runs: those allowed for which the device has room."""
        return [item for item in self._allowed_targets() if not self.engine.no_room(item[1])]

    def _allowed_targets(self) -> list[Choice]:
        return [item for item in self.engine.targets() if self.policy.allows(item[1])]

    def drafters(self) -> list[Choice]:
        """The drafters that this server runs, without `none`."""
        return [item for item in self.engine.drafters() if self.policy.allows(item[1])]

    def options(self, strategy: str) -> dict[str, Option]:
        """The settings of a strategy, within this server's limits."""
        return self.policy.narrowed(self.engine.options(strategy))

    def text_options(self) -> dict[str, Option]:
        """The settings of the text, within this server's limits."""
        return self.policy.narrowed(options_of(TextSettings))

    def offer(self, target: str, drafter: str, strategy: str) -> Offer:
        """What fits the target; the drafter and the strategy asked for are kept where they can be."""
        self.require_known(target, drafter, strategy)
        engine = self.engine
        strategies = engine.strategies()
        drafters = [*self.drafters(), NO_DRAFTER]

        def fits(one: str, way: str) -> bool:
            return engine.misfit(target, one, way) is None

        usable = [item for item in drafters if any(fits(item[1], name) for _, name in strategies)]
        if not usable:
            raise BadRequest(f"Nothing can be run with {target}.", "Choose another target.")
        kept = drafter if drafter in _ids(usable) else usable[0][1]
        offered = [item for item in strategies if fits(kept, item[1])]
        chosen = strategy if strategy in _ids(offered) else offered[0][1]
        reasons = [(title, why) for title, name in self._allowed_targets() if (why := engine.no_room(name))]
        reasons += [(title, self._why_never(target, one)) for title, one in drafters if one not in _ids(usable)]
        reasons += [(t, engine.misfit(target, kept, way) or "") for t, way in strategies if way not in _ids(offered)]
        return Offer(usable, kept, offered, chosen, reasons)

    def misfit(self, target: str, drafter: str, strategy: str) -> str | None:
        """Why these do not go together, None where they do."""
        self.require_known(target, drafter, strategy)
        return self.engine.misfit(target, drafter, strategy)

    def _why_never(self, target: str, drafter: str) -> str:
        """Why a drafter fits no strategy; a reason that speaks of the target says more than one about the strategy."""
        reasons = [self.engine.misfit(target, drafter, way) or "" for way in _ids(self.engine.strategies())]
        title = next(title for title, name in self.engine.targets() if name == target)
        return next((reason for reason in reasons if title in reason), reasons[-1])

    def require_known(self, target: str, drafter: str | None, strategy: str) -> None:
        """Only what stands in the catalogue is served: a visitor cannot make the server load a path or a Hub id.

        Raises UnknownName, or OutOfMemory for a target that the device has no room for.
        """
        for kind, name, known in (
            ("target", target, self._allowed_targets()),
            ("drafter", "none" if drafter is None else drafter, [*self.drafters(), NO_DRAFTER]),
            ("strategy", strategy, self.engine.strategies()),
        ):
            if name not in _ids(known):
                raise UnknownName(kind, str(name)[:80], _ids(known))
        if reason := self.engine.no_room(target):
            raise OutOfMemory(reason, "Choose a smaller target, or run Canopy where there is more memory.")

    def _checked(self, request: RunRequest) -> RunRequest:
        """The request with this server's defaults; raises BadRequest where it asks for what is not served."""
        self.require_known(request.target, request.drafter, request.strategy)
        own, narrow = self.engine.options(request.strategy), self.options(request.strategy)
        defaults = {name: narrow[name].default for name in own if narrow[name] != own[name]}
        settled = replace(request, settings=defaults | dict(request.settings))
        nodes = self.engine.max_nodes(settled.strategy, settled.settings)
        self.policy.require_run(settled.prompt, settled.text.max_new_tokens, nodes)
        return settled

    def _settled(self, request: Asked) -> Asked:
        if isinstance(request, RunRequest):
            return self._checked(request)
        return CompareRequest(tuple(map(self._checked_way, request.ways)))

    def _checked_way(self, way: RunRequest) -> RunRequest:
        """As `_checked`; a way whose settings are wrong stays as it is: its own lane will say so."""
        self.require_known(way.target, way.drafter, way.strategy)
        try:
            self.engine.max_nodes(way.strategy, way.settings)
        except CanopyError:
            return way
        return self._checked(way)

    # ---- runs -----------------------------------------------------------------------------------------------------

    def stream(
        self, ticket: str, build: Callable[[], Asked], stepping: bool = False
    ) -> Iterator[tuple[int, list[str]]]:
        """Runs, and yields the number of the first event and the events (JSON text) that came since the last yield.

        Errors, also those of `build`, come as the last event. Closing the iterator ends the run within a round.
        With `stepping` it waits after each round for `step` or `proceed`, and others may decode meanwhile.
        """

        def work(log: RunEvents) -> None:
            if stepping:
                self.device.require_steps()
                log.step()
            self._run(log, self._settled(build()))

        return self._stream(ticket, work)

    def events(self, request: Asked, ticket: str) -> Iterator[Event]:
        """A run for a program: its events as `stream` gives them; errors are raised, but for those of one lane."""
        self._settled(request)
        for _, lines in self.stream(ticket, lambda: request):
            for line in lines:
                event = json.loads(line)
                if event["kind"] == "error" and "lane" not in event:
                    raise CanopyError(event["message"], event["hint"])
                yield event

    def stop(self, ticket: str) -> None:
        """Ends a run after the round in hand; one that waits, for its turn or for a step, ends at once."""
        self.runs.halt(ticket)
        self._queue.look()

    def step(self, ticket: str) -> None:
        """One more round of a stepped run; another run waits after the round in hand."""
        self.device.require_steps()
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

    def _stream(self, ticket: str, work: Work) -> Iterator[tuple[int, list[str]]]:
        log = self.runs.begin(ticket)

        def whole() -> None:
            try:
                work(log)
            except Exception as error:
                log.add(explain(error).event())
            finally:
                log.end()

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(whole,), name="canopy-run", daemon=True).start()
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
            self.stop(ticket)

    def _run(self, log: RunEvents, request: Asked) -> None:
        run = OpenRun(log, self._turn(log), ALL_TARGETS if self.device.holds_all else request.target)
        if not run.turn.take():
            return
        try:
            with self._open.holding(run):
                self._open.end_others(run)
                may_end = self._open.gate(run, self.policy)
                for event in self._made(request, may_end, _reporter(log)):
                    log.add(event)
        finally:
            run.turn.give()

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

    def _turn(self, log: RunEvents) -> Turn:
        def told(before: int) -> None:
            text = f"Waiting for the device: {before} before you" if before else "Your turn"
            log.add({"kind": "status", "text": text, "place": before})

        return Turn(self._queue, lambda: not log.stop.is_set(), told)

    # ---- models ---------------------------------------------------------------------------------------------------

    def survey(self, target: object, drafter: object) -> dict[str, Any]:
        """What a pair is and what it would take, before anything is loaded; raises what says why it cannot be."""
        return self.engine.survey(*self._named(target, drafter))

    def _named(self, target: object, drafter: object) -> tuple[str, str]:
        names = checked_model(target, "target"), checked_model(drafter or "none", "drafter")
        self.policy.require_loading(*names)
        return names

    def load(self, ticket: str, target: object, drafter: object) -> Iterator[tuple[int, list[str]]]:
        """Loads a pair in its turn; streams as `stream` does, `loaded` being the last event."""

        def work(log: RunEvents) -> None:
            names = self._named(target, drafter)
            report = _reporter(log)
            report("Looking at what it is")
            found = self.engine.survey(*names)
            job = OpenRun(log, self._turn(log), names[0])
            if not job.turn.take():
                return
            try:
                self._open.end_others(job)

                def watched(text: str) -> None:
                    if log.stop.is_set():
                        raise BadRequest("Loading was stopped.", "What has been fetched is kept.")
                    report(text)

                there = self.engine.load(*names, watched)
                log.add({"kind": "loaded", "target": there[0], "drafter": there[1], **found})
            finally:
                job.turn.give()

        return self._stream(ticket, work)

    def unload(self, name: object) -> None:
        """Frees a drafter, or with the target everything; refused while a run uses it."""
        self.policy.require_loading()
        if not self._queue.take_at_once():
            raise BadRequest("A run is using the device.", "Stop it, or unload when it has ended.")
        try:
            if len(self._open):
                raise BadRequest("A run that waits for its next step uses it.", "Stop that run first.")
            self.engine.unload(checked_model(name, "model"))
        finally:
            self._queue.give()

    def status(self) -> dict[str, Any]:
        """The queue, what is loaded, memory, versions and limits; names no run."""
        return {
            "versions": self.engine.versions(),
            "queue": {"length": self._queue.length, "stepping": self._open.waiting},
            "loaded": self.engine.loaded(),
            "memory": self.engine.memory(),
            "limits": {
                "public": self.policy.public,
                "loading": self.policy.allow_loading,
                "prompt_characters": self.policy.max_prompt,
                "new_tokens": self.policy.max_new_tokens,
                "nodes": self.policy.max_nodes,
                "seconds": self.policy.max_seconds,
            },
            "said": self.policy.sentences(),
        }


def _reporter(log: RunEvents) -> Callable[[str], None]:
    return lambda text: log.add({"kind": "status", "text": text})


def _ids(choices: list[Choice]) -> list[str]:
    return [name for _, name in choices]


def _title(choices: list[Choice], wanted: str) -> str:
    return next((title for title, name in choices if name == wanted), wanted)

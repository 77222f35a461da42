"""The one way into the device: a plain generator of plain events, run here, or by a worker that is lent a GPU.

ZeroGPU forks a worker for a call, pickles its arguments and everything that it yields, and ends it when the seconds
asked for are over. What is called there holds no state of this process but what was loaded before the fork.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import gradio as gr

from decoding.errors import BadRequest, CanopyError
from workbench.boundary import explain
from workbench.engine import Engine, Report
from workbench.lent_time import LentTime, seconds_for
from workbench.run_request import Asked, RunRequest
from workbench.run_store import Event
from workbench.wanted_run import WantedRun
from workbench.zero_gpu import Lend

STARTED: Event = {"kind": "status", "text": "A GPU is here"}


class Device(Protocol):
    """Where runs are made."""

    holds_all: bool
    """Whether every target that is served is loaded for good, so that none has to go for another."""

    def no_steps(self) -> BadRequest | None:
        """Why a run cannot wait between its rounds; None where it can."""
        ...

    def events(self, request: Asked, should_stop: Callable[[], bool], report: Report) -> Iterator[Event]:
        """The events of a run. Once `should_stop()` says so, it ends within a round; closing it ends it, too."""
        ...


class OwnDevice:
    """The device of this machine: models are loaded on demand, and a run may wait between its rounds."""

    holds_all = False

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def no_steps(self) -> None:
        return None

    def events(self, request: Asked, should_stop: Callable[[], bool], report: Report) -> Iterator[Event]:
        return decoded(self._engine, request, should_stop, report)


class LentDevice:
    """A GPU of ZeroGPU, lent for as many seconds as the request is worth, one round in flight beyond a stop.

    A run cannot wait between its rounds here: the worker runs ahead of whoever reads, and waiting inside it would use
    up the visitor's seconds. Going through the rounds afterwards needs no GPU.
    """

    holds_all = True

    def __init__(self, engine: Engine, lend: Lend, most_seconds: float) -> None:
        self._engine = engine
        self._most_seconds = most_seconds
        self._wanted = WantedRun()
        self._lent = lend(duration=self._seconds)(self._in_worker)

    def no_steps(self) -> BadRequest:
        return BadRequest(
            "Runs go through without a pause here: a GPU is lent for one run at a time, and waiting would use it up.",
            "Press Run, then go through its rounds with the arrow keys or the slider.",
        )

    def events(self, request: Asked, should_stop: Callable[[], bool], report: Report) -> Iterator[Event]:
        time_lent = LentTime(request, self._seconds(request, 0))
        report(f"Asking ZeroGPU for {time_lent.seconds} seconds of a GPU")
        stream = self._lent(request, self._wanted.begin())
        try:
            for event in stream:
                if event == STARTED:
                    time_lent.begin()
                if event["kind"] == "status":
                    report(event["text"])
                elif event["kind"] == "error" and "lane" not in event:
                    raise CanopyError(event["message"], event["hint"])
                else:
                    time_lent.count(event)
                    yield event
                if should_stop():
                    self._wanted.end()
        except gr.Error as error:
            raise time_lent.explain(str(getattr(error, "message", error))) from error
        finally:
            self._wanted.end()
            stream.close()  # type: ignore[attr-defined]  # a generator, with or without the decorator

    def _seconds(self, request: Asked, number: int) -> int:
        """What ZeroGPU is asked for; it calls this with the arguments of `_in_worker`."""
        return seconds_for(request, self._most_seconds)

    def _in_worker(self, request: Asked, number: int) -> Iterator[Event]:
        """Plain in, plain out: all that crosses the processes. Errors are yielded: of one that is raised there, only
        the name of its class would arrive."""
        said: list[str] = []
        yield STARTED
        try:
            for event in decoded(self._engine, request, lambda: not self._wanted.is_wanted(number), said.append):
                while said:
                    yield {"kind": "status", "text": said.pop(0)}
                yield event
        except CanopyError as error:
            yield explain(error).event()
        except Exception as error:
            yield explain(error).event()
            raise  # the worker is not to be used again: nobody knows what state it is in


def decoded(engine: Engine, request: Asked, should_stop: Callable[[], bool], report: Report) -> Iterator[Event]:
    """The events of one run, or of several compared."""
    if isinstance(request, RunRequest):
        return engine.run(request, should_stop, report)
    return engine.compare(request, should_stop, report)

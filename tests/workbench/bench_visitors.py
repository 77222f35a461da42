"""What a run loses to those who wait for theirs: `python app.py`, the embedded model, clients over HTTP."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx

from tests.workbench.bench_server import app
from tests.workbench.forged import posted
from tests.workbench.page_timing import Timing

PROMPT = "Why is the sky blue?"
TIMEOUT = 600
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Nothing here is encrypted; fifty clients that each read the machine's certificates would be what is measured."""


class Visitor(threading.Thread):
    """Opens the page and asks for a run; hears its events until it ends or the visitor goes."""

    def __init__(self, address: str, new_tokens: int) -> None:
        super().__init__(daemon=True)
        self.address, self.new_tokens = address, new_tokens
        self.under_way, self.gone = threading.Event(), threading.Event()
        self.told = threading.Event()
        self.rounds: list[tuple[int, float]] = []
        """Tokens and seconds of each."""
        self.start()

    def run(self) -> None:
        with httpx.Client(base_url=self.address, timeout=TIMEOUT, verify=NO_CERTIFICATES) as http:
            http.get("").raise_for_status()
            text = {"max_new_tokens": self.new_tokens}
            data = [PROMPT, "smollm2-135m", "", "ddtree", {}, text, False, "", uuid4().hex]
            number = posted(http, "gradio_api/call/run", {"data": data}).json()["event_id"]
            with http.stream("GET", f"gradio_api/call/run/{number}") as stream:
                for line in stream.iter_lines():
                    if self.gone.is_set():
                        return
                    if line.startswith("data: [{"):
                        self._hear(json.loads(line[6:])[0])

    def _hear(self, event: dict[str, Any]) -> None:
        if event.get("place", 0) > 0:
            self.told.set()
        if event["kind"] == "round":
            self.rounds.append((len(event["emitted"]), sum(event["seconds"].values())))
            self.under_way.set()
        if event["kind"] == "error":
            raise RuntimeError(event["message"])


@contextmanager
def waiting(address: str, count: int, new_tokens: int) -> Iterator[list[Visitor]]:
    """So many who wait; they leave in the end, before their turn comes."""
    visitors = [Visitor(address, new_tokens) for _ in range(count)]
    try:
        yield visitors
    finally:
        for visitor in visitors:
            visitor.gone.set()
        for visitor in visitors:
            visitor.join(TIMEOUT)


def visitors(_: Any, effort: Any) -> Iterator[dict[str, Any]]:
    """Tokens per second of a run while many wait for theirs, over the same run with nobody else there.

    Twice: from when all have come and know their place, and over the whole run, in which they all come at once.
    """
    waited: list[float] = []
    whole: list[float] = []
    alone: list[float] = []
    new_tokens = 2 * effort.new_tokens
    with app() as (address, _):
        _speed(Visitor(address, new_tokens))  # loads the model
        for _ in range(2 * effort.repeats):
            alone.append(_speed(Visitor(address, new_tokens)))
            runner = Visitor(address, new_tokens)
            runner.under_way.wait(TIMEOUT)
            with waiting(address, effort.visitors - 1, 1) as others:
                while runner.is_alive() and not all(other.told.wait(0.1) for other in others):
                    pass
                there = len(runner.rounds)
                whole.append(_speed(runner))
                waited.append(_speed(runner, there))
    beside = f"{effort.visitors - 1} others (idle: the same run with nobody there)"
    yield Timing(f"tokens/s while there wait {beside}", waited, alone).row() | {"target": "ratio .90"}
    yield Timing(f"tokens/s while there come {beside}", whole, alone).row()


def _speed(visitor: Visitor, first: int = 0) -> float:
    """Over the rounds from number `first` on; over all where there are none."""
    visitor.join(TIMEOUT)
    rounds = visitor.rounds[first:] or visitor.rounds
    return sum(tokens for tokens, _ in rounds) / sum(seconds for _, seconds in rounds)

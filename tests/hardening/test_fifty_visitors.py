"""Fifty visitors of a public page, one device: everybody gets the page, a place, the own run and nobody else's."""

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.hardening.short_run import ROUNDS, write_short
from tests.hardening_counts import Effort, Tally
from tests.workbench.browser import serving
from tests.workbench.forged import called, posted
from tests.workbench.replay_engine import ReplayEngine
from workbench.policy import PUBLIC
from workbench.services import Services

pytestmark = pytest.mark.hardening


class Guest(threading.Thread):
    """Opens the page and runs the own prompt, from an address of its own."""

    def __init__(self, address: str, number: int) -> None:
        super().__init__(daemon=True)
        self.address, self.number = address, number
        self.ticket, self.prompt = f"{number:032x}", f"secret of visitor {number}."
        self.page_seconds = 0.0
        self.events: list[dict[str, Any]] = []
        self.trace = ""

    def run(self) -> None:
        behind = {"X-Forwarded-For": f"203.0.113.{self.number + 1}"}  # the server takes this machine for a proxy
        with httpx.Client(base_url=self.address, timeout=120, headers=behind) as http:
            began = time.monotonic()
            assert http.get("").status_code == 200
            assert http.get("canopy/traces/welcome.jsonl").status_code == 200
            self.page_seconds = time.monotonic() - began
            data = [self.prompt, "small", "mini", "tree", {}, {"max_new_tokens": 4}, False, "", self.ticket]
            number = posted(http, "gradio_api/call/run", {"data": data}).json()["event_id"]
            with http.stream("GET", f"gradio_api/call/run/{number}") as stream:
                for line in stream.iter_lines():
                    if line.startswith("data: [{"):
                        self.events += json.loads(line[6:])
            self.trace = called(http, "/trace", [self.ticket])

    def places(self) -> list[int]:
        return [event["place"] for event in self.events if "place" in event]


def test_each_is_served_in_turn_and_reads_only_the_own(tmp_path: Path, effort: Effort, tally: Tally) -> None:
    count = effort(50, 12)
    engine = ReplayEngine(write_short(tmp_path / "run.jsonl"), pause=0.02)
    with serving(Services(engine, replace(PUBLIC, allowed=None))) as address:
        guests = [Guest(address, number) for number in range(count)]
        for guest in guests:
            guest.start()
        for guest in guests:
            guest.join(120)
            assert not guest.is_alive()
        with httpx.Client(base_url=address, timeout=60) as http:
            status = called(http, "/status", [])
            strangers = [called(http, "/trace", [ticket]) for ticket in ("0" * 31 + "x", "f" * 32, "0" * 32 + "-0")]
    assert all("event: complete" not in answer for answer in strangers)
    assert "secret of visitor" not in status
    for guest in guests:
        assert guest.events[-1]["kind"] == "summary", guest.events[-1:]
        assert sum(event["kind"] == "round" for event in guest.events) == ROUNDS
        places = guest.places()
        assert places == sorted(places, reverse=True), "a place gets only better"
        assert not places or places[-1] == 0
        heard = json.dumps(guest.events) + guest.trace
        assert guest.prompt in heard
        others = [other for other in guests if other is not guest]
        assert not any(other.prompt in heard or other.ticket in heard for other in others)
    waited = [guest for guest in guests if guest.places()]
    assert len(waited) >= count * 3 // 4, "one device: nearly all have waited, and were told their place"
    slowest = max(guest.page_seconds for guest in guests)
    worst = max(max(guest.places()) for guest in waited)
    tally(
        f"{count} visitors at one time: all served, {len(waited)} told their place (up to {worst}), "
        f"slowest page {slowest:.1f} s, no cross-visitor read"
    )

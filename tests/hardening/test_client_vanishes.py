"""Clients that vanish without a word: their runs end, in line or at work, and the device is free."""

import json
import threading
import time
from collections.abc import Iterator
from random import Random

import httpx
import pytest

from tests.hardening.short_run import write_short
from tests.hardening_counts import Effort, Tally
from tests.workbench.browser import served
from tests.workbench.forged import GOOD, called, posted

pytestmark = pytest.mark.hardening
FREE_WITHIN = 10.0
"""Seconds; a second where the machine is idle."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(write_short(tmp_path_factory.mktemp("long") / "run.jsonl", rounds=600), pause=0.02) as found:
        yield found


def queue_length(http: httpx.Client) -> int:
    answer = called(http, "/status", [])
    return int(json.loads(answer.partition("data: ")[2].splitlines()[0])[0]["queue"]["length"])


def begin_and_vanish(address: str, seed: int) -> None:
    """Starts a run, reads a little of it, and drops the connection."""
    random = Random(seed)
    with httpx.Client(base_url=address, timeout=60) as http:
        data = [*GOOD["/run"][:8], f"{seed:016x}"]
        number = posted(http, "gradio_api/call/run", {"data": data}).json()["event_id"]
        with http.stream("GET", f"gradio_api/call/run/{number}") as stream:
            for count, _ in enumerate(stream.iter_lines()):
                if count > random.randrange(3, 9):
                    break
            time.sleep(random.random() * 0.3)


def test_their_runs_end(address: str, effort: Effort, tally: Tally) -> None:
    clients = effort(48, 8)
    threads = [threading.Thread(target=begin_and_vanish, args=(address, seed)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    with httpx.Client(base_url=address, timeout=60) as http:
        began = time.monotonic()
        while queue_length(http):
            assert time.monotonic() - began < FREE_WITHIN, "the device is held for nobody"
            time.sleep(0.1)
        took = time.monotonic() - began
    tally(f"{clients} clients vanished in a run or in line: the device was free {took:.1f} s after the last")

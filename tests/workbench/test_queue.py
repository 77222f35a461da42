"""Turns on the one device: first come, first served; everybody knows their place, and can leave."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.workbench.browser import READY, chromium, served
from tests.workbench.replay_engine import ReplayEngine
from workbench.policy import ServerPolicy
from workbench.run_request import RunRequest
from workbench.services import Services
from workbench.turns import Busy, DeviceQueue, Turn


def until(true: Callable[[], Any], seconds: float = 20) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return found


def request(**given: Any) -> RunRequest:
    return RunRequest(**{"prompt": "Why?", "target": "small", "drafter": "mini", "strategy": "tree"} | given)


class Visitor:
    """A run in a thread of its own, with what it was told so far."""

    def __init__(self, services: Services, ticket: str, **given: Any) -> None:
        self.services, self.ticket = services, ticket
        self.events: list[dict[str, Any]] = []
        self.stream = services.stream(ticket, lambda: request(), **given)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        for _, lines in self.stream:
            self.events += [json.loads(line) for line in lines]

    def places(self) -> list[int]:
        return [event["place"] for event in self.events if "place" in event]

    def finish(self) -> str:
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self.events[-1].get("finish", self.events[-1]["kind"]) if self.events else "nothing"


def test_the_line_is_served_in_order() -> None:
    queue, served_to, threads = DeviceQueue(100), [], []
    assert queue.take_at_once()
    for number in range(30):

        def work(number: int = number) -> None:
            assert queue.take(lambda: True, lambda _: None)
            served_to.append(number)
            queue.give()

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        until(lambda number=number: queue.length == number + 2)
    queue.give()
    for thread in threads:
        thread.join(20)
    assert served_to == list(range(30))
    assert queue.length == 0


def test_who_leaves_the_line_lets_the_others_move_up() -> None:
    queue, told, wanted = DeviceQueue(9), [], [True]
    assert queue.take_at_once()
    first = threading.Thread(target=lambda: queue.take(lambda: wanted[0], lambda _: None))
    first.start()
    until(lambda: queue.length == 2)
    second = threading.Thread(target=lambda: queue.take(lambda: True, told.append))
    second.start()
    until(lambda: told == [2])
    wanted[0] = False
    queue.look()
    first.join(5)
    until(lambda: told == [2, 1])
    queue.give()
    second.join(5)
    assert told == [2, 1, 0]
    assert queue.length == 1


def test_a_line_that_is_too_long_is_refused_but_not_to_who_was_there_before() -> None:
    queue = DeviceQueue(0)
    assert queue.take_at_once()
    with pytest.raises(Busy, match="0 runs wait"):
        queue.take(lambda: True, lambda _: None)
    assert queue.take(lambda: False, lambda _: None, again=True) is False
    assert queue.length == 1


def test_who_fails_while_waiting_is_out_of_the_line() -> None:
    queue = DeviceQueue(9)
    assert queue.take_at_once()
    with pytest.raises(ZeroDivisionError):
        queue.take(lambda: True, lambda before: before // 0)
    assert queue.length == 1


def test_a_turn_counts_the_seconds_that_it_holds_the_device() -> None:
    turn = Turn(DeviceQueue(1), lambda: True, lambda _: None)
    assert turn.seconds == 0
    assert turn.take()
    time.sleep(0.05)
    turn.give()
    held = turn.seconds
    assert held >= 0.05
    time.sleep(0.05)
    assert turn.seconds == held
    turn.give()
    assert turn.take()
    assert turn.seconds >= held


def test_waiting_runs_see_their_place_get_smaller_and_all_are_served() -> None:
    engine = ReplayEngine(pause=0.02)
    services = Services(engine)
    visitors = []
    for number in range(4):
        visitors.append(Visitor(services, f"{number:016x}"))
        until(lambda number=number: services.status()["queue"]["length"] == number + 1)
    for visitor in visitors:
        visitor.finish()
        assert visitor.events[-1]["kind"] == "summary"
    assert [visitor.places() for visitor in visitors] == [[], [1, 0], [2, 1, 0], [3, 2, 1, 0]]
    assert "2 before you" in next(event["text"] for event in visitors[2].events if "place" in event)
    assert engine.most_active == 1


def test_a_waiting_run_is_stopped_at_once() -> None:
    services = Services(ReplayEngine(pause=0.2))
    first, second = Visitor(services, "a" * 16), Visitor(services, "b" * 16)
    until(lambda: services.status()["queue"]["length"] == 2)
    until(lambda: second.places() or first.places())
    late = second if second.places() else first
    services.stop(late.ticket)
    late.thread.join(2)
    assert not late.thread.is_alive()
    assert all(event["kind"] == "status" for event in late.events)
    assert services.status()["queue"]["length"] == 1
    services.stop(("a" if late is second else "b") * 16)


def test_closing_the_stream_leaves_the_line() -> None:
    services = Services(ReplayEngine(pause=0.2))
    first = Visitor(services, "a" * 16)
    until(lambda: services.status()["queue"]["length"] == 1)
    stream = services.stream("b" * 16, request)
    next(stream)
    until(lambda: services.status()["queue"]["length"] == 2)
    stream.close()
    until(lambda: services.status()["queue"]["length"] == 1, 2)
    services.stop(first.ticket)


def test_too_many_waiting_runs_are_told_to_come_back() -> None:
    services = Services(ReplayEngine(pause=0.1), ServerPolicy(max_waiting=1))
    runs = [Visitor(services, "a" * 16), Visitor(services, "b" * 16)]
    until(lambda: services.status()["queue"]["length"] == 2)
    late = Visitor(services, "c" * 16)
    late.finish()
    assert "Try again" in late.events[-1]["hint"]
    for run in runs:
        services.stop(run.ticket)


def test_a_run_number_is_used_once() -> None:
    services = Services(ReplayEngine())
    Visitor(services, "a" * 16).finish()
    with pytest.raises(Exception, match="number already"):
        list(services.stream("a" * 16, request))


def test_a_run_ends_at_the_server_s_limit_of_seconds() -> None:
    services = Services(ReplayEngine(pause=0.05), ServerPolicy(max_seconds=0.15))
    visitor = Visitor(services, "a" * 16)
    assert visitor.finish() == "interrupted"
    assert any("seconds here at most" in event.get("text", "") for event in visitor.events)


@pytest.mark.browser
@pytest.mark.slow
def test_a_visitor_sees_the_place_and_a_closed_tab_leaves_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.services.TICK_SECONDS", 600.0)  # Gradio would notice it too late
    with chromium() as browser, served(pause=0.4) as address:
        pages = [browser.new_context().new_page() for _ in range(3)]
        for page in pages:
            page.goto(address)
            page.wait_for_function(READY, timeout=120_000)
        places = "() => document.querySelector('.cy-status').textContent"
        pages[0].locator("#cy-run").click()
        pages[0].wait_for_function("() => canopy.explore.log.id !== 'recorded'", timeout=60_000)
        pages[1].locator("#cy-run").click()
        pages[1].wait_for_function(f"() => ({places})().includes('1 before you')", timeout=60_000)
        pages[2].locator("#cy-run").click()
        pages[2].wait_for_function(f"() => ({places})().includes('2 before you')", timeout=60_000)
        pages[1].close()
        pages[2].wait_for_function(f"() => ({places})().includes('1 before you')", timeout=60_000)
        assert pages[0].evaluate("() => canopy.explore.buttons.state") == "running"
        pages[2].locator("#cy-stop").click()
        pages[2].wait_for_function("() => canopy.explore.buttons.state === 'idle'", timeout=60_000)
        assert pages[2].evaluate("() => canopy.explore.log.id") == "recorded"

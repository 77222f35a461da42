"""Runs share one device, can be stopped, and what they said can be asked for again."""

import json
import threading
import time

import pytest

from decoding.errors import BadRequest, UnknownName
from tests.workbench.replay_engine import ReplayEngine
from workbench.policy import ServerPolicy
from workbench.run_request import RunRequest, checked_ticket
from workbench.run_store import RunStore
from workbench.services import Services


def request(prompt: str = "Why?", **given: object) -> RunRequest:
    return RunRequest(**{"prompt": prompt, "target": "small", "drafter": "mini", "strategy": "tree"} | given)


def events(services: Services, ticket: str, prompt: str = "Why?", **given: object) -> list[dict]:
    found: list[dict] = []
    for first, lines in services.stream(ticket, lambda: request(prompt, **given)):
        assert first == len(found)
        found += [json.loads(line) for line in lines]
    return found


def test_a_run_streams_status_header_rounds_and_summary():
    kinds = [event["kind"] for event in events(Services(ReplayEngine()), "a" * 16)]
    assert kinds[:3] == ["status", "header", "round"]
    assert kinds[-1] == "summary"


def test_ticks_say_how_many_events_there_are_to_be_fetched():
    services = Services(ReplayEngine(pause=0.05))
    counts = [first for first, lines in services.ticks("b" * 16, request) if not lines]
    assert counts == sorted(counts)
    assert counts[-1] == len(services.missed("b" * 16, 0)) > len(counts)
    assert services.missed("b" * 16, counts[0])[-1].startswith('{"kind":"summary"')


def test_the_error_of_a_run_that_is_refused_comes_whole_with_the_tick():
    services = Services(ReplayEngine(), ServerPolicy(page_runs=0))
    ((first, (line,)),) = services.ticks("b" * 16, request)
    assert (first, json.loads(line)["kind"], services.missed("b" * 16, 0)) == (0, "error", [])


def test_only_what_fits_is_offered_and_the_rest_has_a_reason():
    offer = Services(ReplayEngine()).offer("small", "lookup", "tree")
    assert [name for _, name in offer.drafters] == ["mini", "lookup", "none"]
    assert (offer.drafter, offer.strategy) == ("lookup", "chain")
    assert [title for title, _ in offer.reasons] == ["DFlash for Qwen3-4B", "DDTree", "Plain decoding"]
    assert all(reason for _, reason in offer.reasons)


def test_a_drafter_that_does_not_fit_is_replaced():
    assert Services(ReplayEngine()).offer("small", "alien", "tree").drafter == "mini"


def test_names_outside_the_catalogue_are_refused():
    services = Services(ReplayEngine())
    with pytest.raises(UnknownName):
        services.offer("/etc/passwd", "mini", "tree")
    (error,) = events(services, "b" * 16, target="someone/else")
    assert error["kind"] == "error"
    assert "someone/else" in error["message"]


@pytest.mark.parametrize(("prompt", "said"), [("fail", "fetched"), ("crash", "RuntimeError"), ("  ", "empty")])
def test_errors_are_the_last_event_and_free_the_device(prompt, said):
    services = Services(ReplayEngine())
    assert said in events(services, "c" * 16, prompt)[-1]["message"]
    assert events(services, "d" * 16)[-1]["kind"] == "summary"


def test_stop_ends_a_run_within_a_round():
    services = Services(ReplayEngine(pause=0.05))
    stream = services.stream("e" * 16, request)
    next(stream)
    services.stop("e" * 16)
    found = [json.loads(line) for _, lines in stream for line in lines]
    assert found[-1]["finish"] == "interrupted"
    assert len(found) < 10


def test_a_run_that_waits_its_turn_can_be_stopped():
    services = Services(ReplayEngine())
    services.stop("f" * 16)
    assert events(services, "f" * 16) == []


def test_closing_the_stream_ends_the_run():
    engine = ReplayEngine(pause=0.05)
    stream = Services(engine).stream("a" * 17, request)
    next(stream)
    stream.close()
    deadline = time.monotonic() + 5
    while engine.active and time.monotonic() < deadline:
        time.sleep(0.02)
    assert engine.active == 0


def test_two_runs_never_share_the_device():
    engine = ReplayEngine(pause=0.005)
    services = Services(engine)
    threads = [threading.Thread(target=events, args=(services, letter * 16)) for letter in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert engine.most_active == 1


def test_a_program_gets_events_and_errors_as_they_are():
    services = Services(ReplayEngine())
    assert [event["kind"] for event in services.events(request(), "a" * 16)][:3] == ["status", "header", "round"]
    with pytest.raises(UnknownName):
        next(services.events(request(drafter="nobody"), "b" * 16))


def test_the_store_is_bounded_in_number_and_bytes():
    store = RunStore(max_runs=3, max_bytes=1000)
    for number in range(6):
        store.open(f"run-{number}").add({"kind": "status", "text": "x" * 100})
    assert store.find("run-2") is None
    assert store.find("run-5") is not None
    store.open("run-5").add({"kind": "status", "text": "x" * 2000})
    store.open("run-6")
    assert store.find("run-5") is None


@pytest.mark.parametrize("ticket", ["", "short", "../../etc/passwd-and-more", None, 3, "g" * 20])
def test_tickets_are_checked(ticket):
    with pytest.raises(BadRequest):
        checked_ticket(ticket)


@pytest.mark.parametrize(
    "given",
    [{"prompt": 3}, {"prompt": "x" * 20_001}, {"target": None}, {"drafter": 3}, {"settings": [1]}],
)
def test_requests_are_checked(given):
    with pytest.raises(BadRequest):
        request(**given)

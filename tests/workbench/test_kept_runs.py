"""Runs kept for links: checked, bounded, and nobody's but who holds the id. Over HTTP, as anyone could ask."""

import gzip
import json
import re
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import workbench.run_routes as run_routes
from decoding.errors import BadRequest, TraceError
from tests.workbench.replay_engine import WELCOME, ReplayEngine
from workbench.kept_runs import KeptRuns
from workbench.services import Services

LINES = [line for line in WELCOME.read_bytes().splitlines(keepends=True) if b'"kind":"comparison"' not in line]
TRACE = b"".join(LINES)
ANN, BOB = "a" * 32, "b" * 32


def trace(prompt: str, rounds: int = 1) -> bytes:
    header = json.loads(LINES[0]) | {"prompt": prompt}
    return json.dumps(header).encode() + b"\n" + b"".join(LINES[1 : 1 + rounds])


def test_a_run_is_kept_whole_under_an_id_of_its_visitor():
    runs = KeptRuns()
    kept = runs.keep(ANN, TRACE)
    assert (kept.lines, kept.rounds, kept.torn) == (len(LINES), len(LINES) - 2, False)
    assert gzip.decompress(runs.find(kept.id) or b"") == TRACE
    assert runs.keep(ANN, TRACE).id == kept.id, "the same file brings a lost link back"
    assert runs.keep(BOB, TRACE).id != kept.id, "an id cannot be worked out from the file alone"
    assert runs.find("0" * 32) is None


def test_a_torn_end_is_left_out():
    runs = KeptRuns()
    kept = runs.keep(ANN, b"".join(LINES[:3]) + LINES[3][:40])
    assert (kept.lines, kept.torn) == (3, True)
    assert gzip.decompress(runs.find(kept.id) or b"") == b"".join(LINES[:3])


def test_what_is_no_trace_is_not_kept():
    runs = KeptRuns()
    with pytest.raises(TraceError, match="Line 2"):
        runs.keep(ANN, LINES[0] + b'{"kind":"round"}\n')


def test_only_who_gave_a_run_takes_it_away():
    runs = KeptRuns()
    kept = runs.keep(ANN, TRACE)
    assert not runs.drop(BOB, kept.id)
    assert runs.drop(ANN, kept.id)
    assert not runs.drop(ANN, kept.id)
    assert runs.find(kept.id) is None


def test_a_visitor_who_fills_the_store_loses_the_own_oldest_run():
    runs = KeptRuns(max_visitor_runs=3)
    of_bob = runs.keep(BOB, TRACE).id
    of_ann = [runs.keep(ANN, trace(str(number))).id for number in range(5)]
    assert [runs.find(run_id) is not None for run_id in of_ann] == [False, False, True, True, True]
    assert runs.find(of_bob)


def test_the_store_is_bounded_in_bytes():
    size = len(gzip.compress(trace("0"), compresslevel=4, mtime=0))
    runs = KeptRuns(max_bytes=int(2.5 * size))
    ids = [runs.keep(visitor * 32, trace(str(number))).id for number, visitor in enumerate("abc")]
    assert [runs.find(run_id) is not None for run_id in ids] == [False, True, True]
    with pytest.raises(BadRequest, match="too large"):
        KeptRuns(max_visitor_bytes=100).keep(ANN, TRACE)


@pytest.fixture
def services() -> Services:
    return Services(ReplayEngine())


@pytest.fixture
def client(services: Services) -> TestClient:
    return TestClient(Starlette(routes=run_routes.run_routes(services)))


def post(client: TestClient, body: Any, visitor: str = ANN) -> Any:
    return client.post("/canopy/runs", content=body, headers={"x-canopy-visitor": visitor})


def test_over_http_a_run_goes_in_and_comes_out(client):
    kept = post(client, TRACE).json()
    assert re.fullmatch("[0-9a-f]{32}", kept["id"])
    answer = client.get(f"/canopy/runs/{kept['id']}")
    assert answer.content == TRACE
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert client.get(f"/canopy/runs/{kept['id']}", headers={"accept-encoding": "identity"}).content == TRACE
    delete = f"/canopy/runs/{kept['id']}"
    assert client.delete(delete, headers={"x-canopy-visitor": BOB}).status_code == 404
    assert client.delete(delete, headers={"x-canopy-visitor": ANN}).status_code == 200
    assert client.get(delete).status_code == 404


def test_there_is_no_list_of_runs(client):
    post(client, TRACE)
    assert client.get("/canopy/runs", headers={"x-canopy-visitor": ANN}).status_code == 405


@pytest.mark.parametrize("visitor", ["", "short", "A" * 32, "../" + "a" * 29, "a" * 33])
def test_a_run_needs_a_visitor(client, visitor):
    assert post(client, TRACE, visitor).status_code == 400


@pytest.mark.parametrize("run_id", ["x", "0" * 31, "0" * 33, "%2e%2e%2fpasswd", "A" * 32])
def test_ids_are_checked(client, run_id):
    answer = client.get(f"/canopy/runs/{run_id}")
    assert answer.status_code == 404


def test_a_bad_line_is_named_with_its_field_and_a_way_out(client):
    round_ = json.loads(LINES[1])
    round_["tree"]["parent"][3] = "up"
    answer = post(client, LINES[0] + json.dumps(round_).encode())
    assert answer.status_code == 400
    assert "Line 2: tree.parent" in answer.json()["message"]
    assert post(client, b"hello").json() == {
        "message": "Line 1: this is not JSON.",
        "hint": "A trace is one JSON object a line.",
    }
    assert post(client, b"").json()["message"] == "The trace is empty."


def test_a_long_body_is_refused_before_it_is_all_here(client, monkeypatch):
    monkeypatch.setattr(run_routes, "MAX_FILE_BYTES", 2**20)
    read = []

    def body():
        for _ in range(64):
            read.append(1)
            yield b" " * 2**18

    answer = post(client, body())
    assert answer.status_code == 400
    assert "larger than 1 MB" in answer.json()["message"]


def test_so_many_uploads_at_one_time_and_no_more():
    places = run_routes._Places(1)
    with places, pytest.raises(run_routes.Busy), places:
        pass
    with places:
        pass


def test_the_inside_of_a_failure_stays_inside(client, services, monkeypatch):
    monkeypatch.setattr(services.kept, "keep", lambda *_: 1 / 0)
    answer = post(client, TRACE)
    assert answer.status_code == 500
    assert "ZeroDivisionError" in answer.json()["message"]
    assert "Traceback" not in answer.text


def test_a_run_of_this_server_is_kept_by_its_ticket(client, services):
    ticket = "c" * 32
    log = services.runs.open(ticket)
    url, who = f"/canopy/runs/of/{ticket}", {"x-canopy-visitor": ANN}
    for line in ['{"kind":"status","text":"loading"}', *TRACE.decode().splitlines()]:
        log.add(json.loads(line))
    assert "has not ended" in client.post(url, headers=who).json()["message"]
    log.end()
    kept = client.post(url, headers=who).json()
    assert kept["rounds"] == len(LINES) - 2
    assert kept["id"] != ticket
    assert [json.loads(line) for line in client.get(f"/canopy/runs/{kept['id']}").text.splitlines()] == [
        json.loads(line) for line in LINES
    ]
    assert client.post("/canopy/runs/of/" + "d" * 32, headers=who).status_code == 400
    assert client.post("/canopy/runs/of/etc", headers=who).status_code == 400


def test_a_page_asks_for_the_events_that_it_missed(client, services):
    ticket = "e" * 32
    log = services.runs.open(ticket)
    for number in range(3):
        log.add({"kind": "status", "text": f"<b>{number}"})
    answer = client.get(f"/canopy/runs/of/{ticket}/events/1")
    assert answer.headers["cache-control"] == "no-store"
    assert "<" not in answer.text
    assert answer.json() == {
        "run": ticket,
        "first": 1,
        "events": [{"kind": "status", "text": "<b>1"}, {"kind": "status", "text": "<b>2"}],
    }
    assert client.get(f"/canopy/runs/of/{ticket}/events/999999999").json()["events"] == []
    assert client.get(f"/canopy/runs/of/{'f' * 32}/events/0").json()["events"] == []  # no longer known
    for wrong in (f"{ticket}/events/-1", f"{ticket}/events/x", f"{ticket}/events/{'9' * 5000}", "etc/events/0"):
        answer = client.get(f"/canopy/runs/of/{wrong}")
        assert answer.status_code == 400, wrong
        assert answer.json()["hint"]


def test_a_run_whose_page_has_gone_is_stopped_by_its_ticket(client, services):
    ticket, other = "e" * 32, "f" * 32
    log, bystander = services.runs.open(ticket), services.runs.open(other)
    assert client.post(f"/canopy/runs/of/{ticket}/stop").status_code == 200
    assert log.stop.is_set()
    assert not bystander.stop.is_set()
    assert client.post("/canopy/runs/of/etc/stop").status_code == 400
    assert client.get(f"/canopy/runs/of/{other}/stop").status_code == 405

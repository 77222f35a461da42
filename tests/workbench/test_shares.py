"""What one visitor may have of the line, on every way in, and that nobody gets more by saying to be somebody else."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import gradio_client
import httpx
import pytest

from decoding.errors import BadRequest
from tests.workbench.browser import chromium, opened, serving
from tests.workbench.forged import called, posted
from tests.workbench.replay_engine import ReplayEngine
from tests.workbench.test_queue import request, until
from workbench.policy import LOCAL, PUBLIC, SPACE_PROXIES, ServerPolicy
from workbench.services import Services
from workbench.shares import Shares
from workbench.turns import Busy
from workbench.visitor import NOBODY, Visitor

NARROW = ServerPolicy(page_runs=2, address_runs=3)
ALICE, BOB = Visitor("a", "192.0.2.1"), Visitor("b", "192.0.2.2")
many_addresses = pytest.mark.skipif(sys.platform != "linux", reason="this machine is 127.0.0.1 alone")
RUN = ["Why?", "small", "mini", "tree", {}, {}, False, "", ""]


def services_of(policy: ServerPolicy = NARROW, pause: float = 0.2) -> Services:
    return Services(ReplayEngine(pause=pause), policy)


def begun(services: Services, ticket: str, visitor: Visitor, **given: Any) -> Iterator[Any]:
    """A run that is under way, and the events that it will still give."""
    stream = services.stream(ticket, lambda: request(**given), visitor=visitor)
    next(stream)
    return stream


def answer(services: Services, ticket: str, visitor: Visitor) -> dict[str, Any]:
    """The first thing that a run says."""
    stream = services.stream(ticket, request, visitor=visitor)
    try:
        return next(json.loads(line) for _, lines in stream for line in lines)
    finally:
        stream.close()


@pytest.fixture
def services() -> Iterator[Services]:
    found = services_of()
    yield found
    for number in range(9):
        found.stop(f"{number:016x}")


def test_a_page_and_an_address_have_so_much_and_others_theirs() -> None:
    shares = Shares(NARROW)
    second = Visitor("another tab", ALICE.address)
    shares.take(ALICE)
    shares.take(ALICE)
    with pytest.raises(Busy, match="as one may have") as caught:
        shares.take(ALICE)
    assert "Stop one" in caught.value.hint
    shares.take(second)
    with pytest.raises(Busy, match=r"From your network address .* \(3\)"):
        shares.take(Visitor("forged", ALICE.address))
    for _ in range(2):
        shares.take(Visitor(ALICE.page, BOB.address))  # who claims another's page has nothing of it
    shares.give(second)
    shares.take(Visitor("forged", ALICE.address))
    with pytest.raises(Busy, match="as one may have"):
        shares.take(ALICE)


def test_many_at_one_time_take_no_more_than_the_share() -> None:
    shares, taken = Shares(NARROW), []

    def work(number: int) -> None:
        try:
            shares.take(Visitor(str(number), "192.0.2.1"))
        except Busy:
            return
        taken.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == NARROW.address_runs


def test_one_s_own_machine_has_no_bound_and_a_public_page_a_small_one() -> None:
    shares = Shares(LOCAL)
    for _ in range(200):
        shares.take(NOBODY)
    assert (PUBLIC.page_runs, PUBLIC.address_runs) == (2, 8)
    assert "Of your runs 2 may wait" in " ".join(PUBLIC.sentences())


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:aaaa:bbbb:cccc:dddd", "2001:db8:1:2::"),
        ("2001:db8:1:2::1", "2001:db8:1:2::"),
        ("2001:db8:1:3::1", "2001:db8:1:3::"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("no address", "no address"),
        (None, ""),
    ],
)
def test_a_visitor_is_a_page_at_an_address(host: str | None, address: str) -> None:
    asked: Any = SimpleNamespace(session_hash="page", client=SimpleNamespace(host=host))
    assert Visitor.of(asked) == Visitor("page", address)
    assert Visitor.of(None) == NOBODY


def test_what_is_too_much_is_said_at_once_and_leaves_nothing_behind(services: Services) -> None:
    streams = [begun(services, f"{number:016x}", ALICE) for number in range(2)]
    refused = answer(services, f"{2:016x}", ALICE)
    assert refused["kind"] == "error"
    assert "as one may have (2)" in refused["message"]
    assert "Stop one" in refused["hint"]
    assert services.runs.find(f"{2:016x}") is None, "refusals push nobody's run out of the store"
    assert answer(services, f"{3:016x}", BOB)["kind"] == "status"
    streams[0].close()
    until(lambda: answer(services, f"{4:016x}", ALICE)["kind"] == "status")
    streams[1].close()


@pytest.mark.parametrize(
    "end",
    [
        lambda services, stream: services.stop("a" * 16) or list(stream),
        lambda _, stream: stream.close(),
        lambda _, stream: list(stream),
    ],
    ids=["stopped", "client gone", "ended"],
)
def test_a_share_is_free_again_once_a_run_has_ended(end: Callable[[Services, Any], Any]) -> None:
    services = services_of(ServerPolicy(page_runs=1), pause=0.01)
    end(services, begun(services, "a" * 16, ALICE))
    until(lambda: answer(services, "b" * 16, ALICE)["kind"] == "status")


@pytest.mark.parametrize("prompt", ["fail", "crash", "  "])
def test_a_share_is_free_again_once_a_run_has_failed(prompt: str) -> None:
    services = services_of(ServerPolicy(page_runs=1), pause=0)
    (*_, (_, lines)) = services.stream("a" * 16, lambda: request(prompt=prompt), visitor=ALICE)
    assert json.loads(lines[-1])["kind"] == "error"
    assert answer(services, "b" * 16, ALICE)["kind"] == "status", "whoever has heard the end may begin again"


def test_a_run_that_waits_for_a_step_counts_and_a_number_twice_does_not(services: Services) -> None:
    stream = services.stream("a" * 16, request, stepping=True, visitor=ALICE)
    next(stream)
    until(lambda: services.status()["queue"]["stepping"])
    with pytest.raises(BadRequest, match="number already"):
        next(services.stream("a" * 16, request, visitor=ALICE))
    second = begun(services, f"{1:016x}", ALICE)
    assert "as one may have (2)" in answer(services, f"{2:016x}", ALICE)["message"]
    stream.close()
    second.close()


# ---- over HTTP ----------------------------------------------------------------------------------------------------


@contextmanager
def public(**given: Any) -> Iterator[tuple[Services, str]]:
    """A page with small shares, and runs that last until they are stopped."""
    services = services_of(ServerPolicy(**({"page_runs": 2, "address_runs": 3} | given)), pause=0.5)
    with serving(services) as address:
        yield services, address


def held(services: Services, count: int) -> None:
    until(lambda: services.status()["queue"]["length"] == count)


def from_address(address: str, own: str, **headers: str) -> httpx.Client:
    """A client of this machine at an address of its own; 127.0.0.1 itself the server takes for a proxy in any case."""
    return httpx.Client(base_url=address, timeout=60, headers=headers, transport=httpx.HTTPTransport(local_address=own))


def posted_run(http: httpx.Client, ticket: str) -> None:
    assert posted(http, "gradio_api/call/run", {"data": [*RUN[:-1], ticket]}).status_code == 200


def test_a_program_has_its_share_and_a_stop_frees_it() -> None:
    with public() as (services, address):
        client = gradio_client.Client(address, verbose=False)
        for number in range(2):
            client.submit(prompt="Why?", ticket=f"{number:016x}", api_name="/run")
            held(services, number + 1)
        with pytest.raises(Exception, match=r"as one may have \(2\)\. Stop one"):
            client.predict(prompt="Why?", api_name="/run")
        with pytest.raises(Exception, match="as one may have"):
            client.predict(prompt="Why?", ways=[{"strategy": "tree"}], api_name="/compare")
        assert client.predict(api_name="/status")["limits"]["runs_at_one_time"] == 2
        client.predict(ticket=f"{1:016x}", api_name="/stop")
        held(services, 1)
        client.submit(prompt="Why?", ticket=f"{2:016x}", api_name="/run")
        held(services, 2)
        for number in range(3):
            services.stop(f"{number:016x}")


@many_addresses
def test_new_sessions_and_claimed_addresses_get_nobody_more() -> None:
    with public() as (services, address):
        for number in range(3):
            with from_address(address, "127.0.0.9", **{"X-Forwarded-For": f"198.51.100.{number}"}) as http:
                posted_run(http, f"{number:016x}")  # each a session of its own
                held(services, number + 1)
        with from_address(address, "127.0.0.9", **{"X-Forwarded-For": "198.51.100.77", "X-Real-IP": "8.8.8.8"}) as http:
            assert "From your network address" in called(http, "/run", RUN)
            listener = next(
                item["id"]
                for item in http.get("config").json()["dependencies"]
                if item["js"] == "() => [canopy.compare.begin()]"
            )
            assert "From your network address" in compared(http, listener, "forged")
        with from_address(address, "127.0.0.10") as http:
            posted_run(http, f"{3:016x}")
            held(services, 4)
        for number in range(4):
            services.stop(f"{number:016x}")


def compared(http: httpx.Client, listener: int, session: str) -> str:
    """What the page's tab Compare is answered."""
    asked = {"ticket": "f" * 16, "prompt": "Why?", "target": "small", "ways": [{"strategy": "tree"}], "text": {}}
    body = {"data": [json.dumps(asked)], "fn_index": listener, "session_hash": session}
    assert posted(http, "gradio_api/queue/join", body).status_code == 200
    with http.stream("GET", "gradio_api/queue/data", params={"session_hash": session}) as stream:
        return "".join(stream.iter_text())


@many_addresses
def test_behind_a_proxy_the_address_is_the_one_that_the_proxy_saw() -> None:
    with public(page_runs=1, address_runs=1, proxies=SPACE_PROXIES) as (services, address):

        def through_proxy(seen: str, claimed: str) -> httpx.Client:
            return from_address(address, "127.0.0.9", **{"X-Forwarded-For": f"{claimed}, {seen}, 10.0.3.7"})

        with through_proxy("203.0.113.5", "198.51.100.1") as http:
            posted_run(http, "0" * 16)
            held(services, 1)
        with through_proxy("203.0.113.5", "198.51.100.2") as http:
            assert "From your network address" in called(http, "/run", RUN)
        with through_proxy("203.0.113.6", "198.51.100.1") as http:
            posted_run(http, "1" * 16)
            held(services, 2)
        services.stop("0" * 16)
        services.stop("1" * 16)


@pytest.mark.browser
@pytest.mark.slow
def test_a_visitor_with_too_many_runs_is_told_on_the_page() -> None:
    with chromium() as browser, public(page_runs=1, address_runs=1) as (services, address):
        (first, _), (second, watch) = opened(browser, address), opened(browser, address)
        first.locator("#cy-run").click()
        held(services, 1)
        second.locator("#cy-run").click()
        notice = second.locator("[data-part=notice]")
        notice.wait_for(state="visible", timeout=30_000)
        assert "as may at one time (1)" in notice.inner_text()
        assert "Wait until one has ended" in notice.inner_text()
        second.wait_for_function("() => canopy.explore.buttons.state === 'idle'")
        first.locator("#cy-stop").click()
        held(services, 0)
        second.locator("[data-part=noticeRetry]").click()
        second.wait_for_function("() => canopy.explore.log.id !== 'recorded'", timeout=30_000)
        watch.check(address)
        second.locator("#cy-stop").click()

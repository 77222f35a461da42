"""The page's document is written once per address, and is what Gradio writes, with the early links."""

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.workbench.browser import served
from workbench.front_page import MOST_ADDRESSES, FrontPage

LINKS = "<link early>"


class Writer:
    """Writes a page that says for whom, and counts."""

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.status = 200

    async def __call__(self, request: Request) -> Response:
        self.queries.append(request.url.query)
        return HTMLResponse(f"<head><base href='.'></head>{request.headers['host']}", self.status)


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def client(writer: Writer) -> TestClient:
    async def other(_: Any) -> Response:
        return HTMLResponse("<base>")

    routes = [Route("/", writer.__call__), Route("/other", other)]
    return TestClient(Starlette(routes=routes, middleware=[Middleware(FrontPage, links=LINKS)]))


def test_it_is_written_once_whatever_the_query(client: TestClient, writer: Writer) -> None:
    first = client.get("/?run=abc&deep_link=../../etc").text
    assert first == client.get("/").text == f"<head><base href='.'>\n{LINKS}</head>testserver"
    assert writer.queries == [""]


def test_packed_and_plain_are_the_same(client: TestClient) -> None:
    packed, plain = client.get("/"), client.get("/", headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.text == plain.text
    assert int(plain.headers["content-length"]) == len(plain.content)


def test_each_address_has_its_own_and_they_are_bounded(client: TestClient, writer: Writer) -> None:
    for number in range(2 * MOST_ADDRESSES + 1):
        for _ in range(2):
            assert client.get("/", headers={"host": f"host{number}"}).text.endswith(f"host{number}")
    assert len(writer.queries) == 2 * MOST_ADDRESSES + 1
    client.get("/", headers={"host": "host0"})
    assert len(writer.queries) == 2 * MOST_ADDRESSES + 2, "the first have had to go"


def test_a_failure_is_not_kept(client: TestClient, writer: Writer) -> None:
    writer.status = 500
    assert client.get("/").status_code == 500
    writer.status = 200
    assert client.get("/").status_code == 200


def test_other_answers_pass(client: TestClient) -> None:
    assert client.get("/other").text == "<base>"
    assert client.head("/").text == ""
    assert client.post("/").status_code == 405


def test_the_real_page_knows_the_address_that_it_was_asked_at() -> None:
    with served() as address:
        here = httpx.get(address).text
        there = httpx.get(address, headers={"x-forwarded-host": "canopy.example", "x-forwarded-proto": "https"}).text
        again = httpx.get(address).text
    assert here == again
    assert "modulepreload" in here
    assert "https://canopy.example" in there
    assert "canopy.example" not in here

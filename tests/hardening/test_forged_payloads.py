"""Five thousand forged payloads, to every endpoint, server function, listener and route, several at a time."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import httpx
import pytest

from tests.hardening.short_run import write_short
from tests.hardening_counts import Effort, Tally
from tests.workbench.browser import served
from tests.workbench.forged import GOOD, INSIDE, JUNK, called, healthy, posted

pytestmark = pytest.mark.hardening
AT_ONE_TIME = 12
BODIES: tuple[bytes, ...] = (
    b"", b"{", b"[]", b"null", b"3", b'"x"', b'{"data": 3}', b'{"data": {"a": 1}}', b'{"dta": []}', b"\xff\xfe",
    b"[" * 100_000, b'{"data": [' + b"9" * 6000 + b"]}", b'{"data": [1e999]}', b'{"data": ["\\ud800"]}',
    b'{"data": [], "fn_index": -1, "session_hash": "x"}', b'{"data": [], "fn_index": "../x", "session_hash": []}',
    b'{"data": [], "event_id": "../../etc/passwd", "session_hash": null}', b"a=b&c=d", b"\x00" * 1000,
)  # fmt: skip
PATHS = (
    "gradio_api/queue/join", "gradio_api/component_server", "gradio_api/cancel", "gradio_api/reset",
    "gradio_api/call/run", "gradio_api/call/none", "gradio_api/run/predict", "gradio_api/upload", "gradio_api/login",
    "canopy/runs", "canopy/runs/of/" + "0" * 16, "canopy/runs/of/..%2f..%2fetc",
    "canopy/runs/of/" + "0" * 16 + "/events/-1", "healthz", "config", "",
)  # fmt: skip
Attack = tuple[str, Callable[[httpx.Client], httpx.Response | str]]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(write_short(tmp_path_factory.mktemp("short") / "run.jsonl")) as found:
        yield found


def spiced(random: Random, depth: int = 0) -> Any:
    """Junk, alone or inside of something."""
    way = random.randrange(6)
    if depth > 2 or way < 4:
        return random.choice(JUNK)
    if way == 4:
        return [spiced(random, depth + 1) for _ in range(random.randrange(4))]
    names = ("strategy", "drafter", "settings", "budget", "max_new_tokens", "path", "__proto__", "kind", "\u202e")
    return {random.choice(names): spiced(random, depth + 1) for _ in range(random.randrange(4))}


def to_endpoint(random: Random) -> Attack:
    name = random.choice(list(GOOD))
    data = list(GOOD[name])
    for place in range(len(data)):
        if random.random() < 0.4:
            data[place] = spiced(random)
    if random.random() < 0.1:
        data = data[: random.randrange(len(data) + 1)] + [spiced(random) for _ in range(random.randrange(3))]
    return f"{name} {data}"[:300], lambda http: called(http, name, data)


def to_function(random: Random, functions: list[tuple[int, str]]) -> Attack:
    number, name = random.choice(functions)
    if random.random() < 0.1:
        number, name = random.choice(((number, "__init__"), (number, "postprocess"), (10**9, name), (-1, name)))
    data = spiced(random)
    if random.random() < 0.4:
        data = ["0" * 16, data]
    body = {"data": data, "component_id": number, "fn_name": name, "session_hash": spiced(random)}
    return f"{name} {data}"[:300], lambda http: posted(http, "gradio_api/component_server", body)


def to_listener(random: Random, listeners: list[tuple[int, int]]) -> Attack:
    number, width = random.choice(listeners)
    session = f"{random.getrandbits(64):x}"
    data = [spiced(random) if random.random() < 0.6 else "0" * 16 for _ in range(width)]

    def ask(http: httpx.Client) -> httpx.Response | str:
        begun = posted(http, "gradio_api/queue/join", {"data": data, "fn_index": number, "session_hash": session})
        if begun.status_code != 200:
            return begun
        with http.stream("GET", "gradio_api/queue/data", params={"session_hash": session}) as stream:
            for line in stream.iter_lines():
                message = json.loads(line[5:]) if line.startswith("data:") else {}
                if message.get("msg") in ("process_completed", "close_stream", "unexpected_error"):
                    return str((message.get("output") or {}).get("error"))
        return ""

    return f"listener {number} {data}"[:300], ask


def to_path(random: Random) -> Attack:
    path, body = random.choice(PATHS), random.choice(BODIES)
    method = random.choice(("POST", "POST", "POST", "PUT", "DELETE"))
    headers = {
        "Content-Type": random.choice(("application/json", "text/plain", "multipart/form-data")),
        "x-canopy-visitor": random.choice(("a" * 32, "../" * 10, "")),
        "Connection": "close",  # uploads are refused before they are read
    }
    return f"{method} {path} {body[:40]!r}", lambda http: http.request(method, path, content=body, headers=headers)


@pytest.mark.timeout(1200)
def test_forged_payloads_are_survived(address: str, effort: Effort, tally: Tally) -> None:
    with httpx.Client(base_url=address, timeout=60, limits=httpx.Limits(max_connections=2 * AT_ONE_TIME)) as http:
        config = http.get("config").json()
        parts, listed = config["components"], config["dependencies"]
        functions = [(part["id"], name) for part in parts for name in part["props"].get("server_fns") or ()]
        listeners = [(item["id"], len(item["inputs"])) for item in listed if item["backend_fn"]]
        assert {name for _, name in functions} >= {"step", "proceed", "state", "unload"}
        makers: list[Callable[[Random], Attack]] = [
            to_endpoint,
            lambda random: to_function(random, functions),
            lambda random: to_listener(random, listeners),
            to_path,
        ]

        def attack(seed: int) -> None:
            random = Random(seed)
            what, ask = makers[seed % len(makers)](random)
            answer = ask(http)
            text = answer if isinstance(answer, str) else answer.text
            harmless = "event: complete" in text
            assert harmless or not INSIDE.search(text), (seed, what, text[:500])
            assert "root:x:0" not in text, (seed, what)

        tries = effort(5_000, 160)
        with ThreadPoolExecutor(AT_ONE_TIME) as pool:
            for _ in pool.map(attack, range(tries)):
                pass
        healthy(http)
        assert http.get("").status_code == 200
        status = json.loads(called(http, "/status", []).partition("data: ")[2].splitlines()[0])[0]
        assert status["queue"]["length"] == 0
    tally(f"{tries:,} forged payloads to {len(GOOD)} endpoints, {len(functions)} server functions, {len(listeners)} "
          f"listeners and {len(PATHS)} paths: no inside shown, the page healthy after them")  # fmt: skip

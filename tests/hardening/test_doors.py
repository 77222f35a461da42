"""Only the page is served: no file outside `static/`, no route that the page does not use, no body without end."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import anyio
import httpx
import pytest
from starlette.types import Message, Receive, Scope

from tests.hardening.short_run import short_lines, write_short
from tests.hardening_counts import Tally
from tests.workbench.browser import served
from workbench.doors import MAX_BODY_BYTES, MAX_SENT_BYTES, Doors

pytestmark = pytest.mark.hardening
ROOT = Path(__file__).parents[2]
SECRETS = (
    "app.py", "requirements.txt", ".git/config", "workbench/page.py", "decoding/trace.py", "etc/passwd",
    "proc/self/environ",
)  # fmt: skip
UP = ("", "/", "//", "../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "....//", "%252e%252e%252f", "..%c0%af",
      "/%2e%2e/", "../" * 8, "%2e%2e%2f" * 8, "./../", "file://", "file:///", str(ROOT) + "/")  # fmt: skip
DOORS = (
    "", "canopy/", "canopy/traces/", "canopy/runs/", "canopy/runs/of/", "static/", "assets/", "svelte/",
    "gradio_api/file=", "gradio_api/file/", "file=", "file/", "gradio_api/proxy=", "proxy=",
    "gradio_api/custom_component/1/client/component/", "gradio_api/stream/", "gradio_api/upload/", "theme.css/",
    "healthz/",
)  # fmt: skip
CONTENT = ("def main()", "gradio", "torch>=", "repositoryformatversion", "import ", "root:x:0", "PATH=")
CLOSED = (
    ("POST", "gradio_api/upload"), ("GET", "gradio_api/upload_progress?upload_id=x"), ("GET", "gradio_api/deep_link"),
    ("GET", "monitoring"), ("GET", "monitoring/summary"), ("GET", "gradio_api/run-history/records"),
    ("GET", "gradio_api/runs"), ("POST", "gradio_api/process_recording"), ("POST", "gradio_api/vibe-edit"),
    ("GET", "gradio_api/vibe-code"), ("POST", "gradio_api/vibe-code"), ("GET", "gradio_api/token"), ("GET", "login"),
    ("POST", "login"), ("GET", "logout"), ("GET", "gradio_api/login_check"), ("GET", "gradio_api/dev/reload"),
    ("GET", "docs"), ("GET", "redoc"), ("GET", "openapi.json"), ("GET", "gradio_api/mcp"), ("GET", "gradio_api/proxy=http://x/"),
)  # fmt: skip
ANSWERED = ("", "config", "theme.css", "canopy/page.js", "canopy/traces/welcome.jsonl", "healthz", "readyz",
            "gradio_api/info", "gradio_api/upload", "nothing/here", "canopy/nothing.js")  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(write_short(tmp_path_factory.mktemp("short") / "run.jsonl")) as found:
        yield found


@pytest.fixture
def http(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60) as client:
        yield client


def raw_get(address: str, path: str) -> httpx.Response:
    """A path as it stands: httpx would tidy dots away."""
    request = httpx.Request("GET", address)
    request.url = request.url.copy_with(raw_path=("/" + path).encode())
    with httpx.Client(timeout=60) as client:
        return client.send(request)


def test_no_file_outside_static_is_served(address: str, tally: Tally) -> None:
    tries = list(product(DOORS, UP, SECRETS))
    request = httpx.Request("GET", address)
    found = 0
    with httpx.Client(timeout=60) as client:
        for door, up, secret in tries:
            request.url = request.url.copy_with(raw_path=f"/{door}{up}{secret}".encode())
            answer = client.send(request)
            assert answer.status_code in (400, 403, 404, 405), (door, up, secret, answer.status_code)
            assert not any(text in answer.text for text in CONTENT), (door, up, secret, answer.text[:300])
            found += answer.status_code == 200
    assert found == 0
    assert raw_get(address, "canopy/page.js").status_code == 200
    tally(f"{len(tries):,} paths to files outside static/: none served")


def test_what_the_page_does_not_use_is_not_there(http: httpx.Client, tally: Tally) -> None:
    for method, path in CLOSED:
        answer = http.request(method, path, files={"files": b"x"} if method == "POST" else None)
        assert answer.status_code == 404, (method, path, answer.status_code)
    tally(f"{len(CLOSED)} routes of Gradio that the page does not use: closed")


def test_every_answer_has_the_headers(http: httpx.Client) -> None:
    for path in ANSWERED:
        headers = http.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy, path
        assert "frame-ancestors *" in policy, "a Space and embed=1 live in frames"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert "x-frame-options" not in headers
    trace = "".join(json.dumps(line) + "\n" for line in short_lines())
    kept = http.post("canopy/runs", content=trace, headers={"x-canopy-visitor": "a" * 32}).json()["id"]
    assert http.get(f"canopy/runs/{kept}").headers["content-security-policy"] == "default-src 'none'; sandbox"


def test_a_body_is_bounded(http: httpx.Client) -> None:
    for path in ("gradio_api/queue/join", "gradio_api/call/run", "gradio_api/component_server", "gradio_api/cancel"):
        long = b'{"data": ["' + b"x" * MAX_BODY_BYTES + b'"]}'
        answer = http.post(path, content=long, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
        assert answer.json()["hint"]

    assert http.get("healthz").status_code == 200


def answer_to(receive: Receive) -> int:
    """The status that a request with this body gets before anything of Gradio sees it."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def unseen(*_: object) -> None:
        raise AssertionError("the body was let in")

    scope: Scope = {"type": "http", "method": "POST", "path": "/gradio_api/queue/join", "headers": []}
    anyio.run(Doors(unseen), scope, receive, send)
    return int(sent[0]["status"])


def test_a_body_without_end_is_cut_off() -> None:
    heard = 0

    async def endless() -> Message:
        nonlocal heard
        heard += 65536
        return {"type": "http.request", "body": b"x" * 65536, "more_body": True}

    assert answer_to(endless) == 413
    assert heard <= MAX_SENT_BYTES + 65536


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.doors.BODY_SECONDS", 0.05)

    async def silent() -> Message:
        await anyio.sleep_forever()
        raise AssertionError

    assert answer_to(silent) == 408


def test_weights_are_safetensors_and_data_never_becomes_code() -> None:
    """No module of the core or the page unpickles, evaluates, or lets a checkpoint bring code of its own."""
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--output-format", "concise"]
    rules = "S301,S302,S307,S102,S506,S602,S605"  # pickle, marshal, eval, exec, yaml, shells
    done = subprocess.run([*ruff, "--select", rules, "decoding", "workbench", "app.py"], cwd=ROOT, capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stdout
    sources = [
        path.read_text(encoding="utf-8") for name in ("decoding", "workbench") for path in (ROOT / name).rglob("*.py")
    ]
    assert not any("trust_remote_code=True" in source for source in sources)
    unpickled = [call for source in sources for call in re.findall(r"torch\.load\(.*", source)]
    assert all("weights_only=True" in call for call in unpickled)
    assert any("use_safetensors=True" in source for source in sources)

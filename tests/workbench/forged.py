"""Payloads that nobody should send, to every way into the page, and what must not be in an answer."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx

LONG = "x" * 100_000
DEEP: Any = []
for _ in range(100):
    DEEP = [DEEP]
JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**30,
    1e308,
    float("nan"),
    float("-inf"),
    "",
    LONG,
    "../../etc/passwd",
    "/etc/passwd",
    "file:///etc/passwd",
    "C:\\Windows\\system.ini",
    "a\x00b\u202e",
    "\ud800",
    {"\udc00": "\ud800"},
    "<script>alert(1)</script>${1+1}{{value}}",
    [],
    [[None], {"a": [1, {"b": "c"}]}],
    DEEP,
    {},
    {"__class__": "x", "path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}},
    {"path": "/etc/passwd"},
    {"budget": -5},
    {"budget": float("nan"), "temperature": "hot"},
)
INSIDE = re.compile(r"Traceback|File \"|site-packages|/work/|/home/|\.py\b|KeyError|TypeError|ValueError")


def posted(http: httpx.Client, path: str, body: Any) -> httpx.Response:
    content = json.dumps(body, allow_nan=True).encode("utf-8", "surrogatepass")
    return http.post(path, content=content, headers={"Content-Type": "application/json"})


def called(http: httpx.Client, name: str, data: Any) -> str:
    """What an endpoint answers in the end, as text."""
    begun = posted(http, f"gradio_api/call{name}", {"data": data})
    if begun.status_code != 200:
        return begun.text
    with http.stream("GET", f"gradio_api/call{name}/{begun.json()['event_id']}") as stream:
        return "".join(stream.iter_text())


def forged_arguments(width: int, good: list[Any]) -> Iterator[list[Any]]:
    for place in range(width):
        for junk in JUNK[place % 3 :: 3]:  # in full, all places at once: below; at random: tests/hardening
            yield [*good[:place], junk, *good[place + 1 :]]
    for junk in JUNK:
        yield [junk] * width
    yield []
    yield good * 5


def healthy(http: httpx.Client) -> None:
    assert "complete" in called(http, "/status", [])


GOOD: dict[str, list[Any]] = {
    "/run": ["Why?", "small", "mini", "tree", {}, {"max_new_tokens": 4}, False, "", ""],
    "/compare": ["Why?", [{"strategy": "tree"}], "small", {"max_new_tokens": 4}, ""],
    "/list": [],
    "/offer": ["small", "mini", "tree"],
    "/stop": ["0" * 16],
    "/status": [],
    "/trace": ["0" * 16],
}

"""Headless Chromium for the tests of the page, and the page served with a replaying engine."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from workbench.services import Services

CANDIDATES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=LocalNetworkAccessChecks",  # a page of another host may frame this one
]
READY = "() => window.canopy?.explore?.tree.round"


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser. Without one the test fails in CI (env CI), and is skipped elsewhere."""
    path = next((found for name in CANDIDATES if (found := shutil.which(name))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        reason = "no chromium (apt-get install chromium) or no playwright (pip install playwright)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(trace: Path | None = None, pause: float = 0.0) -> Iterator[str]:
    """The page over a replaying engine; gives its address."""
    from tests.workbench.replay_engine import WELCOME, ReplayEngine
    from workbench.services import Services

    with serving(Services(ReplayEngine(trace or WELCOME, pause))) as address:
        yield address


@contextmanager
def serving(services: "Services") -> Iterator[str]:
    """The page over these services; gives its address."""
    with launched(services) as page:
        yield page.local_url


@contextmanager
def launched(services: "Services") -> Iterator[Any]:
    """The page over these services, as Gradio has it."""
    from workbench.page import build_page, launch_arguments

    page = build_page(services)
    page.launch(
        server_name="127.0.0.1", server_port=free_port(), prevent_thread_lock=True, **launch_arguments(services)
    )
    yield page
    page.close()


class Watch:
    """What a page must not do: complain, fail, or talk to another host."""

    def __init__(self, page: Any) -> None:
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.hosts.add(request.url.split("/")[2] if "//" in request.url else ""))

    def check(self, address: str) -> None:
        strangers = self.hosts - {"", address.split("/")[2]}
        assert not self.complaints, self.complaints
        assert not strangers, strangers


def opened(
    browser: Any, address: str, ready: str = READY, timeout: float = 60_000, **options: Any
) -> tuple[Any, Watch]:
    """The page, watched, in a context of its own (with `options`), once it is `ready` (`timeout` in milliseconds)."""
    page = browser.new_context(**({"viewport": {"width": 1440, "height": 900}} | options)).new_page()
    watch = Watch(page)
    page.goto(address)
    page.wait_for_function(ready, timeout=timeout)
    return page, watch

"""What a visitor does with runs: opens the page, imports, lists, saves, shares."""

import json
from pathlib import Path
from typing import Any

from tests.workbench.browser import READY, Watch
from tests.workbench.replay_engine import WELCOME

TEXT = WELCOME.read_text(encoding="utf-8")
LINES = TEXT.splitlines(keepends=True)
SHORT = "".join(LINES[:6])
FORMULAS = ("=1+1", "+1", "-1", "@A1", "\t=1", " =1")
ROWS = "[data-part=rows] tr:not([data-origin=recorded])"
"""Those that do not ship with the page."""


def opened(context: Any, url: str) -> tuple[Any, Watch]:
    page = context.new_page()
    watch = Watch(page)
    page.goto(url)
    page.wait_for_function(READY, timeout=60_000)
    page.evaluate("() => canopy.explore.ready")
    return page, watch


def prompted(text: str, prompt: str) -> str:
    header, *rest = text.splitlines(keepends=True)
    return json.dumps(json.loads(header) | {"prompt": prompt}) + "\n" + "".join(rest)


def give(page: Any, text: str, name: str = "night run.jsonl") -> None:
    """Imports through the button."""
    page.evaluate("() => canopy.showTab('sessions')")
    with page.expect_file_chooser() as chooser:
        page.locator("[data-part=import]").click()
    chooser.value.set_files({"name": name, "mimeType": "", "buffer": text.encode("utf-8", "surrogatepass")})


def imported(page: Any, text: str, name: str = "night run.jsonl") -> None:
    before = page.evaluate("() => canopy.explore.log.id")
    give(page, text, name)
    page.wait_for_function("(id) => canopy.explore.log.id !== id", arg=before, timeout=30_000)


def listed(page: Any, count: int) -> list[str]:
    """The names on the Sessions tab, once there are so many that are written down."""
    page.evaluate("() => canopy.showTab('sessions')")
    page.wait_for_function(
        "([rows, count]) => document.querySelector('[data-origin=recorded]')"
        " && document.querySelectorAll(rows).length === count"
        " && !document.querySelector(rows + ' button:disabled')",
        arg=[ROWS, count],
        timeout=30_000,
    )
    return page.locator(f"{ROWS} .cy-run-name").all_inner_texts()


def saved(page: Any, kind: str) -> bytes:
    if not page.locator(".cy-sharing[open]").count():
        page.evaluate("() => canopy.showTab('explore')")
        page.locator("[data-part=share]").click()
    with page.expect_download() as download:
        page.locator(f"[data-file={kind}]").click()
    return Path(download.value.path()).read_bytes()


def events(raw: bytes | str) -> list[Any]:
    return [json.loads(line) for line in raw.splitlines()]


def shared(page: Any) -> str:
    page.evaluate("() => canopy.showTab('explore')")
    page.locator("[data-part=share]").click()
    page.wait_for_function("() => document.querySelector('[data-part=link]')?.value")
    return page.input_value("[data-part=link]")

"""What the benchmark of the page measures with a server that decodes: `python app.py` and the embedded model."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.workbench.browser import READY, free_port
from tests.workbench.page_timing import IDLE, Timing, repeated, timed_page

ROOT = Path(__file__).parents[2]
RUN_TIMEOUT = 600_000


@contextmanager
def app() -> Iterator[tuple[str, float]]:
    """`python app.py`; gives its address, and the milliseconds until it said so."""
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "app.py", "--port", str(free_port())], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("Canopy is at "):
                    yield line.removeprefix("Canopy is at ").strip(), 1000 * (time.monotonic() - began)
                    break
            else:
                raise RuntimeError("app.py ended before it served the page")
        finally:
            process.terminate()


def cold(browser: Any, effort: Any) -> Iterator[dict[str, Any]]:
    """A new process and a browser with nothing in its cache: the process's start and the page's load told apart."""
    started, loaded, idle = [], [], []
    for _ in range(effort.repeats):
        with app() as (address, took):
            started.append(took)
            blank = timed_page(browser, address + "canopy/status.html")
            idle.append(float(blank.evaluate("() => timing.painted()")))
            page = timed_page(browser, address)
            loaded.append(float(page.evaluate("() => timing.firstTree()")))
            for opened in (blank, page):
                opened.context.close()
    yield Timing("process start to serving", started, []).row()
    yield Timing("page load to first tree, cold", loaded, idle, 2000).row()


def sessions(browser: Any, effort: Any) -> Iterator[dict[str, Any]]:
    """Many sessions open and one running: what the others feel while they scrub."""
    with app() as (address, _):
        pages = [timed_page(browser, address) for _ in range(effort.sessions)]
        idle = timed_page(browser, IDLE)
        for page in pages:
            page.wait_for_function(READY, timeout=120_000)
        runner, others = pages[0], pages[1:]
        _ask_for(runner, effort.new_tokens)
        _page_run(runner)  # loads the model
        shown = runner.evaluate("() => canopy.explore.log.id")
        runner.locator("#cy-run").click()
        runner.wait_for_function("(id) => canopy.explore.log.id !== id", arg=shown, timeout=RUN_TIMEOUT)
        felt: list[float] = []
        blank: list[float] = []
        while not runner.evaluate("() => canopy.explore.log.summary !== null"):
            for page in others:
                felt += repeated(page, "keydown", lambda _, page=page: page.keyboard.press("ArrowRight"), 2, warm=1)
            blank += repeated(idle, "keydown", lambda _: idle.keyboard.press("ArrowRight"), 4, warm=1)
        for page in (*pages, idle):
            page.context.close()
    row = Timing(f"scrub in the other {len(others)} sessions while one runs", felt, blank).row()
    yield row | {"target": "worst 200"}


def streaming(browser: Any, effort: Any) -> Iterator[dict[str, Any]]:
    """Tokens per second of a run that is watched on the page, against the same run in a process of its own.

    Both processes keep their models and have run once before; runs alternate, and the other process waits.
    """
    watched: list[float] = []
    alone: list[float] = []
    with app() as (address, _):
        page = timed_page(browser, address)
        page.wait_for_function(READY, timeout=120_000)
        _ask_for(page, effort.new_tokens)
        request = _page_run(page)["header"]  # loads the model
        with _decoder(request) as run_alone:
            run_alone()
            for _ in range(4 * effort.repeats):  # one run differs from the next by more than what is looked for
                alone.append(run_alone())
                watched.append(_page_run(page)["tokens_per_second"])
        page.context.close()
    row = Timing("tokens/s on the page (idle: the same run without a page)", watched, alone).row()
    yield row | {"target": "ratio .95"}


def _ask_for(page: Any, new_tokens: int) -> None:
    page.get_by_text("Text and sampling").click()
    number = page.locator("#cy-set-text-max-new-tokens input[type=number]")
    number.fill(str(new_tokens))
    number.blur()


def _page_run(page: Any) -> dict[str, Any]:
    before = page.evaluate("() => canopy.explore.log.id")
    page.locator("#cy-run").click()
    page.wait_for_function(
        "(before) => canopy.explore.log.id !== before && canopy.explore.log.summary",
        arg=before,
        polling=1000,  # looking in every frame would have the browser make sixty of them a second
        timeout=RUN_TIMEOUT,
    )
    return dict(
        page.evaluate("""() => {
        const { header, summary } = canopy.explore.log;
        return { header, tokens_per_second: summary.metrics.tokens_per_second };
    }""")
    )


@contextmanager
def _decoder(header: dict[str, Any]) -> Iterator[Any]:
    """A process that decodes the same request whenever it is asked; gives the function that asks."""
    names = ("prompt", "target", "drafter", "strategy", "settings", "max_new_tokens", "temperature", "seed")
    command = [sys.executable, "-m", "tests.workbench.bench_server", json.dumps({n: header[n] for n in names})]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    ) as process:

        def run() -> float:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        try:
            yield run
        finally:
            process.terminate()


def _decode_when_asked(request: dict[str, Any]) -> None:
    from decoding.model_store import ModelStore
    from decoding.run import RunSettings, run

    models = ModelStore()
    for _ in sys.stdin:
        *_, summary = run(RunSettings(**request), models)
        print(summary["metrics"]["tokens_per_second"], flush=True)


if __name__ == "__main__":
    _decode_when_asked(json.loads(sys.argv[1]))

"""The page in a real browser."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.workbench.browser import READY, Watch, free_port, opened, served
from tests.workbench.replay_engine import WELCOME

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
HOSTILE = (
    "<img src=x onerror=window.pwned=1>",
    "${window.pwned=1}",
    "{{value}}",
    "</script><script>window.pwned=1</script>",
    "`+(window.pwned=1)+`",
    "\u202eevil\u200b\u0007",
)
ROUND = "() => canopy.explore.current"
PLACE = "(node) => canopy.explore.tree.place(node)"


def test_app_opens_on_the_recorded_run_with_no_model_loaded(browser, tmp_path):
    port = free_port()
    address = f"http://127.0.0.1:{port}/"
    with subprocess.Popen(
        [sys.executable, "app.py", "--port", str(port)],
        cwd=ROOT,
        env=os.environ | {"CANOPY_CACHE": str(tmp_path)},
        stdout=subprocess.DEVNULL,
    ) as app:
        try:
            _wait_for(address)
            began = time.monotonic()
            page, watch = opened(browser, address)
            assert time.monotonic() - began < 10  # 2 s on a quiet machine
            assert "no model loaded" in page.inner_text(".cy-status")
            assert _ink(page) > 500
            assert list(tmp_path.iterdir()) == []
            watch.check(address)
        finally:
            app.terminate()


def _wait_for(address: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            urlopen(address, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def _ink(page: Any) -> int:
    """How many pixels of the tree's canvas are drawn."""
    return page.evaluate(
        "() => { const { canvas, context } = canopy.explore.tree;"
        "return context.getImageData(0, 0, canvas.width, canvas.height).data"
        ".filter((value, i) => i % 4 === 3 && value).length }"
    )


@pytest.mark.slow
def test_keys_scrub_and_are_silent_while_typing(browser, replay):
    page, watch = opened(browser, replay)
    page.keyboard.press("Home")
    assert page.evaluate(ROUND) == 0
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(ROUND) == 2
    assert page.inner_text("[data-part=position]") == "3"
    page.keyboard.press("ArrowLeft")
    page.focus("#cy-prompt textarea")
    page.keyboard.press("ArrowRight")
    page.keyboard.type("f ?")
    assert page.evaluate(ROUND) == 1
    assert not page.locator(".cy-keys").is_visible()
    page.locator(".cy-head h2").first.click()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    assert page.locator(".cy-keys").is_visible()
    watch.check(replay)


def test_a_click_selects_a_node_and_fills_the_panel(browser, replay):
    page, watch = opened(browser, replay)
    at = page.evaluate(PLACE, 0)
    page.locator(".cy-canvas canvas").click(position=at)
    assert page.evaluate("() => canopy.explore.selected") == 0
    assert "root" in page.inner_text("[data-part=nodeChips]")
    assert page.locator("[data-part=nodeNext] .cy-pair").count() >= 8
    page.keyboard.press("Escape")
    assert page.evaluate("() => canopy.explore.selected") is None
    watch.check(replay)


def test_the_slider_the_strip_and_the_text_go_to_their_round(browser, replay):
    page, _ = opened(browser, replay)
    slider = page.locator("[data-part=slider]")
    page.wait_for_function("() => canopy.explore.strip.drawn")  # the slider has its width from then on
    slider.click(position={"x": 3, "y": 5})  # waits until nothing moves it any more
    assert page.evaluate(ROUND) == 0
    slider.click(position={"x": slider.bounding_box()["width"] - 3, "y": 5})
    assert page.evaluate(ROUND) == page.evaluate("() => canopy.explore.log.rounds.length - 1")
    page.locator("[data-part=output] [data-round='1']").first.click()
    assert page.evaluate(ROUND) == 1
    assert page.locator(".cy-now").count() >= 1


def test_dark_mode_follows_the_system_and_the_button(browser, replay):
    page, _ = opened(browser, replay, color_scheme="dark")
    shade = "() => getComputedStyle(document.querySelector('.cy-tree')).backgroundColor"
    dark = page.evaluate(shade)
    assert sum(int(v) for v in dark[4:-1].split(",")) < 150
    ink = page.evaluate("() => canopy.explore.tree.colour.ink")
    page.locator("#cy-theme").click()
    page.wait_for_function("(ink) => canopy.explore.tree.colour.ink !== ink", arg=ink)
    assert page.evaluate(shade) != dark


def test_a_run_streams_follows_and_stops(browser, replay):
    page, watch = opened(browser, replay)
    page.locator("#cy-run").click()
    page.wait_for_function("() => canopy.explore.log.id !== 'recorded' && canopy.explore.current >= 3", timeout=30_000)
    assert page.evaluate("() => canopy.explore.current === canopy.explore.log.rounds.length - 1")
    page.locator("#cy-stop").click()
    page.wait_for_function("() => !document.body.classList.contains('cy-running')", timeout=30_000)
    assert "stopped" in page.inner_text(".cy-status")
    assert page.evaluate("() => canopy.explore.log.summary.finish") == "interrupted"
    watch.check(replay)


@pytest.mark.slow
def test_a_finished_run_is_complete_and_compared(browser, replay):
    page, _ = opened(browser, replay)
    page.locator("#cy-compare input").check()
    page.locator("#cy-run").click()
    page.wait_for_function(
        "() => canopy.explore.log.id !== 'recorded' && canopy.explore.log.comparison", timeout=60_000
    )
    rounds = sum(json.loads(line)["kind"] == "round" for line in WELCOME.read_text(encoding="utf-8").splitlines())
    assert page.evaluate("() => canopy.explore.log.rounds.map((r) => r.index)") == list(range(rounds))
    assert page.inner_text("[data-part=speedup]") == "1.42\u00d7"
    assert "identical" in page.inner_text("[data-part=lossless]")


@pytest.mark.slow
def test_choosers_offer_only_what_fits(browser, replay):
    page, watch = opened(browser, replay)
    page.get_by_label("Drafter").click()
    offered = page.locator("ul[role=listbox] [role=option]")
    offered.last.wait_for()
    assert [text.strip("\u2713\n ") for text in offered.all_inner_texts()] == [
        "Block diffusion, mini",
        "Prompt lookup",
        "None",
    ]
    offered.last.click()
    page.wait_for_function("() => document.querySelector('input[aria-label=Strategy]').value === 'Plain decoding'")
    page.get_by_text("Why not the others?").click()
    page.locator("#cy-setup").get_by_text("was trained for another target").first.wait_for()
    page.locator("#cy-run").click()
    page.wait_for_function("() => canopy.explore.log.id !== 'recorded'", timeout=30_000)
    watch.check(replay)


@pytest.mark.slow
def test_hand_made_values_are_refused_with_a_message(browser, replay):
    page, _ = opened(browser, replay)
    page.evaluate("() => { canopy.explore.begin = () => '../../etc/passwd'; }")
    page.locator("#cy-run").click()
    page.wait_for_timeout(1500)
    assert page.evaluate("() => canopy.explore.log.id") == "recorded"


def test_an_error_stays_with_a_way_out(browser, replay):
    page, _ = opened(browser, replay)
    page.fill("#cy-prompt textarea", "fail")
    page.locator("#cy-run").click()
    page.locator(".cy-notice").wait_for(state="visible", timeout=30_000)
    page.wait_for_timeout(1500)
    notice = page.inner_text(".cy-notice")
    assert "could not be fetched" in notice
    assert "Check the network" in notice
    page.fill("#cy-prompt textarea", "Why?")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_function("() => canopy.explore.log.id !== 'recorded'", timeout=30_000)


def hostile_trace(folder: Path) -> Path:
    """The recorded run with every display text replaced by something that wants to run."""
    lines = [json.loads(line) for line in WELCOME.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line["kind"] == "header":
            line |= {"prompt": "".join(HOSTILE), "first_text": HOSTILE[0], "target": HOSTILE[0], "drafter": HOSTILE[3]}
        if line["kind"] == "round":
            line["pieces"] = {token: HOSTILE[int(token) % len(HOSTILE)] for token in line["pieces"]}
            line["emitted_text"] = [HOSTILE[token % len(HOSTILE)] for token in line["emitted"]]
    path = folder / "hostile.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return path


@pytest.mark.slow
def test_hostile_tokens_run_nothing(browser, tmp_path):
    path = hostile_trace(tmp_path)
    with served(path) as address:
        page = browser.new_page()
        watch = Watch(page)
        page.route("**/traces/welcome.jsonl", lambda route: route.fulfill(path=path))
        page.goto(address)
        page.wait_for_function(READY, timeout=60_000)
        page.locator("#cy-run").click()
        page.wait_for_function(
            "() => canopy.explore.log.id !== 'recorded' && canopy.explore.log.summary", timeout=60_000
        )
        page.locator(".cy-canvas canvas").click(position=page.evaluate(PLACE, 0))
        page.wait_for_timeout(500)
        assert page.evaluate("() => window.pwned") is None
        assert page.locator(".cy-explore img, .cy-explore script").count() == 0
        output = page.text_content("[data-part=output]")  # what is out of sight is not rendered, and no inner text
        assert "⟨RLO⟩evil⟨ZWSP⟩␇" in output
        assert HOSTILE[0] in output
        watch.check(address)


def test_only_static_files_are_served(replay):
    for path in ("canopy/../app.py", "gradio_api/file=app.py", "canopy/%2e%2e/app.py", "gradio_api/file=/etc/passwd"):
        with pytest.raises(OSError, match=r"40[34]"):
            urlopen(replay + path, timeout=10)
    assert urlopen(replay + "canopy/page.js", timeout=10).status == 200

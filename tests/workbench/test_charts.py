"""The charts of a run, the setup's marks, and the states that Explore can be in, in a real browser."""

from pathlib import Path
from typing import Any

import pytest

from decoding.metrics import tokens_per_round
from decoding.trace import Trace, read_trace
from tests.workbench.browser import READY, Watch, opened, served
from tests.workbench.synthetic_trace import write_synthetic
from tests.workbench.test_page import HOSTILE, ROUND, hostile_trace

pytestmark = [pytest.mark.browser, pytest.mark.slow]
OPEN = """async ([text, comparison]) => {
    const { RunLog } = await import(new URL("canopy/run_log.js", location.href));
    const log = RunLog.fromLines("run-" + Math.random(), text);
    if (comparison) log.add(comparison);
    canopy.explore.open(log, 0);
}"""
READING = ".cy-chart:nth-child({}) .cy-chart-reading"


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return write_synthetic(tmp_path_factory.mktemp("traces") / "made-up.jsonl", rounds=120, nodes=24)


def compared(tokens_per_second: float) -> dict[str, Any]:
    baseline = {"tokens_per_second": tokens_per_second}
    return {"kind": "comparison", "baseline": baseline, "speedup": 1.0, "lossless": None}


def show(page: Any, path: Path, comparison: dict[str, Any] | None = None) -> None:
    page.evaluate(OPEN, [path.read_text(encoding="utf-8"), comparison])


def speed(trace: Trace, first: int, last: int) -> float:
    rounds = trace.rounds[first : last + 1]
    return sum(len(r.emitted) for r in rounds) / sum(sum(r.seconds.values()) for r in rounds)


def depths(trace: Trace) -> dict[int, tuple[int, int, int]]:
    """Of each depth the nodes whose parent was accepted, those accepted, and the rounds that had any; the plain way."""
    found: dict[int, list[int]] = {}
    for item in trace.rounds:
        path = set(item.verdict.path[: item.accepted + 1].tolist())
        level = [0]
        for parent in item.tree.parent[1:]:
            level.append(level[parent] + 1)
        reached = [n for n in range(1, len(item.tree)) if int(item.tree.parent[n]) in path]
        for depth in {level[n] for n in reached}:
            at = found.setdefault(depth, [0, 0, 0])
            here = [n for n in reached if level[n] == depth]
            at[0] += len(here)
            at[1] += sum(n in path for n in here)
            at[2] += 1
    return {depth: (a, b, c) for depth, (a, b, c) in found.items()}


def test_the_charts_reckon_as_the_core_does(browser, replay, path):
    page, _ = opened(browser, replay)
    show(page, path)
    trace = read_trace(path)
    got = page.evaluate("""() => {
        const { series } = canopy.explore.charts, last = series.count - 1;
        return { mean: series.mean(last), overall: series.overall(last), speed: series.speed(last),
          warm: series.speed(1), speedup: series.speedup(last, 40), depths: series.byDepth() };
    }""")
    assert got["mean"] == pytest.approx(tokens_per_round(trace.rounds))
    assert got["overall"] == pytest.approx(speed(trace, 2, 119))
    assert got["speed"] == pytest.approx(speed(trace, 112, 119))
    assert got["warm"] is None
    assert got["speedup"] == pytest.approx(speed(trace, 2, 119) / 40)
    assert {d["depth"]: (d["reached"], d["accepted"], d["rounds"]) for d in got["depths"]} == depths(trace)


def test_a_chart_is_read_by_hovering_and_a_click_goes_to_that_round(browser, replay, path):
    page, watch = opened(browser, replay)
    show(page, path)
    rounds = read_trace(path).rounds
    assert page.inner_text(READING.format(1)).startswith("round 1: ")
    canvas = page.locator(".cy-chart canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    left, wide = box["x"] + 34, box["width"] - 44
    page.mouse.move(left + wide * 60.5 / 120, box["y"] + 40)
    assert page.inner_text(READING.format(1)).startswith(f"round 61: {len(rounds[60].emitted)} token")
    assert page.evaluate(ROUND) == 0
    page.mouse.click(left + wide * 90.5 / 120, box["y"] + 40)
    assert page.evaluate(ROUND) == 90
    page.mouse.move(5, 5)
    assert page.inner_text(READING.format(3)).startswith("round 91: ")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(READING.format(1)).startswith("round 92: ")
    watch.check(replay)


def test_a_click_on_a_depth_goes_to_a_round_that_accepted_so_far(browser, replay, path):
    page, _ = opened(browser, replay)
    show(page, path)
    canvas = page.locator(".cy-chart:nth-child(2) canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    depth = page.evaluate("() => canopy.explore.charts.series.byDepth().length")
    page.mouse.click(box["x"] + 34 + (box["width"] - 44) * 2.5 / depth, box["y"] + 50)
    assert page.evaluate("() => canopy.explore.log.rounds[canopy.explore.current].accepted") >= 3


def test_every_chart_is_a_table_too(browser, replay, path):
    page, _ = opened(browser, replay)
    show(page, path, compared(30.0))
    assert page.locator(".cy-chart table").count() == 0
    page.get_by_role("button", name="As tables").click()
    tables = page.locator(".cy-chart table")
    assert tables.count() == 4
    trace = read_trace(path)
    counts = depths(trace)[1]
    assert f"{counts[1]} of {counts[0]} nodes" in tables.nth(1).inner_text()
    assert page.locator(".cy-chart:nth-child(1) tr").count() == 61  # 120 rounds in pairs, and the headings
    assert all(page.locator(".cy-chart canvas").nth(i).get_attribute("aria-label") for i in range(4))


@pytest.mark.parametrize(("plain", "said"), [(1000.0, "Slower than plain decoding"), (5.0, "the speed of plain")])
def test_slower_than_plain_decoding_is_said(browser, replay, path, plain, said):
    page, _ = opened(browser, replay)
    show(page, path, compared(plain))
    verdict = page.locator(".cy-chart-verdict")
    assert said in verdict.inner_text()
    assert ("cy-slower" in verdict.get_attribute("class")) == (plain > 100)
    assert f"{speed(read_trace(path), 2, 119) / plain:.2f}\u00d7" in verdict.inner_text()


def test_a_run_that_was_not_compared_offers_it_for_the_next(browser, replay):
    page, _ = opened(browser, replay)
    blank = page.locator(".cy-chart:nth-child(4) .cy-chart-blank")
    assert "was not compared" in blank.inner_text()
    blank.get_by_role("button").click()
    assert page.locator("#cy-compare input").is_checked()
    assert "next run is compared" in blank.inner_text()
    page.locator("#cy-run").click()
    page.wait_for_function(
        "() => canopy.explore.log.comparison && canopy.explore.log.id !== 'recorded'", timeout=60_000
    )
    assert page.evaluate("() => canopy.explore.charts.series.count") == page.evaluate(
        "() => canopy.explore.log.rounds.length"
    )


def test_no_token_reaches_the_charts(browser, tmp_path):
    path = hostile_trace(tmp_path)
    with served(path) as address:
        page = browser.new_page()
        watch = Watch(page)
        page.route("**/traces/welcome.jsonl", lambda route: route.fulfill(path=path))
        page.goto(address)
        page.wait_for_function(READY, timeout=60_000)
        page.get_by_role("button", name="As tables").click()
        text = page.inner_text(".cy-charts")
        assert not any(token in text for token in HOSTILE)
        assert page.locator(".cy-charts img, .cy-charts script").count() == 0
        assert page.evaluate("() => window.pwned") is None
        watch.check(address)


def test_changed_settings_are_marked_and_reset(browser, replay):
    page, watch = opened(browser, replay)
    changed = "() => [...document.querySelectorAll('#cy-setup .cy-changed')].map((e) => e.id).sort()"
    budget = page.locator("#cy-set-tree-budget")
    assert "1 to 256 · default 32" in budget.inner_text()
    page.get_by_text("More settings").first.click()
    page.locator("#cy-set-tree-chain input").check()
    budget.locator("input[type=number]").fill("48")
    page.keyboard.press("Tab")
    page.wait_for_function(f"() => ({changed})().length === 2")
    assert page.evaluate(changed) == ["cy-set-tree-budget", "cy-set-tree-chain"]
    budget.locator("button").click()  # this one alone
    page.wait_for_function(f"() => ({changed})().join() === 'cy-set-tree-chain'")
    page.get_by_role("button", name="Reset to defaults").first.click()
    page.wait_for_function(f"() => ({changed})().length === 0")
    assert not page.locator("#cy-set-tree-chain input").is_checked()
    watch.check(replay)


def test_keys_walk_through_the_rejected_nodes(browser, replay):
    page, _ = opened(browser, replay)
    fate = "() => canopy.explore.log.rounds[canopy.explore.current].fate[canopy.explore.selected]"
    seen = []
    rejected = page.evaluate(
        "() => canopy.explore.log.rounds[canopy.explore.current].fate.filter((f) => f === 'rejected').length"
    )
    for _ in range(rejected):
        page.keyboard.press(">")
        assert page.evaluate(fate) == "rejected"
        seen.append(page.evaluate("() => canopy.explore.selected"))
    assert len(set(seen)) == rejected
    page.keyboard.press("<")
    assert page.evaluate("() => canopy.explore.selected") == seen[-2]
    assert "rejected" in page.inner_text("[data-part=live]")
    page.keyboard.press(".")
    assert page.evaluate(fate) in ("accepted", "root", None)


def test_a_run_says_what_it_waits_for_over_the_tree(browser):
    with served(pause=0.6) as address:
        page, _ = opened(browser, address)
        busy = page.locator(".cy-busy")
        assert busy.is_hidden()
        page.locator("#cy-run").click()
        page.wait_for_function("() => document.querySelector('.cy-busy').textContent === 'Loading small'")
        assert busy.is_visible()
        page.wait_for_function(
            "() => canopy.explore.log.id !== 'recorded' && canopy.explore.current >= 0", timeout=30_000
        )
        assert busy.is_hidden()
        page.locator("#cy-stop").click()
        page.wait_for_function("() => canopy.explore.log.summary", timeout=30_000)
        assert "stopped" in page.inner_text(".cy-status")
        assert busy.is_hidden()


def test_an_open_page_rests(browser, replay):
    """Gradio's counter of seconds would draw sixty frames a second for good: see static/quiet.js."""
    page = browser.new_page()
    page.add_init_script(
        "const native = requestAnimationFrame; window.frames = 0;"
        "window.requestAnimationFrame = (callback) => { window.frames += 1; return native.call(window, callback); };"
    )
    page.goto(replay)
    page.wait_for_function(READY, timeout=60_000)
    page.wait_for_timeout(6000)  # Gradio's own opening animation
    before = page.evaluate("() => window.frames")
    page.wait_for_timeout(3000)
    assert page.evaluate("() => window.frames") - before <= 12


def test_the_pages_files_come_with_its_first_bytes(replay):
    from urllib.request import urlopen

    page = urlopen(replay, timeout=10).read().decode()
    head = page[: page.index("gradio_config")]
    for name in ("quiet.js", "canopy.css", "page.js", "charts/chart.js", "traces/welcome.jsonl"):
        assert f"canopy/{name}" in head
    assert "canopy" not in urlopen(replay + "canopy/status.html", timeout=10).read().decode().split("data-cy")[0]


def test_motion_can_be_reduced(browser, replay):
    page, _ = opened(browser, replay, reduced_motion="reduce")
    page.evaluate("() => { document.querySelector('.cy-busy').hidden = false; }")
    assert (
        page.evaluate("() => getComputedStyle(document.querySelector('.cy-busy'), '::before').animationName") == "none"
    )

"""The Compare tab in a real browser, over replayed runs; its arithmetic against Python."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workbench import browser as browser_tools
from tests.workbench.browser import READY, Watch, served
from tests.workbench.replay_engine import WELCOME, shortened
from tests.workbench.test_page import HOSTILE, hostile_trace

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FINISHED = "() => !canopy.compare.running && canopy.compare.comparisons.own"
TREE = {"drafter": "mini", "strategy": "tree"}
CHAIN = {"drafter": "mini", "strategy": "chain"}
PARTED = TREE | {"settings": {"order": "widest"}}
FAILING = TREE | {"settings": {"budget": 13}}


@pytest.fixture(scope="module")
def replay() -> Iterator[str]:
    with served(pause=0.001) as address:
        yield address


def opened(browser: Any, address: str, **options: Any) -> tuple[Any, Watch]:
    """The tab Compare, ready for a press of its button."""
    page, watch = browser_tools.opened(browser, address, **options)
    page.evaluate("() => canopy.showTab('compare').then(() => true)")
    page.wait_for_function("() => canopy.compare.setup.ways.length && !canopy.compare.part.run.disabled")
    return page, watch


def compared(page: Any, ways: list[dict[str, Any]] | None = None) -> None:
    """Presses Compare, over ways as if the visitor had chosen them."""
    if ways is not None:
        page.evaluate(
            "async (ways) => { const { setup } = canopy.compare; const before = [...setup.ways];"
            "for (const way of ways) { if (setup.ways.length === setup.choices.most) setup.remove(before.shift());"
            " setup.add(way); } before.forEach((way) => setup.remove(way)); }",
            ways,
        )
        page.wait_for_function("() => !canopy.compare.part.run.disabled")
    page.locator(".cy-go").click()
    page.wait_for_function(FINISHED, timeout=60_000)


def test_ways_run_side_by_side_and_stand_in_the_table(browser, replay):
    page, watch = opened(browser, replay)
    compared(page)
    assert page.locator(".cy-lane").count() == 3
    assert page.locator(".cy-lane-tree").count() == 2
    badges = page.locator(".cy-lane .cy-lossless").all_inner_texts()
    assert badges == ["the baseline", "✓ identical to plain decoding", "✓ identical to plain decoding"]
    table = page.locator("[data-part=metricsBody] tr").all_inner_texts()
    assert any(line.startswith("tokens / round") and "bonus included" in line for line in table)
    assert any(line.startswith("accepted / round") and "bonus excluded" in line for line in table)
    speedup = page.locator("[data-part=metricsBody] tr", has_text="speedup").locator("td").all_inner_texts()
    assert speedup == ["1.00\u00d7", "1.50\u00d7", "2.50\u00d7"]
    names = page.evaluate("() => canopy.shelf.list().map((entry) => [entry.name, entry.origin])")
    assert [origin for _, origin in names if origin != "recorded"] == ["own"] * 3
    assert page.inner_text(".cy-compare-status") == "Finished"
    watch.check(replay)


def test_a_parted_text_links_to_its_first_divergence(browser, replay):
    page, watch = opened(browser, replay)
    compared(page, [TREE, PARTED])
    badge = page.locator(".cy-lane .cy-parted")
    assert "margin 0.013" in badge.inner_text()
    assert "two best tokens" in page.locator(".cy-lane-note").nth(2).inner_text()
    place = page.evaluate("() => canopy.compare.lanes[2].log.comparison.lossless.first_divergence")
    outputs = page.evaluate("() => canopy.compare.lanes.map((lane) => lane.output)")
    assert outputs[0][:place] == outputs[2][:place]
    assert outputs[0][place] != outputs[2][place]
    badge.click()
    page.wait_for_function("() => canopy.explore.visible && canopy.explore.log.id.endsWith('-2')")
    assert page.evaluate("() => canopy.explore.current") == 4
    said = "() => { const { log, current, selected } = canopy.explore; const round = log.rounds[current];"
    assert page.evaluate(said + "return round.path.indexOf(selected) === round.emitted.length - 1 }")
    assert "recorded" not in page.inner_text("[data-part=lede]").lower()
    watch.check(replay)


def test_the_error_of_a_way_stands_in_its_lane(browser, replay):
    page, _ = opened(browser, replay)
    compared(page, [FAILING, TREE])
    lanes = page.locator(".cy-lane")
    assert "No luck. Take another budget." in lanes.nth(1).inner_text()
    assert "identical" in lanes.nth(2).inner_text()
    assert "1 failed" in page.inner_text(".cy-compare-status")


def test_a_comparison_stops_between_rounds(browser):
    with served(pause=0.05) as address:
        page, _ = opened(browser, address)
        page.locator(".cy-go").click()
        page.wait_for_function("() => canopy.compare.ran[0]?.log.rounds.length > 2", timeout=30_000)
        page.locator(".cy-halt").click()
        page.wait_for_function(FINISHED, timeout=30_000)
        assert page.inner_text(".cy-compare-status") == "Stopped"
        assert page.locator(".cy-lane .cy-lossless").all_inner_texts()[1:] == ["not run", "not run"]
        assert page.locator(".cy-go").is_visible()


def test_choosers_offer_only_what_fits(browser, replay):
    page, watch = opened(browser, replay)
    drafter = page.get_by_label("Drafter of way A")
    assert drafter.locator("option").all_inner_texts() == ["Block diffusion, mini", "Prompt lookup", "None"]
    drafter.select_option("none")
    page.wait_for_function("() => canopy.compare.setup.ways[0].value.strategy === 'plain'")
    page.locator(".cy-way").first.get_by_text("Why not the others?").click()
    assert "was trained for another target" in page.locator(".cy-way").first.inner_text()
    for _ in range(2):
        page.get_by_role("button", name="Add a way").click()
    assert page.locator(".cy-way").count() == 4
    assert page.get_by_role("button", name="Add a way").is_disabled()
    page.get_by_role("button", name="Remove").nth(3).click()
    assert page.locator(".cy-way legend").all_inner_texts() == ["Way A", "Way B", "Way C"]
    watch.check(replay)


def test_hand_made_requests_are_refused_with_a_message(browser, replay):
    page, _ = opened(browser, replay)
    page.evaluate("() => { canopy.compare.setup.ways[0].form.values = () => ({ budget: { toString: 3 } }); }")
    page.evaluate("() => { canopy.compare.setup.part.target.innerHTML = '<option>/etc/passwd</option>'; }")
    page.locator(".cy-go").click()
    page.locator(".cy-compare .cy-notice").wait_for(state="visible", timeout=30_000)
    assert "no target named" in page.inner_text(".cy-compare .cy-notice")
    for asked, payload in (("fits", "null"), ("fits", "['small', {}, []]"), ("fits", "['/etc', 'mini', 'tree']"),
                           ("stop", "'../../etc'"), ("stop", "[]")):  # fmt: skip
        answer = page.evaluate(f"() => canopy.compare.setup.server.{asked}({payload})")
        assert answer["hint"], payload
        assert "Traceback" not in json.dumps(answer)


# ---- arithmetic, judged by Python


def rounds_of(length: int | None) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in WELCOME.read_text(encoding="utf-8").splitlines()]
    rounds = [line for line in lines if line["kind"] == "round"]
    return rounds if length is None else [piece for item in rounds for piece in shortened(item, length)]


def paths_below(item: dict[str, Any], offset: int) -> set[tuple[int, ...]]:
    """The token paths of a tree below a node of its accepted path."""
    tree, root = item["tree"], item["verdict"]["path"][offset]
    found = {root: ()}
    for node in range(root + 1, len(tree["parent"])):
        if tree["parent"][node] in found:
            found[node] = (*found[tree["parent"][node]], tree["token"][node])
    return set(found.values()) - {()}


def test_positions_times_and_differences_are_what_python_says(browser, replay):
    page, _ = opened(browser, replay)
    compared(page)
    trees, chains = rounds_of(None), rounds_of(1)
    for lane, rounds in ((1, trees), (2, chains)):
        starts = [1 + sum(len(item["emitted"]) for item in rounds[:index]) for index in range(len(rounds))]
        assert page.evaluate("(lane) => canopy.compare.lanes[lane].starts", lane) == starts
        seconds = page.evaluate("(lane) => canopy.compare.lanes[lane].ends", lane)
        header = json.loads(WELCOME.read_text(encoding="utf-8").splitlines()[0])
        expected = header["prefill_seconds"]
        for place, item in enumerate(rounds):
            expected += sum(item["seconds"].values())
            assert seconds[place] == pytest.approx(expected, rel=1e-6)
    count = (
        "(position) => { const { difference } = canopy.compare; difference.at(position); const f = difference.found;"
    )
    for position in range(1, 60):
        sides = []
        for rounds in (trees, chains):
            written = 1
            for item in rounds:
                if written <= position < written + len(item["emitted"]):
                    sides.append(paths_below(item, position - written))
                written += len(item["emitted"])
        left, right = sides
        said = page.evaluate(count + "return [f.both, f.left, f.right] }", position)
        assert said == [len(left & right), len(left - right), len(right - left)], position


def test_what_is_written_at_a_time_comes_with_the_end_of_its_round(browser, replay):
    page, _ = opened(browser, replay)
    compared(page)
    said = page.evaluate(
        "() => { const lane = canopy.compare.lanes[1]; const at = (time) => lane.writtenAt(time);"
        "return [at(0), at(lane.prefill), at(lane.ends[0] - 1e-6), at(lane.ends[0]), at(lane.seconds),"
        " lane.starts[1]] }"
    )
    assert said[:3] == [0, 1, 1]
    assert said[3] == said[5]
    assert said[4] == 1 + sum(len(item["emitted"]) for item in rounds_of(None))


def test_trees_scrub_together_by_text_and_by_round(browser, replay):
    page, watch = opened(browser, replay)
    compared(page)
    state = "() => canopy.compare.trees.views.map((view) => view.round)"
    starts = page.evaluate("() => canopy.compare.trees.views.map((view) => view.lane.starts)")
    page.evaluate("() => canopy.compare.trees.scrub(40)")
    assert page.evaluate(state) == [max(i for i, s in enumerate(lane) if s <= 40) for lane in starts]
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("() => canopy.compare.trees.at") == 41
    page.locator(".cy-segments span", has_text="by round").click()
    page.evaluate("document.activeElement.blur()")
    first = page.evaluate(state)[0]
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(state) == [first - 1, first - 1]
    page.keyboard.press("End")
    assert page.evaluate(state) == [len(lane) - 1 for lane in starts]
    page.locator(".cy-lane-text [data-round='3']").nth(1).click()
    assert page.evaluate(state)[0] == 3
    page.locator(".cy-lane-tree .cy-lane-open").first.click()
    page.wait_for_function("() => canopy.explore.visible && canopy.explore.log.id.endsWith('-1')")
    assert page.evaluate("() => canopy.explore.current") == 3
    watch.check(replay)


def test_the_race_plays_in_recorded_time(browser, replay):
    page, _ = opened(browser, replay)
    compared(page)
    shown = "() => canopy.compare.race.rows.map((row) => row.text.spans.filter((s) => !s.matches('.cy-later')).length)"
    assert page.evaluate(shown) == page.evaluate("() => canopy.compare.lanes.map((lane) => lane.written)")
    page.locator("[data-part=raceSlider]").evaluate("(slider) => { slider.value = 300; slider.oninput(); }")
    now = page.evaluate("() => canopy.compare.race.now")
    assert page.evaluate(shown) == page.evaluate("(now) => canopy.compare.lanes.map((l) => l.writtenAt(now))", now)
    page.select_option("[data-part=raceSpeed]", "5")
    page.get_by_role("button", name="Play the race").click()
    page.wait_for_function("(now) => canopy.compare.race.now > now + 0.5", arg=now)
    page.get_by_role("button", name="Pause the race").click()
    stopped = page.evaluate("() => canopy.compare.race.now")
    page.wait_for_timeout(200)
    assert page.evaluate("() => canopy.compare.race.now") == stopped


def test_hostile_tokens_run_nothing(browser, tmp_path):
    path: Path = hostile_trace(tmp_path)
    with served(path) as address:
        page, watch = opened(browser, address)
        compared(page, [TREE, PARTED])
        page.evaluate("() => canopy.compare.trees.scrub(1)")
        page.locator("[data-part=differenceTable] summary").click()
        page.wait_for_function("() => canopy.compare.part.differenceRows.children.length > 3")
        page.wait_for_timeout(300)
        assert page.evaluate("() => window.pwned") is None
        assert page.locator(".cy-compare img, .cy-compare script").count() == 0
        assert HOSTILE[0] in page.inner_text(".cy-lanes")
        assert "⟨RLO⟩" in page.inner_text(".cy-lanes")
        watch.check(address)


def test_the_api_streams_every_lane(replay):
    gradio_client = pytest.importorskip("gradio_client")
    client = gradio_client.Client(replay, verbose=False)
    job = client.submit(prompt="Why?", ways=[TREE, CHAIN], api_name="/compare")
    assert job.result()["kind"] == "comparison"
    assert {event.get("lane") for event in job.outputs()} == {None, 0, 1, 2}
    with pytest.raises(Exception, match="no drafter named"):
        client.predict(prompt="Why?", ways=[TREE | {"drafter": "/etc"}], api_name="/compare")
    with pytest.raises(Exception, match="cannot be compared"):
        client.predict(prompt="Why?", ways=[], api_name="/compare")


# ---- the recorded comparison


TRACES = WELCOME.parent
RECORDED = tuple("sum-" + way for way in ("plain", "auto", "ddtree", "ddtree-graft", "eagle", "recycle"))
IDENTICAL = "✓ identical to plain decoding"


def recorded(page: Any) -> None:
    page.wait_for_function(
        "() => canopy.compare.comparisons.shown?.recorded && canopy.compare.trees.views[0]?.tree.round"
    )


def lines_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TRACES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def answers(path: Path) -> tuple[str, int, list[int]]:
    header, *_, summary = lines_of(path.stem)
    return header["prompt"], header["max_new_tokens"], summary["output_ids"]


def first_paths(name: str) -> set[tuple[int, ...]]:
    """The nodes of a recorded way's first tree, each by its tokens from the root on."""
    tree, paths = lines_of(name)[1]["tree"], [()]
    for token, parent in zip(tree["token"][1:], tree["parent"][1:], strict=True):
        paths.append((*paths[parent], token))
    return set(paths[1:])


def test_the_recorded_ways_are_all_that_wrote_the_same_on_one_prompt():
    same = [path.stem for path in TRACES.glob("*.jsonl") if answers(path) == answers(TRACES / "sum-plain.jsonl")]
    assert sorted(RECORDED) == sorted(same)


def test_the_tab_opens_on_a_recorded_comparison(browser, replay):
    page, watch = opened(browser, replay)
    recorded(page)
    assert page.evaluate("async () => (await import('/canopy/recorded_comparison.js')).WAYS") == list(RECORDED)
    assert page.locator(".cy-lane .cy-lossless").all_inner_texts() == ["the baseline"] + [IDENTICAL] * 5
    assert page.locator(".cy-lane-tree").count() == 5
    assert page.evaluate("() => canopy.compare.trees.views.every((view) => view.tree.round)")
    counts = "const { both, left, right } = canopy.compare.difference.found; return [both, left, right];"
    auto, ddtree = (first_paths(name) for name in ("sum-auto", "sum-ddtree"))
    assert page.evaluate(f"() => {{ {counts} }}") == [len(auto & ddtree), len(auto - ddtree), len(ddtree - auto)]
    found = page.evaluate(
        f"""() => {{
          const view = canopy.compare.difference, opening = view.position, count = () => {{ {counts} }};
          let found = count();
          for (let at = opening; at < 40 && !found[2]; at++) {{ view.at(at); if (view.found) found = count(); }}
          view.at(opening);
          return found;
        }}"""
    )
    assert min(found[0], found[2]) > 0
    assert page.inner_text("[data-part=comparisonTitle]") == "A recorded comparison"
    said = page.inner_text("[data-part=comparisonSaid]")
    header = lines_of("sum-plain")[0]
    for fact in (header["prompt"], header["created"][:10], header["device"], header["versions"]["torch"]):
        assert fact in said
    assert page.locator(".cy-compare .cy-recorded-mark:visible").count() == 2
    page.locator(".cy-fair summary").click()
    assert "Recorded, not run now" in page.inner_text(".cy-fair")
    assert "untimed rounds on another prompt" not in page.inner_text(".cy-fair")
    assert "each by its own recorded seconds" in page.inner_text(".cy-metrics")
    watch.check(replay)


def test_the_figures_of_the_recorded_ways_are_their_own(browser, replay):
    page, _ = opened(browser, replay)
    recorded(page)
    summaries = [lines_of(name)[-1] for name in RECORDED]
    speeds = [summary["metrics"]["tokens_per_second"] for summary in summaries]
    speedups = page.evaluate("() => canopy.compare.lanes.slice(1).map((lane) => lane.comparison.speedup)")
    assert speedups == pytest.approx([speed / speeds[0] for speed in speeds[1:]])
    row = page.locator("[data-part=metricsBody] tr", has_text="speedup").locator("td").all_inner_texts()
    assert [cell.split("\n")[0] for cell in row] == ["1.00\u00d7"] + [f"{value:.2f}\u00d7" for value in speedups]
    assert page.evaluate("() => canopy.compare.lanes.map((lane) => lane.output)") == [
        s["output_ids"] for s in summaries
    ]
    ends = [
        lines_of(name)[0]["prefill_seconds"] + s["metrics"]["decode_seconds"]
        for name, s in zip(RECORDED, summaries, strict=True)
    ]
    assert page.evaluate("() => canopy.compare.lanes.map((lane) => lane.seconds)") == pytest.approx(ends)
    explored = "() => canopy.compare.openInExplore(canopy.compare.lanes[2], 3).then(() => canopy.explore.log)"
    assert page.evaluate(explored + ".then((log) => log.comparison)") is None


def test_ones_own_comparison_replaces_the_recorded_one_and_back(browser, replay):
    page, watch = opened(browser, replay)
    recorded(page)
    other = page.locator("[data-part=otherComparison]")
    assert other.is_hidden()
    compared(page)
    assert page.locator(".cy-lane").count() == 3
    assert page.inner_text("[data-part=comparisonTitle]") == "Your comparison"
    assert page.locator(".cy-compare .cy-recorded-mark:visible").count() == 0
    assert "in this session of runs" in page.inner_text(".cy-metrics")
    other.click()
    assert page.locator(".cy-lane .cy-same").count() == 5
    assert page.locator(".cy-compare .cy-recorded-mark:visible").count() == 2
    other.click()
    assert page.locator(".cy-lane .cy-lossless").all_inner_texts() == ["the baseline", IDENTICAL, IDENTICAL]
    assert page.locator(".cy-lane-tree").count() == 2
    watch.check(replay)


def test_a_refused_comparison_leaves_the_recorded_one(browser, replay):
    page, _ = opened(browser, replay)
    recorded(page)
    page.evaluate("() => { canopy.compare.setup.part.target.innerHTML = '<option>absent</option>'; }")
    page.locator(".cy-go").click()
    page.locator(".cy-compare .cy-notice").wait_for(state="visible", timeout=30_000)
    page.wait_for_function("() => !canopy.compare.running")
    assert page.inner_text(".cy-compare-status") == "Nothing was run"
    assert page.locator(".cy-lane .cy-same").count() == 5


def parted(name: str, place: int) -> str:
    """A recorded run whose output parts from the others' at a token."""
    lines, written = lines_of(name), 1
    for line in lines[1:-1]:
        if written <= place < written + len(line["emitted"]):
            line["emitted"][place - written] += 1
        written += len(line["emitted"])
    lines[-1]["output_ids"][place] += 1
    return "\n".join(json.dumps(line) for line in lines)


def test_a_recorded_way_that_parts_says_where_and_by_how_much(browser, replay):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.route("**/traces/sum-auto.jsonl", lambda route: route.fulfill(body=parted("sum-auto", 20)))
    page = context.new_page()
    page.goto(replay)
    page.wait_for_function(READY, timeout=60_000)
    page.evaluate("() => canopy.showTab('compare').then(() => true)")
    recorded(page)
    best = lines_of("sum-plain")[20]["verdict"]["top_logprob"][0]
    said = {"identical": False, "first_divergence": 20, "margin": pytest.approx(best[0] - best[1])}
    assert page.evaluate("() => canopy.compare.lanes[1].comparison.lossless") == said
    badge = page.locator(".cy-lane .cy-lossless").nth(1)
    assert badge.inner_text().startswith("≠ parts at token 21, margin ")
    badge.click()
    page.wait_for_function("() => canopy.explore.visible && canopy.explore.log.id === 'sum-auto'")
    context.close()


def test_a_recorded_comparison_that_cannot_be_had_says_so(browser, replay):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.route("**/traces/sum-eagle.jsonl", lambda route: route.fulfill(status=404))
    page = context.new_page()
    page.goto(replay)
    page.wait_for_function(READY, timeout=60_000)
    page.evaluate("() => canopy.showTab('compare').then(() => true)")
    page.locator(".cy-compare-blank").wait_for(state="visible")
    assert "cannot be shown (status 404). Load the page again" in page.inner_text("[data-part=blankReason]")
    page.wait_for_function("() => !canopy.compare.part.run.disabled")
    compared(page)
    assert page.locator(".cy-compare-blank").is_hidden()
    assert page.locator("[data-part=otherComparison]").is_hidden()
    context.close()


# ---- its settings


def test_controls_look_as_explore_s(browser, replay):
    page, _ = opened(browser, replay)
    look = (
        "(part) => { const style = getComputedStyle(document.querySelector(part)); return ['fontSize', 'color',"
        " 'backgroundColor', 'borderTopColor', 'borderTopWidth', 'borderTopLeftRadius', 'paddingLeft']"
        ".map((name) => style[name]); }"
    )
    page.evaluate("() => canopy.showTab('explore').then(() => true)")
    explore = page.evaluate(look, "#cy-prompt textarea")
    page.evaluate("() => canopy.showTab('compare').then(() => true)")
    for control in (
        "textarea",
        ".cy-way select",
        ".cy-number input[type=number]",
        "[data-part=text] input[type=number]",
    ):
        assert page.evaluate(look, ".cy-compare " + control) == explore, control

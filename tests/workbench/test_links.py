"""Links to a run, round and node: opened, followed, shared, gone; and the page in a frame."""

import json
import re

import pytest

from tests.workbench.browser import READY, Watch
from tests.workbench.visiting import LINES, ROWS, SHORT, imported, listed, opened, prompted, shared

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ROUNDS = sum(event["kind"] == "round" for event in map(json.loads, LINES))
LAST_NODE = len(json.loads(LINES[2])["tree"]["token"])
"""Of the second round: the bonus."""


def test_a_link_opens_run_round_and_node(context, address):
    page, watch = opened(context, address + "?run=welcome&round=7&node=3")
    assert page.evaluate("() => [canopy.explore.log.id, canopy.explore.current, canopy.explore.selected]") == [
        "recorded", 6, 3,
    ]  # fmt: skip
    page.evaluate("() => canopy.explore.showView('mass')")
    page.wait_for_url("**/?run=welcome&round=7&node=3&view=mass")
    page.reload()
    page.wait_for_function(READY, timeout=60_000)
    page.wait_for_function("() => canopy.explore.view === 'mass'")
    assert page.evaluate("() => [canopy.explore.current, canopy.explore.selected]") == [6, 3]
    watch.check(address)


@pytest.mark.parametrize(
    ("query", "place", "said"),
    [
        ("round=999", [ROUNDS - 1, None], f"There is no round 999 in this run: this is round {ROUNDS}."),
        ("round=0", [0, None], "round 0"),
        ("round=-4&node=2", [0, 2], "round -4"),
        ("round=2&node=5000", [1, LAST_NODE], f"There is no node 5000 in this round: this is node {LAST_NODE}."),
        ("round=abc&node=1e3&view=<b>", None, None),
        ("round=99999999999999999999", None, None),
        ("view=nothing-of-that-name", None, None),
    ],
)
def test_what_is_out_of_range_goes_to_the_nearest(context, address, query, place, said):
    page, watch = opened(context, address + "?run=welcome&" + query)
    if said:
        assert page.evaluate("() => [canopy.explore.current, canopy.explore.selected]") == place
        assert said in page.inner_text(".cy-notes")
    else:
        assert page.locator(".cy-note").count() == 0
    watch.check(address)


def test_the_address_follows_what_is_on_show(context, address):
    page, watch = opened(context, address + "?keep=this")
    assert page.url == address + "?keep=this", "nothing is written before the visitor moves"
    page.evaluate("() => { window.writes = 0; const own = history.replaceState.bind(history);"
                  "history.replaceState = (...all) => { window.writes += 1; own(...all); }; }")  # fmt: skip
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    page.evaluate("() => canopy.explore.scrub(8)")
    page.evaluate("() => canopy.explore.select(2)")
    page.wait_for_url("**/?keep=this&run=welcome&round=9&node=2")
    assert page.evaluate("() => window.writes") < 20
    page.reload()
    page.wait_for_function(READY, timeout=60_000)
    assert page.evaluate("() => [canopy.explore.current, canopy.explore.selected]") == [8, 2]
    watch.check(address)


def test_two_visitors_see_only_what_they_are_shown(browser, context, address):
    page, _ = opened(context, address)
    imported(page, prompted(SHORT, "A secret of Ann"))
    page.evaluate("() => canopy.explore.scrub(2)")
    link = shared(page)
    run = re.search(r"run=([0-9a-f]{32})&round=3", link).group(1)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address.rstrip("/"))
    page.locator("[data-part=linkCopy]").click()
    page.wait_for_function("() => document.querySelector('[data-part=linkCopy]').textContent === 'Copied'")
    assert page.evaluate("() => navigator.clipboard.readText()") == link

    other = browser.new_context()
    theirs, watch = opened(other, address)
    assert listed(theirs, 0) == []
    assert theirs.evaluate("async () => (await (await import('/canopy/run_db.js')).listRuns()).length") == 0
    theirs.evaluate("(run) => import('/canopy/kept_runs.js').then((kept) => kept.drop(run)).catch(() => {})", run)
    theirs.goto(link)
    theirs.wait_for_function("() => window.canopy?.explore?.log?.header.prompt === 'A secret of Ann'", timeout=60_000)
    assert theirs.evaluate("() => canopy.explore.current") == 2
    assert listed(theirs, 1) == ["A secret of Ann"]
    assert "from a link" in theirs.locator(ROWS).first.inner_text()
    theirs.get_by_role("button", name="Keep").click()
    theirs.wait_for_function("async () => (await (await import('/canopy/run_db.js')).listRuns()).length === 1")
    assert [text for text in watch.complaints if "404" not in text] == []

    page.keyboard.press("Escape")
    listed(page, 1)
    page.locator(ROWS).first.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Dismiss").last.click()
    page.wait_for_function("(run) => fetch('/canopy/runs/' + run).then((answer) => answer.status === 404)", arg=run)
    other.close()


def test_a_link_to_a_run_that_is_gone_says_so_and_takes_its_file(context, address):
    page, watch = opened(context, address + "?run=" + "0" * 32 + "&round=4&node=1")
    assert page.evaluate("() => canopy.explore.log.id") == "recorded"
    note = page.inner_text(".cy-note-warning")
    assert "is not here" in note
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Import its file").click()
    chooser.value.set_files({"name": "its.jsonl", "mimeType": "", "buffer": SHORT.encode()})
    page.wait_for_function("() => canopy.explore.log.rounds.length === 5", timeout=30_000)
    assert page.evaluate("() => [canopy.explore.current, canopy.explore.selected]") == [3, 1]
    assert [text for text in watch.complaints if "404" not in text] == []


@pytest.mark.parametrize("run", ["nothing-of-that-name", "../../etc/passwd", "<script>", "%00", ""])
def test_a_link_that_names_nothing_shows_the_recorded_run(context, address, run):
    page, _ = opened(context, address + "?run=" + run)
    assert page.evaluate("() => canopy.explore.log.id") == "recorded"
    assert page.locator(".cy-note-warning").count() == 1


def test_sharing_again_brings_a_lost_link_back(context, address):
    page, _ = opened(context, address)
    imported(page, SHORT)
    link = shared(page)
    run = re.search(r"run=([0-9a-f]{32})", link).group(1)
    page.keyboard.press("Escape")
    page.evaluate("async (run) => (await import('/canopy/kept_runs.js')).drop(run)", run)
    assert shared(page) == link
    assert page.evaluate("(run) => fetch('/canopy/runs/' + run).then((answer) => answer.status)", run) == 200


HUB = "https://huggingface.co/spaces/someone/canopy"
PARENT = """<!doctype html><body><script>window.heard = [];
addEventListener('message', (event) => { if (event.data.queryString) heard.push(event.data); });</script>
<iframe src="%s" width="1200" height="700"></iframe>"""


@pytest.mark.parametrize(("parent", "hears"), [(HUB, True), ("https://blog.example/post", False)])
def test_in_a_frame_only_the_hub_is_told_of_the_address(context, address, parent, hears):
    page = context.new_page()
    watch = Watch(page)
    page.route(parent, lambda route: route.fulfill(body=PARENT % (address + "?run=welcome&round=3&__theme=light"),
                                                   content_type="text/html"))  # fmt: skip
    page.goto(parent)
    frame = page.frame_locator("iframe")
    frame.locator(".cy-tree").wait_for(timeout=60_000)
    inner = page.frames[1]
    inner.wait_for_function(READY)
    inner.evaluate("() => canopy.explore.ready")
    assert inner.evaluate("() => canopy.explore.current") == 2
    inner.evaluate("() => canopy.explore.scrub(11)")
    page.wait_for_timeout(1500)
    assert page.evaluate("() => window.heard") == ([{"queryString": "?run=welcome&round=12"}] if hears else [])
    inner.evaluate("() => { window.gradio_config.space_id = 'someone/canopy'; }")
    link = inner.evaluate(
        "async () => { const a = await import('/canopy/address.js'); return a.linkTo(a.placeOf(canopy.explore)); }"
    )
    assert link == (HUB if hears else address.rstrip("/") + "/") + "?run=welcome&round=12"
    assert watch.complaints == []


def test_the_frame_shows_tree_rounds_and_legend_only(context, address):
    page, watch = opened(context, address + "?run=welcome&round=5&embed=1")
    for seen in (".cy-tree canvas", ".cy-strip", ".cy-tree .cy-legend", "[data-part=whole]"):
        assert page.locator(seen).first.is_visible(), seen
    for unseen in ("#cy-top", "#cy-setup", ".cy-node", ".cy-numbers", ".cy-text", "#cy-tabs .tab-wrapper", ".cy-lede"):
        assert not page.locator(unseen).first.is_visible(), unseen
    assert page.evaluate("() => document.documentElement.scrollHeight") <= 900
    page.evaluate("() => canopy.explore.scrub(7)")
    assert page.get_attribute("[data-part=whole]", "href") == address + "?run=welcome&round=8"
    page.wait_for_url("**embed=1*")
    watch.check(address)


def test_the_snippet_of_a_frame_is_html(context, address):
    page, _ = opened(context, address)
    shared(page)
    snippet = page.input_value("[data-part=frame]")
    src = page.evaluate(
        "(html) => new DOMParser().parseFromString(html, 'text/html').querySelector('iframe').src", snippet
    )
    assert src.startswith(address + "?run=welcome&round=")
    assert src.endswith("&embed=1")

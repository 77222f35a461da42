"""The lessons in a real browser: every step resolves, says what its recording says, and can be shown to a room."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from decoding.strategies.best_first import best_prefixes
from decoding.trace import Trace, read_trace
from tests.workbench import browser as browser_tools
from tests.workbench.browser import READY, Watch

pytestmark = [pytest.mark.browser, pytest.mark.slow]
STATIC = Path(__file__).parents[2] / "static"
LARGEST_LESSON_TRACE = 400_000
HOSTILE = ("<img src=x onerror=window.pwned=1>", "${window.pwned=1}", "{{value}}", "{bonus}", "\u202eevil\u200b\u0007")
LESSONS = "(await import('/canopy/lessons/index.js')).LESSONS"
IN_LEARN = "() => window.canopy?.learn?.scene"
AT = "() => location.hash"

RESOLVE = f"""async () => {{
  const {{ runsOf, resolve }} = await import('/canopy/learn/scene.js');
  const {{ openBundled }} = await import('/canopy/bundled.js');
  const steps = [];
  for (const lesson of {LESSONS}) {{
    const logs = {{}};
    for (const name of runsOf(lesson)) logs[name] = await openBundled(name);
    for (const [index, step] of [...lesson.steps, lesson.attempt].entries()) {{
      const name = lesson.id + '.' + (index + 1);
      try {{
        const {{ say, lit, show }} = resolve(lesson, step, logs);
        const text = say.map((piece) => piece.fact ?? piece.token ?? piece).join('');
        steps.push({{ name, text, cite: step.cite ?? '', lit: lit && lit.length, as: show.as }});
      }} catch (error) {{
        steps.push({{ name, error: error.message }});
      }}
    }}
  }}
  return steps;
}}"""


def opened(browser: Any, address: str, **options: Any) -> tuple[Any, Watch]:
    return browser_tools.opened(browser, address, IN_LEARN if "#learn" in address else READY, **options)


@pytest.fixture(scope="module")
def page(browser: Any, address: str) -> Any:
    return opened(browser, address)[0]


def test_every_step_of_every_lesson_resolves_against_its_recording(page):
    steps = page.evaluate(RESOLVE)
    assert [step for step in steps if "error" in step] == []
    for step in steps:
        assert not any(wrong in step["text"] for wrong in ("\u2014", "NaN", "undefined", "null", "Infinity")), step


def test_lessons_have_the_shape_that_is_promised(page):
    lessons = page.evaluate(f"async () => {LESSONS}")
    assert [lesson["id"] for lesson in lessons] == [
        "plain",
        "drafting",
        "trees",
        "marginals",
        "heap",
        "attention",
        "pruning",
        "speedup",
    ]
    for lesson in lessons:
        assert 4 <= len(lesson["steps"]) <= 7
        assert lesson["question"].endswith(("?", "which?"))
        assert lesson["answer"]
        for step in lesson["steps"]:
            assert step["say"].count(". ") <= 2
            assert step["cite"], step["say"]


def test_sentences_hold_no_figures_of_their_own(page):
    """A number in a sentence is a fact of the recording; the papers' own numbers stand in the citations."""
    for lesson in page.evaluate(f"async () => {LESSONS}"):
        for step in lesson["steps"]:
            said = step["say"].replace("Proposition 1", "").replace("+ 1)", "")
            assert not any(letter.isdigit() for letter in said), said


def test_bundled_runs_are_valid_small_and_explained():
    for path in sorted((STATIC / "traces").glob("*.jsonl")):
        assert read_trace(path).summary is not None, path.name
        assert path.name == "welcome.jsonl" or path.stat().st_size < LARGEST_LESSON_TRACE, path.name
        assert f"static/traces/{path.name}" in (STATIC / "traces" / "README.md").read_text(encoding="utf-8")


def test_bundled_runs_are_named_and_fetched_when_opened(browser, address):
    page, watch = opened(browser, address)
    names = "() => canopy.shelf.list().map((entry) => entry.log.id)"
    assert page.evaluate(names) == ["recorded"]
    opening = (
        "async () => { const b = await import('/canopy/bundled.js'); await b.openBundled('chain'); return b.BUNDLED }"
    )
    bundled = page.evaluate(opening)
    assert page.evaluate(names) == ["recorded", "chain"]
    assert {run["file"] for run in bundled} == {path.name for path in (STATIC / "traces").glob("*.jsonl")}
    assert all(run["title"] and run["about"].endswith(".") for run in bundled)
    watch.check(address)


# ---- the arithmetic, judged by the core


def welcome() -> Trace:
    return read_trace(STATIC / "traces" / "welcome.jsonl")


def test_the_heap_is_that_of_the_core(page):
    """After k pops the tree is the best of k nodes, and the heap's top is what the core would take next."""
    rounds = welcome().rounds
    chosen = next(round for round in rounds if round.marginals is not None and round.tree.drafted > 16)
    heap = f"""async (pops) => {{
      const {{ heapAfter }} = await import('/canopy/learn/measures.js');
      return heapAfter(canopy.shelf.get('recorded').log.rounds[{chosen.index}], pops);
    }}"""
    for pops in (0, 1, 2, 7, 16):
        state = page.evaluate(heap, pops)
        core = best_prefixes(chosen.marginals.logprob, pops + 1)
        assert [entry["logprob"] for entry in state["popped"]] == pytest.approx(core.score[:pops].tolist(), abs=1e-4)
        assert state["waiting"][0]["logprob"] == pytest.approx(float(core.score[pops]), abs=1e-4)
        assert len(state["waiting"]) <= pops + 1


def test_expected_and_chain_lengths_are_those_of_the_core(page):
    reckoned = page.evaluate("""async () => {
      const of = await import('/canopy/learn/measures.js');
      const log = canopy.shelf.get('recorded').log;
      return log.rounds.map((round, index) => [of.expected(round), of.chainAccepted(log, index)]);
    }""")
    trace = welcome()
    written = [token for round in trace.rounds for token in round.emitted]
    begin = 0
    for round, (expected, chain) in zip(trace.rounds, reckoned, strict=True):
        assert expected == pytest.approx(round.decision["expected_accepted"], abs=1e-3)
        best = round.marginals.token[:, 0].tolist()
        after = written[begin:]
        assert chain == next(
            (i for i, (a, b) in enumerate(zip(best, after, strict=False)) if a != b), min(len(best), len(after))
        )
        begin += len(round.emitted)


def test_an_emphasised_tree_dims_the_rest(browser, address):
    page, _ = opened(browser, address)
    ink = """(node) => { const { canvas, context, magnified } = canopy.explore.tree;
      const { x, y } = canopy.explore.tree.place(node); const ratio = devicePixelRatio;
      return context.getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data[3]; }"""
    path = page.evaluate("() => canopy.explore.log.rounds[canopy.explore.current].path")
    assert page.evaluate(ink, path[1]) == 255
    page.evaluate("() => canopy.explore.tree.emphasise([0])")
    assert page.evaluate(ink, path[1]) < 120
    assert page.evaluate(ink, 0) == 255
    page.evaluate("() => canopy.explore.tree.emphasise(null)")
    assert page.evaluate(ink, path[1]) == 255


# ---- in a room


def test_keys_and_clicker_step_through_lessons_and_the_address_follows(browser, address):
    page, watch = opened(browser, address + "#learn=plain.1")
    assert page.locator("[data-part=title]").inner_text() == "1. Plain decoding"
    for key, where in (
        ("ArrowRight", "plain.2"),
        ("PageDown", "plain.3"),
        ("PageUp", "plain.2"),
        ("End", "plain.6"),
        ("ArrowRight", "drafting.1"),
        ("ArrowLeft", "plain.6"),
        ("Home", "plain.1"),
        ("ArrowLeft", "plain.1"),
    ):
        page.keyboard.press(key)
        assert page.evaluate(AT) == "#learn=" + where
    page.get_by_role("tab", name="Explore").click()
    page.wait_for_function("() => location.hash === ''")
    before = page.evaluate("() => canopy.explore.current")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("() => canopy.learn.at") == {"lesson": 0, "step": 0}
    assert page.evaluate("() => canopy.explore.current") == max(0, before - 1)
    watch.check(address)


def test_a_link_opens_its_step_and_nonsense_opens_the_first(browser, address):
    page, watch = opened(browser, address + "#learn=marginals.3")
    assert page.evaluate("() => [canopy.learn.lesson.id, canopy.learn.at.step]") == ["marginals", 2]
    page.evaluate("() => { location.hash = '#learn=heap.2' }")
    page.wait_for_function("() => canopy.learn.lesson.id === 'heap'")
    watch.check(address)
    for wrong in ("<img>.2", "heap.-4", "heap.999", "__proto__.x"):
        page, watch = opened(browser, address + "#learn=" + wrong)
        assert page.locator(".cy-say").inner_text()
        watch.check(address)


def test_large_type_fills_the_screen_and_goes_again(browser, address):
    page, watch = opened(browser, address + "#learn=trees.1")
    size = "() => parseFloat(getComputedStyle(document.querySelector('.cy-say')).fontSize)"
    small = page.evaluate(size)
    page.keyboard.press("f")
    page.wait_for_function("() => document.querySelector('.cy-large')")
    assert page.evaluate(size) > 1.3 * small
    assert page.evaluate("() => canopy.learn.tree.magnified") > 1
    box = page.locator(".cy-learn").bounding_box()
    assert (box["x"], box["y"], box["width"]) == (0, 0, page.evaluate("() => innerWidth"))
    page.keyboard.press("PageDown")
    assert page.evaluate(AT) == "#learn=trees.2"
    page.keyboard.press("f")
    page.wait_for_function("() => !document.querySelector('.cy-large') && !document.fullscreenElement")
    assert page.evaluate(size) == small
    watch.check(address)


def test_try_it_opens_the_round_in_explore(browser, address):
    page, watch = opened(browser, address + "#learn=pruning.8")
    details = page.locator(".cy-attempt details")
    assert details.get_attribute("open") is None
    details.locator("summary").click()
    assert page.locator("[data-part=answer]").is_visible()
    index = page.evaluate("() => canopy.learn.scene.index")
    page.get_by_role("button", name="Open this round in Explore").click()
    page.wait_for_function("() => canopy.explore.visible && canopy.explore.log.id === 'graft'")
    assert page.evaluate("() => canopy.explore.current") == index
    watch.check(address)


def test_every_step_draws_and_nothing_jumps(browser, address):
    page, watch = opened(browser, address + "#learn=plain.1")
    steps = page.evaluate(f"async () => {LESSONS}.map((lesson) => lesson.steps.length + 1)")
    height = "() => document.querySelector('.cy-steps').getBoundingClientRect().top"
    stood = set()
    for lesson, count in enumerate(steps):
        for step in range(count):
            page.evaluate("async ([lesson, step]) => { await canopy.learn.go(lesson, step); }", [lesson, step])
            stood.add(round(page.evaluate(height)))
            assert page.evaluate("() => canopy.learn.scene !== null"), (lesson, step)
            drawn = page.evaluate(
                "() => Boolean(canopy.learn.tree.lit || document.querySelector('.cy-drawing').childElementCount"
                " || canopy.learn.scene.show.as === 'tree')"
            )
            assert drawn
    assert len(stood) == 1
    watch.check(address)


# ---- what may come


def hostile(path: Path) -> str:
    """A recording with every display text replaced by something that wants to run."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line["kind"] == "header":
            line |= {
                "prompt": "Why? " + "".join(HOSTILE),
                "first_text": HOSTILE[0],
                "target": HOSTILE[0],
                "drafter": HOSTILE[1],
            }
        if line["kind"] == "round":
            line["pieces"] = {token: HOSTILE[int(token) % len(HOSTILE)] for token in line["pieces"]}
            line["emitted_text"] = [HOSTILE[token % len(HOSTILE)] for token in line["emitted"]]
    return "\n".join(json.dumps(line) for line in lines)


def test_hostile_recordings_run_nothing_in_any_step(browser, address):
    page = browser.new_page()
    watch = Watch(page)
    page.route(
        "**/traces/*.jsonl",
        lambda route: route.fulfill(body=hostile(STATIC / "traces" / route.request.url.rsplit("/", 1)[1])),
    )
    page.goto(address + "#learn=plain.1")
    page.wait_for_function(IN_LEARN, timeout=60_000)
    seen = ""
    for lesson in range(8):
        for step in range(8):
            page.evaluate("async ([lesson, step]) => { await canopy.learn.go(lesson, step); }", [lesson, step])
            seen += page.inner_text(".cy-lesson")
    assert HOSTILE[0] in seen
    assert "\u27e8RLO\u27e9evil\u27e8ZWSP\u27e9\u2407" in seen
    assert "\u202e" not in seen
    assert page.evaluate("() => window.pwned") is None
    assert page.locator(".cy-learn img, .cy-learn script").count() == 0
    watch.check(address)


def test_a_missing_recording_says_so_and_can_be_asked_for_again(browser, address):
    page = browser.new_page()
    missing = True
    page.route("**/traces/chain.jsonl", lambda route: route.fulfill(status=404) if missing else route.continue_())
    page.goto(address + "#learn=drafting.1")
    again = page.get_by_role("button", name="Try again")
    again.wait_for(timeout=60_000)
    assert "cannot be shown" in page.inner_text(".cy-say")
    missing = False
    again.click()
    page.wait_for_function(IN_LEARN)


def test_a_recording_without_what_a_step_needs_leaves_the_lesson_usable(browser, address):
    page = browser.new_page()
    plain = (STATIC / "traces" / "plain.jsonl").read_text(encoding="utf-8")
    page.route("**/traces/graft.jsonl", lambda route: route.fulfill(body=plain))
    page.goto(address + "#learn=pruning.5")
    page.wait_for_function(
        "() => document.querySelector('.cy-say')?.textContent.includes('nothing to show')", timeout=60_000
    )
    page.keyboard.press("Home")
    page.wait_for_function(IN_LEARN)
    assert not math.isnan(page.evaluate("() => canopy.learn.scene.index"))


def test_on_a_phone_the_buttons_stand_above_the_drawing_in_one_line(browser, address):
    page, _ = opened(browser, address + "#learn=speedup.3", viewport={"width": 390, "height": 844})
    back, ahead = (page.locator(f".cy-steps [data-part={name}]").bounding_box() for name in ("back", "next"))
    assert back["y"] == ahead["y"]
    assert ahead["height"] < 50
    assert ahead["y"] + ahead["height"] < page.locator("[data-part=figure]").bounding_box()["y"]

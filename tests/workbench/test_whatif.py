"""What-if in a real browser: another tree in the recorded one's place, and the way back."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.browser import Watch, opened
from tests.workbench.replay_engine import WELCOME
from tests.workbench.test_page import HOSTILE, hostile_trace
from tests.workbench.test_whatif_planners import without_marginals

pytestmark = [pytest.mark.browser, pytest.mark.slow]
LIT = "() => canopy.explore.round.lit.map(({ node, role }) => [role, canopy.explore.round.fate[node]])"
SHOWN = """() => {
  const { round } = canopy.explore;
  const count = (kind) => round.standing.filter((standing, node) => node && standing === kind).length;
  return { supposed: round.supposed, drafted: round.drafted,
    both: count("both"), here: count("here"), gone: count("gone") };
}"""


def asking(browser: Any, address: str, trace: Path | None = None, **options: Any) -> tuple[Any, Watch]:
    """The page with what-if open, over the recorded run or another in its place."""
    if trace is None:
        page, watch = opened(browser, address, **options)
    else:
        page = browser.new_context(**({"viewport": {"width": 1440, "height": 900}} | options)).new_page()
        watch = Watch(page)
        page.route("**/traces/welcome.jsonl", lambda route: route.fulfill(path=trace))
        page.goto(address)
    page.wait_for_function("() => window.canopy?.whatif && window.canopy.explore.tree.round", timeout=60_000)
    page.keyboard.press("w")
    page.locator(".cy-whatif").wait_for(state="visible")
    return page, watch


def changed(folder: Path, **header: Any) -> Path:
    """The recorded run with another header."""
    first, *rest = WELCOME.read_text(encoding="utf-8").splitlines()
    path = folder / "changed.jsonl"
    path.write_text("\n".join([json.dumps(json.loads(first) | header), *rest]), encoding="utf-8")
    return path


def test_it_opens_on_the_recorded_tree_says_so_and_leads_back(browser, replay):
    page, watch = asking(browser, replay)
    recorded = page.evaluate("() => canopy.explore.log.rounds[canopy.explore.current].tree.token")
    assert page.evaluate(SHOWN) == {"supposed": "DDTree (best first)", "drafted": 32, "both": 32, "here": 0, "gone": 0}
    assert page.evaluate("() => canopy.explore.round.tree.token") == recorded
    assert "never run" in page.inner_text("[data-part=whatBanner]")
    assert page.evaluate("() => canopy.explore.tree.canvas.ariaLabel").startswith("What if, DDTree")
    page.get_by_role("button", name="Back to the recorded tree").click()
    assert not page.locator(".cy-whatif").is_visible()
    assert not page.locator("[data-part=whatBanner]").is_visible()
    assert page.evaluate("() => canopy.explore.supposed") is None
    assert page.evaluate("() => canopy.explore.tree.round.tree.token") == recorded
    page.focus("#cy-prompt textarea")
    page.keyboard.press("w")
    assert not page.locator(".cy-whatif").is_visible()
    watch.check(replay)


def test_the_budget_adds_and_drops_nodes_one_by_one_and_asks_no_server(browser, replay):
    page, watch = asking(browser, replay)
    page.wait_for_timeout(500)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    rows = page.evaluate("() => [...canopy.explore.tree.plan.row]")
    page.locator("[data-part=whatBudget]").focus()
    for gone in (1, 2, 3):
        page.keyboard.press("ArrowLeft")
        shown = page.evaluate(SHOWN)
        assert (shown["drafted"], shown["both"], shown["here"], shown["gone"]) == (32 - gone, 32 - gone, 0, gone)
        assert page.inner_text("[data-part=whatGone]") == str(gone)
    assert page.evaluate("() => [...canopy.explore.tree.plan.row]") == rows, "a ghost keeps its place"
    page.evaluate("() => canopy.whatif.setBudget(35)")
    assert page.evaluate(SHOWN)["here"] == 3
    page.keyboard.press("Escape")
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(SHOWN)["drafted"] == 35, "another round, the same question"
    assert asked == []
    watch.check(replay)


def test_strategies_share_the_marginals_and_are_scored_by_the_text(browser, replay):
    page, watch = asking(browser, replay)
    page.evaluate("() => canopy.explore.scrub(7)")
    page.select_option("[data-part=whatStrategy]", "linear")
    assert page.evaluate("() => canopy.explore.round.drafted") == 7, "the whole block as a chain"
    page.select_option("[data-part=whatStrategy]", "fixed")
    page.get_by_text("Settings of this strategy").click()
    page.locator("[data-setting=threshold]").fill("0")
    page.locator("[data-setting=threshold]").blur()
    assert page.evaluate(SHOWN)["drafted"] == 32
    score = page.inner_text("[data-part=whatScore]")
    recorded = page.evaluate("() => canopy.explore.log.rounds[7].accepted")
    assert f"recorded {recorded}" in " ".join(score.split())
    assert "here exactly" in score
    page.select_option("[data-part=whatStrategy]", "eagle")
    page.locator("[data-setting=top_k]").fill("40")
    page.locator("[data-setting=top_k]").blur()
    assert "32 were recorded" in page.inner_text("[data-part=whatNote]")
    assert page.evaluate("() => canopy.explore.supposed") is None, "what cannot be planned is not shown"
    watch.check(replay)


def test_it_tells_why_a_token_was_rejected(browser, replay):
    page, watch = asking(browser, replay)
    page.evaluate("() => canopy.whatif.setBudget(2)")
    for index in range(0, 70, 7):
        page.evaluate("(index) => canopy.explore.scrub(index)", index)
        found = page.evaluate(
            """() => {
              const { round, log } = canopy.explore;
              const node = round.fate.indexOf("rejected");
              if (node < 0) return null;
              canopy.explore.select(node);
              const choice = canopy.whatif.ground.tokens[round.depth[node] - 1];
              return { choice: log.label(choice), token: log.label(round.tree.token[node]),
                least: canopy.whatif.ground.growth.reached[round.depth[node] - 1] ?? null,
                rank: canopy.whatif.ground.rows.token[round.depth[node] - 1].indexOf(choice) };
            }"""
        )
        if found is None:
            continue
        text = page.inner_text("[data-part=whatWhy]")
        assert text.startswith(f"{found['token']} was rejected: the target chose {found['choice']} (p ")
        if found["least"] is not None and found["least"] > 2:
            assert f"a budget of {found['least']} would have had" in text
        elif found["rank"] < 0:
            assert "is not among the 32 ranks recorded" in text
    page.keyboard.press("Escape")
    assert "the target\u2019s own token" in page.inner_text("[data-part=whatWhy]")
    watch.check(replay)


def test_the_heap_pops_step_by_step(browser, replay):
    page, watch = asking(browser, replay)
    page.get_by_role("button", name="First").click()
    # Where nothing was accepted, the bonus stands below the root however many nodes were popped.
    page.evaluate("() => canopy.explore.scrub(canopy.explore.log.rounds.findIndex((r) => r.verdict.path.length === 1))")
    popped = page.evaluate(
        "() => canopy.explore.log.label(canopy.explore.log.rounds[canopy.explore.current].tree.token[1])"
    )
    assert page.inner_text("[data-part=whatPop]").startswith(f"Pop 1: {popped} leaves with")
    assert page.locator(".cy-what-list li").count() == 2, "its sibling and its child"
    assert page.locator(".cy-what-pushed").count() == 2
    rows = page.evaluate("() => [...canopy.explore.tree.plan.row].sort((a, b) => a - b)")
    for pop in (2, 3, 4):
        page.get_by_role("button", name="One pop on").click()
        assert page.evaluate(SHOWN)["drafted"] == pop
        lit = page.evaluate(LIT)
        assert lit[0][0] == "popped"
        assert {fate for role, fate in lit if role != "popped"} <= {"waiting"}
        assert page.evaluate("() => [...canopy.explore.tree.plan.row].sort((a, b) => a - b)") == rows, "nothing moves"
    page.get_by_role("button", name="One pop back").click()
    assert page.evaluate(SHOWN)["drafted"] == 3
    page.locator("[data-part=whatPlay]").click()
    page.wait_for_function("() => canopy.explore.round.drafted >= 6", timeout=30_000)
    page.locator("[data-part=whatPlay]").click()
    page.select_option("[data-part=whatStrategy]", "linear")
    assert page.get_by_role("button", name="First").is_disabled()
    watch.check(replay)


def test_a_sampled_run_and_one_whose_verifier_looks_at_the_tree(browser, replay, tmp_path):
    page, _ = asking(browser, replay, changed(tmp_path, temperature=0.8, verifier="sample-match"))
    assert "given the text that was drawn" in page.inner_text("[data-part=whatNote]")
    assert "here exactly" in page.inner_text("[data-part=whatScore]")
    page, watch = asking(browser, replay, changed(tmp_path, temperature=0.8, verifier="traversal"))
    assert "here exactly —" in " ".join(page.inner_text("[data-part=whatScore]").split())
    assert "depend on the tree" in page.inner_text("[data-part=whatNote]")
    assert "accepted" not in page.evaluate("() => canopy.explore.round.fate")
    watch.check(replay)


def test_rounds_without_marginals_offer_what_the_record_holds(browser, replay, tmp_path):
    page, _ = asking(browser, replay, without_marginals(tmp_path / "stepwise.jsonl"))
    assert "one-pass drafter" in page.inner_text("[data-part=whatNote]")
    assert page.evaluate("() => Number(canopy.explore.part.whatBudget.max)") == 32
    page.evaluate("() => canopy.whatif.setBudget(9)")
    shown = page.evaluate(SHOWN)
    assert (shown["drafted"], shown["both"], shown["gone"]) == (9, 9, 23)
    page, watch = asking(browser, replay, without_marginals(tmp_path / "retrieval.jsonl", unscored=True))
    assert "needs a one-pass drafter" in page.inner_text("[data-part=whatRefusal]")
    assert page.evaluate("() => canopy.explore.supposed") is None
    assert not page.locator("[data-part=whatBanner]").is_visible()
    watch.check(replay)


def test_it_follows_a_run_that_is_coming_in(browser, replay):
    page, watch = asking(browser, replay)
    page.locator("#cy-run").click()
    page.wait_for_function("() => canopy.explore.log.id !== 'recorded' && canopy.explore.log.summary", timeout=120_000)
    page.wait_for_function("() => canopy.whatif.survey.done === canopy.explore.log.rounds.length", timeout=30_000)
    assert page.evaluate(SHOWN)["drafted"] > 0
    decided = page.evaluate("() => canopy.whatif.survey.planned")
    assert 60 < decided <= 70, "all but the last few, whose text ends too soon"
    assert f"mean of {decided} rounds" in page.inner_text("[data-part=whatAllText]")
    assert "calibration error" in page.inner_text("[data-part=whatCalibrationText]")
    watch.check(replay)


def test_hostile_tokens_run_nothing(browser, replay, tmp_path):
    page, watch = asking(browser, replay, hostile_trace(tmp_path))
    page.get_by_role("button", name="First").click()
    page.evaluate("() => { for (let n = 0; n < 8; n++) canopy.whatif.step(1); canopy.explore.select(2); }")
    page.wait_for_timeout(300)
    assert page.evaluate("() => window.pwned") is None
    assert page.locator(".cy-whatif img, .cy-whatif script").count() == 0
    shown = page.inner_text(".cy-whatif")
    assert any(text.replace(" ", "·") in shown for text in HOSTILE[:5])
    watch.check(replay)


def test_its_score_can_be_read(browser, replay):
    page, _ = asking(browser, replay)
    figures = page.locator("[data-part=whatScore] > span")
    assert figures.count() == 4
    for figure in figures.all():
        wanted = figure.evaluate("(span) => { const range = new Range(); range.selectNodeContents(span);"
                                 " return range.getBoundingClientRect().width; }")  # fmt: skip
        assert figure.bounding_box()["width"] >= wanted > 20


def test_a_selected_node_is_known_again_in_the_next_tree(browser, replay):
    page, _ = asking(browser, replay)
    way = (
        "() => { const { tree } = canopy.explore.round; const tokens = [];"
        " for (let at = canopy.explore.selected; at > 0; at = tree.parent[at]) tokens.unshift(tree.token[at]);"
        " return tokens }"
    )
    page.evaluate("() => canopy.explore.select(canopy.explore.round.depth.findIndex((depth) => depth === 2))")
    before = page.evaluate(way)
    assert len(before) == 2
    page.evaluate("() => canopy.whatif.setStrategy('fixed')")
    page.evaluate("() => canopy.whatif.setStrategy('ddtree')")
    for budget in (31, 24, 32):
        page.evaluate("(budget) => canopy.whatif.setBudget(budget)", budget)
        assert page.evaluate(way) == before
    page.evaluate("() => canopy.explore.select(0)")
    page.evaluate("() => canopy.whatif.setBudget(20)")
    assert page.evaluate(way) == []

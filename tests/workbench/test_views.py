"""The views of a round beside the tree, the walk through it, where nodes came from: the Python core is the judge."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.base import Drafter, Observation, StepwiseDrafter
from decoding.drafters.prompt_lookup import PromptLookup
from decoding.drafters.sam import SamDrafter, SamSettings
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.loop import Request, decode
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.trace import TraceEncoder, dump_line, read_trace
from decoding.tree import ancestors, cumulative_logprob, depths
from decoding.types import Source
from decoding.verifiers import make_verifier
from tests.decoding.random_trees import random_tree
from tests.decoding.strategies.test_ddtree import GivenLogits
from tests.tiny_models import VOCAB, tiny_target
from tests.workbench.browser import opened
from tests.workbench.replay_engine import WELCOME
from tests.workbench.test_page import HOSTILE, hostile_trace

pytestmark = [pytest.mark.browser, pytest.mark.slow]
NAMES = ("tree", "mass", "marginals", "mask", "table")
OPEN = """async ([text, round]) => {
  const { RunLog } = await import("/canopy/run_log.js");
  canopy.explore.open(RunLog.fromLines("opened" + Math.random(), text), round);
}"""
SELECTED = "() => canopy.explore.selected"


@pytest.fixture(scope="module")
def page(browser: Any, address: str) -> Any:
    return opened(browser, address)[0]


def shown(page: Any, name: str) -> None:
    """Opens a view and waits until it stands there."""
    page.evaluate("(name) => canopy.explore.showView(name)", name)
    if name != "tree":
        page.wait_for_function(
            "(name) => canopy.explore.views.living[name]?.round === canopy.explore.log.rounds[canopy.explore.current]",
            arg=name,
        )


def ink(page: Any, name: str) -> int:
    """How many pixels of a view's canvas are drawn."""
    return page.evaluate(
        "(name) => { const { canvas, pen } = canopy.explore.views.living[name];"
        "return pen.getImageData(0, 0, canvas.width, canvas.height).data.filter((v, i) => i % 4 === 3 && v).length }",
        name,
    )


RANDOM_PROMPT = tuple(np.random.default_rng(3).integers(VOCAB, size=24).tolist())


def recorded(
    strategy: str,
    drafter: Drafter,
    settings: dict[str, Any],
    retrieval: StepwiseDrafter | None = None,
    prompt: tuple[int, ...] = RANDOM_PROMPT,
) -> str:
    """The trace of a tiny model's run."""
    target = tiny_target("llama")
    made = make_strategy(strategy, settings)
    events = decode(
        target, drafter, made, make_verifier(None, Sampling()), Request("", prompt, 40), retrieval=retrieval
    )
    encoder = TraceEncoder(lambda token: f"<{token}>")
    return "\n".join(dump_line(encoder.encode(event)) for event in events)


# ---- the switch ------------------------------------------------------------------------------------------------------


def test_keys_and_buttons_switch_and_scrubbing_keeps_the_view(browser, address):
    page, watch = opened(browser, address)
    page.evaluate(
        "() => { window.heard = []; canopy.explore.addEventListener('view', () => heard.push(canopy.explore.view)); }"
    )
    for key, name in enumerate(NAMES, start=1):
        page.keyboard.press(str(key))
        shown(page, name)
        assert page.evaluate("() => canopy.explore.view") == name
        assert page.locator(f"[data-pane={name}]").is_visible()
        assert page.locator("[data-pane]:visible").count() == 1
        assert page.get_attribute(f"[data-view={name}]", "aria-pressed") == "true"
        page.keyboard.press("ArrowRight")
        assert page.evaluate("() => canopy.explore.view") == name
    assert page.evaluate("() => heard") == list(NAMES[1:])
    page.evaluate("() => canopy.explore.showView('../evil')")
    assert page.evaluate("() => canopy.explore.view") == "table"
    page.get_by_role("button", name="mass").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("() => canopy.explore.view") == "mass"
    watch.check(address)


def test_the_panel_keeps_its_size_whatever_is_on_show(browser, address):
    page, _ = opened(browser, address)
    sizes = set()
    for name in NAMES:
        shown(page, name)
        for round_number in (0, 3, 9):
            page.evaluate("(i) => canopy.explore.scrub(i)", round_number)
            box = page.locator(".cy-tree").bounding_box()
            switch = page.locator(".cy-switch").bounding_box()
            sizes.add((box["height"], switch["x"], switch["y"], page.locator(".cy-strip").bounding_box()["y"]))
    assert len(sizes) == 1


THIRD_OF_THE_FIRST_POSITION = """() => {
  const { tree, marginals } = canopy.explore.log.rounds[canopy.explore.current];
  return tree.token.findIndex((token, node) => tree.parent[node] === 0 && token === marginals.token[0][2]);
}"""


@pytest.mark.parametrize("name", NAMES)
def test_every_view_draws_selects_and_says_the_same(browser, address, name):
    page, watch = opened(browser, address)
    shown(page, name)
    if name in ("mass", "marginals", "mask"):
        empty = ink(page, name)
        assert empty > 2000
        page.evaluate("() => canopy.explore.select(2)")
        before = page.evaluate("(name) => canopy.explore.views.living[name].canvas.toDataURL()", name)
        page.evaluate("() => canopy.explore.select(5)")
        assert page.evaluate("(name) => canopy.explore.views.living[name].canvas.toDataURL()", name) != before
        label = page.get_attribute(f"[data-pane={name}] canvas", "aria-label")
        assert len(label) > 40
    place = {
        "tree": "() => canopy.explore.tree.place(3)",
        "mass": "() => { const b = canopy.explore.views.living.mass.boxes[3];"
        "return { x: b.x + 5, y: b.y + b.height / 2 }; }",
        "marginals": "() => ({ x: 60, y: 52 + 2 * 19 + 8 })",
        "mask": "() => { const v = canopy.explore.views.living.mask; return { x: v.left + 2, y: 24 + 3.5 * v.cell }; }",
        "table": "() => null",
    }[name]
    wanted = page.evaluate(THIRD_OF_THE_FIRST_POSITION) if name == "marginals" else 3
    if name == "table":
        page.locator(".cy-table tbody tr").nth(3).click()
    else:
        at = page.evaluate(place)
        canvas = page.locator(f"[data-pane={name}] canvas")
        canvas.hover(position=at)
        tip = page.locator(f"[data-pane={name}] .cy-tip")
        token = "(node) => canopy.explore.log.label(canopy.explore.log.rounds[canopy.explore.current].tree.token[node])"
        assert page.evaluate(token, wanted) in tip.inner_text()
        canvas.click(position=at)
    assert page.evaluate(SELECTED) == wanted
    for other in NAMES[1:]:
        shown(page, other)
        assert page.evaluate("(name) => canopy.explore.views.living[name].selected", other) == wanted
    page.keyboard.press("Escape")
    assert page.evaluate(SELECTED) is None
    watch.check(address)


def test_a_run_without_rounds_says_that_they_come(browser, address):
    page, watch = opened(browser, address)
    header = WELCOME.read_text(encoding="utf-8").splitlines()[0]
    page.evaluate(OPEN, [header, -1])
    for name in NAMES:
        page.evaluate("(name) => canopy.explore.showView(name)", name)
        page.locator(f"[data-pane={name}]").get_by_text("The first round is on its way").wait_for(timeout=10_000)
    watch.check(address)


def test_colours_follow_the_theme(browser, address):
    page, _ = opened(browser, address, color_scheme="light")
    shown(page, "mask")
    before = page.evaluate("() => canopy.explore.views.living.mask.canvas.toDataURL()")
    page.locator("#cy-theme").click()
    page.wait_for_function("(old) => canopy.explore.views.living.mask.canvas.toDataURL() !== old", arg=before)


# ---- what they show, against the core --------------------------------------------------------------------------------


def test_the_mass_is_proposition_one(page):
    trace = read_trace(WELCOME)
    page.evaluate(OPEN, [WELCOME.read_text(encoding="utf-8"), 0])
    found = page.evaluate(
        "async () => { const { massOf } = await import('/canopy/views/mass.js');"
        "return canopy.explore.log.rounds.map(massOf).map((m) => [m.expected, [...m.reach].slice(1)]) }"
    )
    for (expected, reach), item in zip(found, trace.rounds, strict=True):
        weight, depth = np.exp(cumulative_logprob(item.tree)[1:]), depths(item.tree.parent)[1:]
        assert expected == pytest.approx(weight.sum(), abs=1e-4)
        assert expected == pytest.approx(item.decision["expected_accepted"], abs=1e-3)
        assert reach == pytest.approx(np.bincount(depth, weight)[1:].tolist(), abs=1e-4)
    shown(page, "mass")
    page.evaluate("() => canopy.explore.scrub(3)")
    item = trace.rounds[3]
    caption = page.inner_text("[data-pane=mass] .cy-caption")
    assert f"Expected accepted length {item.decision['expected_accepted']:.2f}" in caption
    assert f"really accepted {item.accepted}" in caption


def test_blocks_never_cover_each_other_and_grafts_are_told_apart(page):
    rng = np.random.default_rng(0)
    text = recorded(
        "graft",
        Autoregressive(tiny_target("llama", seed=1), VOCAB),
        {"budget": 24, "depth": 3, "width": 4, "tau_d0": 1},
        TransitionMatrix(VOCAB),
    )
    page.evaluate(OPEN, [text, 2])
    shown(page, "mass")
    rounds = [json.loads(line) for line in text.splitlines()[1:-1]]
    for index in rng.permutation(len(rounds))[:6].tolist():
        page.evaluate("(i) => canopy.explore.scrub(i)", index)
        tree = rounds[index]["tree"]
        boxes = page.evaluate("() => canopy.explore.views.living.mass.boxes")[: len(tree["token"])]
        known = page.evaluate("() => [...canopy.explore.views.living.mass.mass.known]")
        assert known == [int(value is not None) for value in tree["logprob"]]
        by_column: dict[float, list[Any]] = {}
        for box in boxes:
            by_column.setdefault(box["x"], []).append((box["y"], box["y"] + box["height"]))
        for column in by_column.values():
            column.sort()
            assert all(low[1] <= high[0] + 1e-6 for low, high in zip(column, column[1:], strict=False))
        if not all(known):
            assert "without q" in page.inner_text("[data-pane=mass] .cy-caption")


def test_what_was_written_is_the_output(page):
    trace = read_trace(WELCOME)
    page.evaluate(OPEN, [WELCOME.read_text(encoding="utf-8"), 0])
    found = page.evaluate(
        "async () => { const { written, positionTable } = await import('/canopy/views/position_table.js');"
        "return canopy.explore.log.rounds.map((r) => { const columns = positionTable(r).columns; return ["
        "written(r, canopy.explore.log, 12).map((w) => [w.token, w.how]),"
        "columns.map((column) => column.map((cell) => cell.nodes).flat()).flat()]; }) }"
    )
    output = list(trace.summary.output_ids)
    place = 1
    for (taken, nodes), item in zip(found, trace.rounds, strict=True):
        assert [token for token, _ in taken] == output[place : place + 12]
        kinds = [how for _, how in taken]
        assert kinds[: len(item.emitted)] == (["accepted"] * item.accepted + ["bonus"])[: len(item.emitted)]
        assert set(kinds[len(item.emitted) :]) <= {"later"}
        assert sorted(nodes) == list(range(1, len(item.tree)))
        place += len(item.emitted)


def test_a_stepwise_drafter_has_no_marginals_and_says_so(page):
    text = recorded(
        "fixed", Autoregressive(tiny_target("llama", seed=1), VOCAB), {"depth": 3, "branching": 3, "budget": 20}
    )
    page.evaluate(OPEN, [text, 1])
    shown(page, "marginals")
    assert "gives no marginals" in page.inner_text("[data-pane=marginals] .cy-caption")
    tree = json.loads(text.splitlines()[2])["tree"]
    parent, logprob = np.array(tree["parent"]), np.array(tree["logprob"])
    weight, depth = np.ones(len(parent)), depths(parent)
    for node in range(1, len(parent)):
        weight[node] = weight[parent[node]] * np.exp(logprob[node])
    cells = page.evaluate(
        "() => canopy.explore.views.living.marginals.table.columns"
        ".map((column) => column.map((cell) => [cell.token, Math.exp(cell.logprob)]))"
    )
    for position, column in enumerate(cells, start=1):
        assert [p for _, p in column] == sorted((p for _, p in column), reverse=True)
        for token, probability in column:
            same = (depth == position) & (np.array(tree["token"]) == token)
            assert probability == pytest.approx(weight[same].sum(), rel=1e-3)
    page.evaluate(OPEN, [recorded("linear", PromptLookup(VOCAB), {}), -1])
    shown(page, "marginals")
    assert "a look-up knows no distribution" in page.inner_text("[data-pane=marginals] .cy-blank")


def test_the_mask_is_the_trees_attention(page):
    page.evaluate(OPEN, [WELCOME.read_text(encoding="utf-8"), 0])
    for seed in range(4):
        tree = random_tree(np.random.default_rng(seed), 40, 9)
        parent = tree.parent.tolist()
        rows = page.evaluate(
            "async (parent) => { const { seenBy } = await import('/canopy/views/attention.js');"
            "return parent.map((_, node) => seenBy({ tree: { parent } }, node)); }",
            parent,
        )
        assert [sorted(row) for row in rows] == [np.flatnonzero(line).tolist() for line in ancestors(tree.parent)]


@pytest.mark.parametrize("nodes", [8, 64, 1024])
def test_the_mask_is_legible_at_every_size(page, nodes):
    page.evaluate(OPEN, [big_trace(nodes), 0])
    shown(page, "mask")
    view = page.evaluate(
        "() => { const { named, lens } = canopy.explore.views.living.mask; return { named, lens: Boolean(lens) }; }"
    )
    assert view["named"] == (nodes == 8)
    assert view["lens"] != view["named"]
    assert ink(page, "mask") > 2000


def big_trace(nodes: int) -> str:
    """The recorded run's first round with a random tree of that many nodes and all that a verdict says of them."""
    header, item, *_ = (json.loads(line) for line in WELCOME.read_text(encoding="utf-8").splitlines())
    rng = np.random.default_rng(nodes)
    parent = [-1, *(int(rng.integers(max(0, node - 40), node)) for node in range(1, nodes))]
    item["tree"] = {
        "token": list(range(nodes)),
        "parent": parent,
        "logprob": [0.0, *(float(-rng.random()) for _ in range(nodes - 1))],
        "source": [0] + [1] * (nodes - 1),
    }
    verdict = item["verdict"]
    for name in ("logprob", "rank", "choice", "entropy", "top_token", "top_logprob"):
        verdict[name] = [verdict[name][node % len(verdict[name])] for node in range(nodes)]
    verdict["path"], item["emitted"], item["emitted_text"], item["marginals"] = [0], [5], ["x"], None
    return "\n".join(json.dumps(line) for line in (header, item))


# ---- the table -------------------------------------------------------------------------------------------------------


def test_the_table_holds_every_node_sorts_and_pages(page):
    page.evaluate(OPEN, [big_trace(1024), 0])
    shown(page, "table")
    rows = page.locator(".cy-table tbody tr:visible")
    assert rows.count() == 50
    seen = [rows.nth(0).inner_text()]
    for _ in range(3):
        page.get_by_role("button", name="Nodes after").click()
        seen.append(rows.nth(0).inner_text())
    assert len(set(seen)) == 4
    page.get_by_role("button", name="Sort by path p").click()
    page.get_by_role("button", name="Sort by path p").click()
    assert page.get_attribute(".cy-table th:nth-child(7)", "aria-sort") == "descending"
    order = page.evaluate("() => canopy.explore.views.living.table.order")
    path = page.evaluate("() => canopy.explore.log.rounds[0].cumulative")
    inner = [path[node] for node in order[:-2]]
    assert inner == sorted(inner, reverse=True)
    assert sorted(order) == list(range(1025))
    page.evaluate("() => canopy.explore.select(777)")
    row = page.locator(".cy-table tr[aria-current=true]")
    assert row.inner_text().split()[0] == "777"
    assert row.is_visible()


def test_the_table_says_what_the_trace_says(browser, address):
    page, _ = opened(browser, address)
    page.evaluate(OPEN, [WELCOME.read_text(encoding="utf-8"), 3])
    shown(page, "table")
    item = read_trace(WELCOME).rounds[3]
    depth = depths(item.tree.parent)
    for node in range(1, len(item.tree)):
        cells = page.locator(".cy-table tbody tr").nth(node).locator("th, td").all_inner_texts()
        assert cells[0] == str(node)
        assert cells[2:4] == [str(depth[node]), str(item.tree.parent[node])]
        assert cells[8] == str(item.verdict.rank[node])
        assert (cells[9] == "accepted") == (node in item.verdict.path)
    assert page.locator(".cy-table caption, .cy-table[aria-label]").count() == 1
    page.locator(".cy-table tbody button").nth(4).focus()
    page.keyboard.press("Enter")
    assert page.evaluate(SELECTED) == 4


# ---- walking ---------------------------------------------------------------------------------------------------------


def test_shift_and_arrows_walk_the_tree_and_are_announced(browser, address):
    page, watch = opened(browser, address)
    rounds = read_trace(WELCOME).rounds
    index = next(i for i, item in enumerate(rounds) if i and item.verdict.path.tolist()[1:2] == [1])
    page.evaluate("(index) => canopy.explore.scrub(index)", index)
    item = rounds[index]
    page.focus(".cy-canvas canvas")
    page.evaluate("() => canopy.explore.select(0)")
    for node in [*item.verdict.path.tolist()[1:], len(item.tree)]:
        page.keyboard.press("Shift+ArrowRight")
        assert page.evaluate(SELECTED) == node
    assert "bonus" in page.inner_text("#cy-live")
    page.keyboard.press("Shift+ArrowRight")
    assert page.evaluate(SELECTED) == len(item.tree)
    page.keyboard.press("Shift+ArrowLeft")
    assert page.evaluate(SELECTED) == item.verdict.path[-1]
    page.evaluate("() => canopy.explore.select(0)")
    page.keyboard.press("Shift+ArrowRight")
    first = np.flatnonzero(item.tree.parent == 0)
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    assert page.evaluate(SELECTED) == first[2]
    assert f"3 of {len(first)} siblings" in page.inner_text("#cy-live")
    page.keyboard.press("Shift+ArrowUp")
    assert page.evaluate(SELECTED) == first[1]
    assert page.evaluate("() => canopy.explore.current") == index
    page.keyboard.press("?")
    assert "previous, next sibling" in page.inner_text(".cy-keys")
    watch.check(address)


# ---- where nodes came from -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["prompt-lookup", "sam"])
def test_a_copied_draft_is_traced_to_its_place(page, name, monkeypatch):
    starts: list[int] = []
    if name == "prompt-lookup":
        original = PromptLookup._continuation
        monkeypatch.setattr(
            PromptLookup, "_continuation", lambda self, start, root: starts.append(start) or original(self, start, root)
        )
    rng = np.random.default_rng(7)
    cases, judged = [], []
    for length in range(6, 60, 2):
        text = rng.integers(3 if name == "sam" else 5, size=length).tolist()
        drafter: Any = PromptLookup(9) if name == "prompt-lookup" else SamDrafter(9, SamSettings(threshold=1))
        drafter.begin(99)
        tokens = np.array(text[:-1], np.int32)
        drafter.observe(Observation(tokens, None, tokens, np.zeros((len(tokens), 0), np.int32)))
        if name == "sam":
            match = drafter._own.match(text[-1])
            start, path = drafter._own.automaton.first_end(match) + 1, drafter._proposal(text[-1])
        else:
            starts.clear()
            candidates = drafter.start(text[-1], 1)
            path = []
            while (token := int(candidates.token[0, 0])) >= 0:
                path.append(token)
                candidates = drafter.expand(np.array([token]), np.array([len(path) - 1]), 1)
            start = starts[-1] if starts else -1
        for end in range(1, len(path) + 1):
            cases.append([text, path[:end]])
            judged.append(start)
    assert len(cases) > 100
    found = page.evaluate(
        "async ([cases, name]) => { const { copiedFrom } = await import('/canopy/origin.js');"
        "return cases.map(([text, path]) => copiedFrom(text, path, name)); }",
        [cases, name],
    )
    assert [place and place["start"] for place in found] == judged
    for (text, path), place in zip(cases, found, strict=True):
        assert text[place["at"]] == path[-1]


@pytest.mark.parametrize("strategy", ["recycle", "graft"])
def test_a_row_is_traced_to_who_wrote_it(page, strategy, monkeypatch):
    calls: list[dict[int, int]] = []
    original = TransitionMatrix.observe

    def observe(self: TransitionMatrix, observation: Observation) -> None:
        calls.append({token: place for place, token in enumerate(observation.seen_token.tolist())})
        original(self, observation)

    monkeypatch.setattr(TransitionMatrix, "observe", observe)
    matrix = TransitionMatrix(VOCAB)
    if strategy == "recycle":
        text = recorded("recycle", matrix, {"budget": 20})
    else:
        drafter = Autoregressive(tiny_target("llama", seed=1), VOCAB)
        text = recorded("graft", drafter, {"budget": 24, "depth": 3, "width": 4, "tau_d0": 1}, matrix)
    page.evaluate(OPEN, [text, 0])
    rounds = [json.loads(line) for line in text.splitlines()[1:-1]]
    checked = 0
    for index, item in enumerate(rounds):
        nodes = [n for n, source in enumerate(item["tree"]["source"]) if source == Source.RETRIEVAL]
        origins = page.evaluate(
            "async ([index, nodes]) => { const { originOf } = await import('/canopy/origin.js');"
            "return nodes.map((node) => originOf(canopy.explore.log, index, node)); }",
            [index, nodes],
        )
        grafts = item["decision"].get("grafts", {"node": []})
        for node, origin in zip(nodes, origins, strict=True):
            row = item["tree"]["token"][item["tree"]["parent"][node]]
            assert (origin["kind"], origin["row"]) == ("row", row)
            if node in grafts["node"]:
                assert origin["rank"] == grafts["rank"][grafts["node"].index(node)]
            writer = max(call for call in range(index + 1) if row in calls[call])
            place = calls[writer][row]
            assert origin["written"] == ("prompt" if writer == 0 else {"round": writer - 1, "node": place})
            if writer:
                assert rounds[writer - 1]["verdict"]["top_token"][place][origin["rank"]] == item["tree"]["token"][node]
            checked += 1
    assert checked > 10


def test_a_copy_in_a_plan_is_traced_to_its_place(page):
    logits = torch.randn(5, VOCAB, generator=torch.Generator().manual_seed(0))
    text = recorded("ddtree-graft", GivenLogits(logits), {"budget": 24}, TransitionMatrix(VOCAB), RANDOM_PROMPT * 2)
    page.evaluate(OPEN, [text, 0])
    header, *rounds, _ = map(json.loads, text.splitlines())
    written = [*header["prompt_ids"], header["first_token"]]
    checked = 0
    for index, item in enumerate(rounds):
        for node in item["decision"]["copied"]["node"]:
            origin = page.evaluate(
                "async ([index, node]) => { const { originOf } = await import('/canopy/origin.js');"
                "return originOf(canopy.explore.log, index, node); }",
                [index, node],
            )
            assert origin["kind"] == "copy"
            assert written[origin["at"]] == item["tree"]["token"][node]
            start, matched = origin["start"], origin["matched"]
            assert matched >= 2
            assert written[start - matched : start] == written[-matched:]
            checked += 1
        written += item["emitted"]
    assert checked > 5


def test_the_panel_tells_the_origin_and_marks_it_in_the_text(browser, address):
    page, watch = opened(browser, address)
    text = recorded("linear", PromptLookup(VOCAB), {"budget": 8})
    page.evaluate(OPEN, [text, -1])
    found = page.evaluate(
        "async () => { const { originOf } = await import('/canopy/origin.js'); const { log } = canopy.explore;"
        "const prompt = log.header.prompt_ids.length; for (let i = 0; i < log.rounds.length; i++) {"
        "const node = log.rounds[i].tree.token.length - 1; const o = originOf(log, i, node);"
        "if (o.kind === 'copy' && o.at >= prompt)"
        "return [i, node, o.at - prompt, log.label(log.rounds[i].tree.token[node])]; } }"
    )
    index, node, place, label = found
    page.evaluate("([i, n]) => { canopy.explore.scrub(i); canopy.explore.select(n); }", [index, node])
    said = page.inner_text("[data-part=nodeOrigin]")
    assert "Copied from the output" in said
    assert label in said
    assert page.locator(".cy-copied-end").count() == 1
    assert page.evaluate("(i) => canopy.explore.text.spans[i].classList.contains('cy-copied-end')", place)
    page.keyboard.press("Escape")
    assert page.locator(".cy-copied").count() == 0
    watch.check(address)


def test_a_copy_from_the_prompt_is_marked_in_the_prompt(browser, address):
    page, watch = opened(browser, address)
    every_token = tuple(range(VOCAB))
    page.evaluate(OPEN, [recorded("linear", PromptLookup(VOCAB), {"budget": 8}, prompt=every_token), -1])
    index, node, at, ids = page.evaluate(
        "async () => { const { originOf } = await import('/canopy/origin.js'); const { log } = canopy.explore;"
        "const ids = log.header.prompt_ids; for (let i = 0; i < log.rounds.length; i++)"
        "for (let node = 1; node < log.rounds[i].tree.token.length; node++) {"
        "const o = originOf(log, i, node);"
        "if (o.kind === 'copy' && o.at < ids.length) return [i, node, o.at, ids.length]; } }"
    )
    typed = page.inner_text("[data-part=promptLine]")
    page.evaluate("([i, n]) => { canopy.explore.scrub(i); canopy.explore.select(n); }", [index, node])
    spans = page.locator("[data-part=prompt] span")
    assert spans.count() == ids
    assert "cy-copied-end" in spans.nth(at).get_attribute("class")
    assert spans.nth(at).is_visible()
    page.keyboard.press("Escape")
    assert spans.count() == 0
    assert page.inner_text("[data-part=promptLine]") == typed
    assert not page.locator("[data-part=prompt]").is_visible()
    watch.check(address)


def test_a_graft_leads_to_the_round_that_wrote_its_row(page):
    page.evaluate(OPEN, [recorded("recycle", TransitionMatrix(VOCAB), {"budget": 20}), 0])
    found = page.evaluate(
        "async () => { const { originOf } = await import('/canopy/origin.js'); const { log } = canopy.explore;"
        "for (let i = 1; i < log.rounds.length; i++) for (let n = 1; n < log.rounds[i].tree.token.length; n++) {"
        "const o = originOf(log, i, n); if (o.written?.round >= 0) return [i, n, o.written.round, o.written.node]; } }"
    )
    page.evaluate("([i, n]) => { canopy.explore.scrub(i); canopy.explore.select(n); }", found)
    assert "rank" in page.inner_text("[data-part=nodeOrigin]")
    page.locator("[data-part=nodeOrigin] button").click()
    assert page.evaluate("() => [canopy.explore.current, canopy.explore.selected]") == found[2:]


# ---- the decision ----------------------------------------------------------------------------------------------------


def test_the_decision_is_told_in_words_and_opens(browser, address):
    page, _ = opened(browser, address)
    page.evaluate("() => canopy.explore.scrub(3)")
    item = read_trace(WELCOME).rounds[3]
    expected = f"{item.decision['expected_accepted']:.2f}"
    assert f"{expected} accepted expected, {item.accepted} came" in page.inner_text("[data-part=decisionLine]")
    height = page.locator(".cy-tree").bounding_box()["height"]
    page.locator("[data-part=decisionLine]").click()
    page.locator("[data-part=decisionList] dd").first.wait_for()  # told to be open after it is
    assert expected in page.inner_text("[data-part=decisionList]")
    assert page.locator(".cy-tree").bounding_box()["height"] == height
    page.keyboard.press("Escape")
    assert not page.locator("[data-part=decisionList]").is_visible()


GRAFT = {
    "stage": "d1",
    "confidence": [0.5, 0.12],
    "thresholds": {"tau_d1": 0.14},
    "draft_budget": 24,
    "retrieval_budget": 36,
}
AUTO = {
    "way": "plain",
    "expected_accepted": 0.0,
    "expected_tokens_per_second": 21.4,
    "expected_ms": 46.7,
    "by_budget": {"nodes": [0, 8], "tokens_per_second": [21.4, 19.0]},
    "acceptance_factor": [1, 1.3, 0.521],
}


@pytest.mark.parametrize(
    ("decision", "line"),
    [
        (GRAFT, "Ended at gate d1, best path .12 ≤ .14: 24 drafted, 36 to graft."),
        ({**GRAFT, "stage": None}, "No gate ended the draft"),
        (AUTO, "A plain step pays best here (21 tokens/s expected)"),
        ({"cut_at_gate": 1, "confidence": {"1": 0.1}}, "Cut at gate 1: the best path, .10"),
        ({"stopped_at": 4, "beam_confidence": {"4": -2.0}}, "ended at depth 4"),
        ({"stopped": True, "entropy": [0.1, 2.0]}, "ended after 2 tokens"),
        ({"matched": True}, "copied chain"),
        ({}, ""),
        ({"way": {"x": 1}, "by_budget": 3, "rates": [], "thresholds": "no", "grafts": 7}, "Planned"),
        ({"stage": ["?"], "confidence": "x", "__proto__": 1, "constructor": HOSTILE[0]}, "Ended at gate"),
    ],
)
def test_decisions_of_any_shape_are_told(page, decision, line):
    header, item, *_ = (json.loads(row) for row in WELCOME.read_text(encoding="utf-8").splitlines())
    text = json.dumps(header) + "\n" + json.dumps(item | {"decision": decision})
    page.evaluate(OPEN, [text, 0])
    assert line in page.inner_text("[data-part=decisionLine]")
    page.evaluate("() => { canopy.explore.part.decision.open = true; }")
    page.wait_for_function(
        "(n) => canopy.explore.part.decisionList.querySelectorAll('dt').length === n", arg=len(decision)
    )
    told = page.inner_text("[data-part=decisionList]")
    if decision is AUTO:
        assert "0: 21, 8: 19" in told
        assert "1.00, 1.30, 0.52" in told
    page.evaluate("() => { canopy.explore.part.decision.open = false; }")
    assert page.evaluate("() => window.pwned") is None


# ---- hostile ---------------------------------------------------------------------------------------------------------


def test_hostile_tokens_run_nothing_in_any_view(browser, address, tmp_path: Path):
    page, watch = opened(browser, address)
    lines = [json.loads(line) for line in hostile_trace(tmp_path).read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line["kind"] == "round":
            token = str(line["tree"]["token"][1])
            line["pieces"][token] = HOSTILE[3] * 500
            line["decision"] = {HOSTILE[0]: HOSTILE[1], "way": HOSTILE[2], "thresholds": {HOSTILE[0]: 1}}
    page.evaluate(OPEN, ["\n".join(json.dumps(line) for line in lines), 3])
    page.evaluate("() => { canopy.explore.part.decision.open = true; }")
    for name in NAMES:
        shown(page, name)
        for node in (1, 2, 6):
            page.evaluate("(n) => canopy.explore.select(n)", node)
        if name not in ("tree", "table"):
            page.hover(f"[data-pane={name}] canvas", position={"x": 90, "y": 80})
    assert page.evaluate("() => window.pwned") is None
    assert page.locator(".cy-explore img, .cy-explore script").count() == 0
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 1440
    watch.check(address)

"""Runs kept in the browser, and files in: listed, named, deleted, dropped, refused."""

import io
import json
from random import Random
from typing import Any

import pytest

from decoding.errors import TraceError
from decoding.trace import parse_trace
from tests.mutated_traces import mutated
from tests.workbench.browser import READY
from tests.workbench.replay_engine import WELCOME
from tests.workbench.visiting import (
    LINES,
    ROWS,
    SHORT,
    TEXT,
    events,
    give,
    imported,
    listed,
    opened,
    prompted,
    saved,
)

pytestmark = [pytest.mark.browser, pytest.mark.slow]


# ---- the list ------------------------------------------------------------------------------------------------------


WELCOMED = json.loads(WELCOME.read_text(encoding="utf-8").splitlines()[-1])["metrics"]
"""Of the recorded run, which the engine of these tests replays."""


def test_own_runs_last_across_reloads(context, address):
    page, watch = opened(context, address)
    page.fill("#cy-prompt textarea", "Keep me")
    page.locator("#cy-run").click()
    page.wait_for_function("() => canopy.explore.log.summary && canopy.explore.log.id === canopy.explore.ticket")
    assert listed(page, 1) == ["Keep me"]
    page.wait_for_function("() => canopy.shelf.list().some((entry) => entry.link)", timeout=30_000)
    watch.check(address)
    page.close()
    page, watch = opened(context, address)
    assert page.evaluate("() => canopy.shelf.list().length") == 1, "a kept run is read when it is opened, not before"
    assert listed(page, 1) == ["Keep me"]
    row = page.locator(ROWS).first
    rounds, mean = WELCOMED["rounds"], f"{WELCOMED['tokens_per_round']:.2f}"
    for said in ("own", "smollm2-135m + smollm2-135m-dflash", "ddtree", str(rounds), mean, "2026"):
        assert said in row.inner_text()
    row.locator(".cy-run-name").click()
    page.wait_for_function("() => canopy.explore.log.header.prompt === 'Keep me'")
    assert page.evaluate("() => canopy.explore.log.rounds.length") == rounds
    watch.check(address)


def test_runs_are_named_deleted_brought_back_and_all_deleted(context, address):
    page, watch = opened(context, address)
    imported(page, SHORT, "one.jsonl")
    imported(page, prompted(SHORT, "Two?"), "two.jsonl")
    assert listed(page, 2) == ["two", "one"]
    page.locator(ROWS).nth(1).get_by_role("button", name="Rename").click()
    page.keyboard.type("first of all")
    page.keyboard.press("Enter")
    page.wait_for_function("(rows) => document.querySelectorAll(rows)[1].innerText.includes('first of all')", arg=ROWS)
    page.locator(ROWS).nth(1).get_by_role("button", name="Rename").click()
    page.keyboard.type("thought better of it")
    page.keyboard.press("Escape")
    page.reload()
    page.wait_for_function(READY, timeout=60_000)
    assert listed(page, 2) == ["two", "first of all"]
    page.locator(ROWS).nth(0).get_by_role("button", name="Delete").click()
    assert listed(page, 1) == ["first of all"]
    page.get_by_role("button", name="Undo").click()
    assert listed(page, 2) == ["two", "first of all"]
    shipped = page.locator("[data-part=rows] tr[data-origin=recorded]")
    assert shipped.count() >= 1
    assert shipped.get_by_role("button", name="Delete").count() == 0, "what ships with the page stays"
    page.get_by_role("button", name="Delete all").click()
    page.get_by_role("button", name="Keep them").click()
    listed(page, 2)
    page.get_by_role("button", name="Delete all").click()
    page.locator("[data-part=sure] .cy-danger").click()
    assert listed(page, 0) == []
    page.reload()
    page.wait_for_function(READY, timeout=60_000)
    assert listed(page, 0) == []
    assert page.locator("[data-part=clear]").is_disabled()
    watch.check(address)


def test_the_store_of_the_browser_is_bounded(context, address):
    page, _ = opened(context, address)
    gone = page.evaluate(
        """async () => {
          const db = await import('/canopy/run_db.js');
          const gone = [];
          for (let i = 0; i < db.MAX_RUNS + 2; i++) gone.push(...await db.writeRun({ key: 'k' + i, at: i }, '{}'));
          const large = { key: 'large', at: 1000 };
          const went = await db.writeRun(large, 'x'.repeat(1000), { maxBytes: 1010 });
          return [...gone, went.length, (await db.listRuns()).map((run) => run.key)];
        }"""
    )
    assert gone == ["k0", "k1", 55, ["k57", "k58", "k59", "k60", "k61", "large"]]


def test_without_a_database_the_page_works_and_says_so(context, address):
    context.add_init_script("indexedDB.open = () => { throw new DOMException('no', 'SecurityError'); };")
    page, watch = opened(context, address)
    imported(page, SHORT)
    page.evaluate("() => canopy.showTab('sessions')")
    page.wait_for_function("() => document.querySelector('[data-part=room]').textContent.includes('keeps nothing')")
    page.wait_for_function("(rows) => document.querySelectorAll(rows).length === 1", arg=ROWS)
    watch.check(address)


# ---- files in ------------------------------------------------------------------------------------------------------


def drop(page: Any, text: str, name: str) -> None:
    page.evaluate(
        """([text, name]) => {
          const data = new DataTransfer();
          data.items.add(new File([text], name));
          for (const kind of ['dragenter', 'dragover', 'drop'])
            document.querySelector('#cy-prompt').dispatchEvent(
              new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
        }""",
        [text, name],
    )


def test_a_file_dropped_anywhere_is_shown(context, address):
    page, watch = opened(context, address)
    drop(page, prompted(SHORT, "Dropped?"), "dropped.jsonl")
    page.wait_for_function("() => canopy.explore.log.header.prompt === 'Dropped?'", timeout=30_000)
    assert page.evaluate("() => canopy.explore.log.rounds.length") == 5
    assert page.locator(".cy-drop").is_hidden()
    watch.check(address)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda line: line["tree"]["parent"].__setitem__(2, 9), "Line 2: parents must come before"),
        (lambda line: line["verdict"].pop("rank"), "Line 2: the field verdict.rank is missing"),
        (lambda line: line.__setitem__("index", 7), "Line 2: index is 7, expected 0"),
        (lambda line: line["verdict"].__setitem__("bonus", "x"), "Line 2: verdict.bonus must be a whole number"),
    ],
)
def test_a_wrong_file_is_refused_by_line_and_field(context, address, change, said):
    page, _ = opened(context, address)
    line = json.loads(LINES[1])
    change(line)
    give(page, LINES[0] + json.dumps(line) + "\n", "wrong.jsonl")
    page.locator(".cy-note-error").wait_for(timeout=30_000)
    note = page.inner_text(".cy-note-error")
    assert "wrong.jsonl was not imported" in note
    assert said in note
    page.wait_for_timeout(300)
    assert page.evaluate("() => canopy.shelf.list().length") == 1


def test_a_long_file_is_refused_before_it_is_sent(context, address):
    page, watch = opened(context, address)
    page.evaluate(
        """async () => {
          const { importFiles } = await import('/canopy/import_runs.js');
          const file = new File(['x'], 'long.jsonl');
          Object.defineProperty(file, 'size', { value: 65 * 2 ** 20 });
          await importFiles([file]);
        }"""
    )
    assert "larger than 64 MB" in page.inner_text(".cy-note-error")
    watch.check(address)


def test_page_and_server_name_one_limit():
    from workbench.kept_runs import MAX_FILE_BYTES

    script = (WELCOME.parents[1] / "import_runs.js").read_text()
    assert f"MAX_MEGABYTES = {MAX_FILE_BYTES // 2**20};" in script
    assert f"up to {MAX_FILE_BYTES // 2**20}&nbsp;MB" in (WELCOME.parents[1] / "sessions.html").read_text()


def test_a_torn_file_shows_its_whole_rounds(context, address):
    page, _ = opened(context, address)
    imported(page, SHORT + LINES[6][:100])
    assert page.evaluate("() => canopy.explore.log.rounds.length") == 5
    assert "was cut off" in page.inner_text(".cy-notes")


def test_out_and_in_again_is_the_same(context, address):
    comparison = {"kind": "comparison", "baseline": {"rounds": 3}, "speedup": 1.5, "lossless": None}
    whole = TEXT.rstrip("\n") + "\n" + json.dumps(comparison) + "\n"
    page, watch = opened(context, address)
    imported(page, whole)
    once = saved(page, "trace")
    assert once.decode() == whole
    assert page.inner_text("[data-part=speedup]") == "1.50\u00d7"
    page.keyboard.press("Escape")
    page.locator("#cy-compare input").check()
    page.locator("#cy-run").click()
    page.wait_for_function("() => canopy.explore.log.comparison?.speedup === 1.42", timeout=60_000)
    own = saved(page, "trace")
    assert parse_trace(io.BytesIO(own)).comparison is not None
    page.keyboard.press("Escape")
    imported(page, own.decode())
    assert events(saved(page, "trace")) == events(own)
    watch.check(address)


def test_mutated_traces_that_are_let_in_are_shown(context, address):
    """What the strict reader takes, the page can show, whatever it is."""
    lines = [json.loads(line) for line in [*LINES[:4], LINES[-1]]]
    valid = []
    for seed in range(600):
        raw = mutated(lines, Random(seed))
        try:
            parse_trace(io.BytesIO(raw))
        except TraceError:
            continue
        valid.append(raw.decode())
    assert len(valid) > 40
    page, watch = opened(context, address)
    page.evaluate(
        """async (texts) => {
          const { RunLog } = await import('/canopy/run_log.js');
          const { nodesTable, roundsTable } = await import('/canopy/tables.js');
          const { drawingOf } = await import('/canopy/pictures.js');
          const { explore } = canopy;
          for (const [number, text] of texts.entries()) {
            explore.open(RunLog.fromLines('mutated-' + number, text), 0);
            for (let round = 0; round < explore.log.rounds.length; round++) {
              explore.scrub(round);
              for (let node = 0; node < explore.log.rounds[round].tree.token.length; node += 5) explore.select(node);
              drawingOf(explore);
            }
            roundsTable(explore.log);
            nodesTable(explore.log);
          }
        }""",
        valid,
    )
    watch.check(address)

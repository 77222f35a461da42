"""Files out: tables, drawings and a page that replays alone, also of tokens that mean harm."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.browser import READY, Watch
from tests.workbench.test_page import HOSTILE, hostile_trace
from tests.workbench.visiting import (
    FORMULAS,
    events,
    imported,
    opened,
    saved,
)

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def hostile_text(folder: Path) -> str:
    lines = events(hostile_trace(folder).read_text(encoding="utf-8"))[:12]
    wild = [*HOSTILE, *FORMULAS, "]]>", "\ufffe\x00", '"', "\u2028", "x" * 10_000, "\U0001f333"]
    lines[0]["strategy"] = '=HYPERLINK("http://x")'
    texts = cycle(wild)
    for line in lines[1:]:
        line["pieces"] = {token: next(texts) for token in line["pieces"]} | {str(line["tree"]["token"][-1]): wild[0]}
        line["emitted_text"] = [next(texts) for _ in line["emitted"]]
        line["seconds"] |= {"=cmd|x": 0.1}
        line["decision"] = {"=1": "</script><script>window.pwned=1</script>"}
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def hostile(context, address, tmp_path) -> Any:
    page, watch = opened(context, address)
    imported(page, hostile_text(tmp_path), "<img src=x onerror=window.pwned=1>.jsonl")
    yield page
    page.evaluate("() => canopy.showTab('sessions')")
    page.wait_for_timeout(300)
    assert page.evaluate("() => window.pwned") is None
    assert page.locator(".cy-sessions img, .cy-sharing img, .cy-note img").count() == 0
    watch.check(address)


def test_tables_of_hostile_text_hold_no_formula(hostile):
    for kind in ("rounds", "nodes"):
        raw = saved(hostile, kind).decode("utf-8")
        rows = list(csv.reader(io.StringIO(raw, newline="")))
        assert len({len(row) for row in rows}) == 1, "every line has as many cells"
        numbers = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
        for value in (value for row in rows for value in row if not numbers.fullmatch(value)):
            assert not value.lstrip().startswith(("=", "+", "-", "@")), value
        texts = {row[rows[0].index("text")] for row in rows[1:]}
        assert any("'=1+1" in text for text in texts)
    log = [json.loads(line) for line in saved(hostile, "trace").splitlines()]
    nodes = sum(len(line["tree"]["token"]) for line in log if line["kind"] == "round")
    assert len(rows) == nodes + 1


def test_a_drawing_of_hostile_text_is_plain_svg(hostile):
    raw = saved(hostile, "drawing").decode("utf-8")
    root = ElementTree.fromstring(raw)
    kinds = {element.tag.partition("}")[2] for element in root.iter()}
    assert kinds == {"svg", "title", "desc", "rect", "path", "text"}
    assert not any(name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib)
    assert any("<img" in (element.text or "") for element in root.iter())
    assert saved(hostile, "picture")[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_drawing_has_what_the_canvas_has(context, address):
    page, _ = opened(context, address + "?run=welcome&round=7")
    root = ElementTree.fromstring(saved(page, "drawing"))
    drawn = {element.text for element in root.iter() if element.tag.endswith("text")}
    on_canvas = page.evaluate(
        """() => {
          const said = [];
          const { tree } = canopy.explore;
          const pen = tree.context;
          pen.fillText = (text) => said.push(text);
          tree.draw();
          delete pen.fillText;
          return said;
        }"""
    )
    assert drawn == set(on_canvas)
    place = page.evaluate("() => canopy.explore.tree.place(0)")
    assert f"M{place['x'] + 6.5:.2f}".rstrip("0").rstrip(".") in saved(page, "drawing").decode()


def test_the_stand_alone_page_replays_with_no_network(browser, hostile, tmp_path):
    hostile.evaluate("() => canopy.showTab('explore')")
    hostile.evaluate("() => canopy.explore.scrub(3)")
    path = tmp_path / "run.html"
    path.write_bytes(saved(hostile, "page"))
    text = path.read_text(encoding="utf-8")
    assert "connect-src" not in text
    assert "default-src 'none'" in text
    assert "<img src=x" not in text.partition("<body")[2]
    alone = browser.new_context(offline=True)
    page = alone.new_page()
    watch = Watch(page)
    page.goto(path.as_uri())
    page.wait_for_function(READY, timeout=30_000)
    page.evaluate("() => canopy.explore.ready")
    assert page.evaluate("() => canopy.explore.current") == 3
    page.keyboard.press("ArrowRight")
    assert page.inner_text("[data-part=position]") == "5"
    page.locator(".cy-canvas canvas").click(position=page.evaluate("() => canopy.explore.tree.place(0)"))
    assert "root" in page.inner_text("[data-part=nodeChips]")
    assert page.evaluate("() => window.pwned") is None
    assert page.locator("img, iframe").count() == 0
    refused = page.evaluate("() => fetch('https://example.com').then(() => false, () => true)")
    assert refused, "the page's own policy forbids requests"
    page.evaluate(
        "() => document.body.append(Object.assign(document.createElement('script'), { textContent: 'pwned = 1' }))"
    )
    assert page.evaluate("() => window.pwned") is None
    assert watch.hosts - {"", "example.com"} == set()
    assert all("Content Security Policy" in text for text in watch.complaints)
    alone.close()

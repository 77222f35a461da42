"""How fast the page is, in real Chromium: `python -m tests.workbench.bench_page [--quick] [CASE ...]`.

A table, and one JSON line last. Every figure stands beside the same measure on a page that does nothing, taken in the
same minute: on a loaded machine look at the ratio.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.workbench import bench_server
from tests.workbench.bench_visitors import visitors
from tests.workbench.browser import READY, chromium, served
from tests.workbench.page_timing import IDLE, Timing, repeated, table, timed_page
from tests.workbench.synthetic_trace import write_synthetic

SIZES = (64, 256, 1024)


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    events: int = 60
    rounds: int = 40
    long_run: int = 2000
    repeats: int = 5
    sessions: int = 20
    visitors: int = 50
    new_tokens: int = 128


QUICK = Effort(events=4, rounds=8, long_run=40, repeats=1, sessions=3, visitors=3, new_tokens=8)


class PageBench:
    """Cases over one page whose server only waits: everything measured happens in the browser."""

    def __init__(self, browser: Any, address: str, folder: Path, effort: Effort) -> None:
        self.browser, self.folder, self.effort = browser, folder, effort
        self.idle = timed_page(browser, IDLE)
        self.page = timed_page(browser, address)
        self.page.wait_for_function(READY, timeout=120_000)
        self.page.evaluate(
            "document.body.append(Object.assign(document.createElement('input'), "
            "{ type: 'file', id: 'bench-file', hidden: true }))"
        )

    def open(self, rounds: int, nodes: int) -> float:
        """Opens a made-up run; gives the milliseconds from the chosen file to its first frame."""
        path = self.folder / f"{rounds}x{nodes}.jsonl"
        if not path.exists():
            write_synthetic(path, rounds, nodes)
        self.page.set_input_files("#bench-file", [])
        opened = self.page.evaluate_handle("() => ({ done: timing.openFile(document.querySelector('#bench-file')) })")
        self.page.set_input_files("#bench-file", path)
        return float(opened.evaluate("(opened) => opened.done"))

    def _both(self, name: str, event: str, act: Callable[[Any, int], None], target: float) -> Timing:
        count = self.effort.events
        idle = repeated(self.idle, event, lambda number: act(self.idle, number), count)
        return Timing(name, repeated(self.page, event, lambda number: act(self.page, number), count), idle, target)

    def _scrub(self, page: Any, number: int) -> None:
        there = number // (self.effort.rounds - 1) % 2 == 0
        page.keyboard.press("ArrowRight" if there else "ArrowLeft")

    def scrub(self) -> Iterator[Timing]:
        for nodes in SIZES:
            self.open(self.effort.rounds, nodes)
            self.page.bring_to_front()
            yield self._both(f"scrub, {nodes} nodes", "keydown", self._scrub, 20)

    def _places(self) -> list[dict[str, float]]:
        """Points on nodes that stand far enough apart, in CSS pixels of the page."""
        return list(
            self.page.evaluate("""() => {
            const { tree } = canopy.explore, box = tree.canvas.getBoundingClientRect(), kept = [];
            for (let node = 1; node < tree.plan.total; node += Math.ceil(tree.plan.total / 97)) {
              const { x, y } = tree.place(node);
              if (tree.at(x, y) === node) kept.push({ x: box.x + x, y: box.y + y });
            }
            return kept;
        }""")
        )

    def pointer(self) -> Iterator[Timing]:
        for nodes in SIZES:
            self.open(self.effort.rounds, nodes)
            places = self._places()

            def move(page: Any, number: int, places: list[dict[str, float]] = places) -> None:
                at = places[number % len(places)]
                page.mouse.move(at["x"], at["y"])

            def click(page: Any, number: int, places: list[dict[str, float]] = places) -> None:
                at = places[number % len(places)]
                page.mouse.click(at["x"], at["y"])

            yield self._both(f"hover, {nodes} nodes", "pointermove", move, 16)
            yield self._both(f"click to detail panel, {nodes} nodes", "pointerup", click, 150)

    def long(self) -> Iterator[Timing]:
        rounds = self.effort.long_run
        took = [self.open(rounds, 64) for _ in range(self.effort.repeats)]
        yield Timing(f"open {rounds} rounds of 64 nodes", took, [], 2000)
        self.page.evaluate("() => canopy.explore.scrub(Math.floor(canopy.explore.log.rounds.length / 2))")
        yield self._both(f"scrub, {rounds} rounds of 64 nodes", "keydown", self._scrub, 20)


def in_page(names: list[str], browser: Any, folder: Path, effort: Effort) -> Iterator[Timing]:
    with served() as address:
        bench = PageBench(browser, address, folder, effort)
        for name in names:
            yield from getattr(bench, name)()


IN_PAGE = ("scrub", "pointer", "long")
ON_SERVER = {
    "cold": bench_server.cold,
    "sessions": bench_server.sessions,
    "streaming": bench_server.streaming,
    "visitors": visitors,
}


def measure(cases: list[str], effort: Effort) -> list[dict[str, Any]]:
    """All rows of the chosen cases."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for timing in in_page([c for c in IN_PAGE if c in cases], browser, Path(folder), effort):
            rows.append(timing.row())
            print(rows[-1], file=sys.stderr, flush=True)
        for name, case in ON_SERVER.items():
            if name in cases:
                for row in case(browser, effort):
                    rows.append(row)
                    print(row, file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*IN_PAGE, *ON_SERVER, []], help="which; all where none is named")
    parser.add_argument("--quick", action="store_true", help="a few samples of each, to see that it works")
    args = parser.parse_args()
    rows = measure(args.cases or [*IN_PAGE, *ON_SERVER], QUICK if args.quick else Effort())
    print(table(rows))
    print(json.dumps({"benchmark": "page", "unit": "ms", "rows": rows}))


if __name__ == "__main__":
    main()

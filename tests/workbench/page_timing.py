"""Timing a page in real Chromium: real input events, from their timestamp to the frame after them."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_suffix(".js")
IDLE = "data:text/html,<title>idle</title><body><input type=range min=0 max=1000><canvas width=800 height=500>"


@dataclass(frozen=True)
class Timing:
    """A row of the table: milliseconds, beside the same measure on a page that does nothing."""

    name: str
    samples: list[float]
    idle: list[float]
    target: float | None = None
    """What the median should be at most."""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def p95(self) -> float:
        return percentile(self.samples, 0.95)

    def row(self) -> dict[str, float | str | int | None]:
        """As plain values; `ratio` is over the idle page."""
        idle = statistics.median(self.idle) if self.idle else None
        return {
            "name": self.name,
            "median": round(self.median, 1),
            "p95": round(self.p95, 1),
            "worst": round(max(self.samples), 1),
            "idle": None if idle is None else round(idle, 1),
            "ratio": round(self.median / idle, 2) if idle else None,
            "count": len(self.samples),
            "target": self.target,
        }


def percentile(samples: list[float], share: float) -> float:
    """The smallest sample that at least `share` of them do not exceed."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as text, aligned."""
    columns = ["name", "median", "p95", "worst", "idle", "ratio", "count", "target"]
    cells = [columns, *([("—" if row[c] is None else str(row[c])) for c in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return "\n".join(
        "  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True)))
        for line in cells
    )


def timed_page(browser: Any, address: str, **options: Any) -> Any:
    """A page with the clock in it."""
    page = browser.new_context(**({"viewport": {"width": 1440, "height": 900}} | options)).new_page()
    page.add_init_script(path=SCRIPT)
    page.goto(address)
    if address == IDLE:
        page.add_script_tag(path=SCRIPT)
    return page


def repeated(page: Any, event: str, act: Callable[[int], None], count: int, warm: int = 3) -> list[float]:
    """Milliseconds from each `event` that `act` causes to the frame after it; the `warm` first ones are left out."""
    page.evaluate("(type) => timing.watch(type)", event)
    for number in range(count + warm):
        act(number)
        page.evaluate("() => timing.settled()")
        if number == warm - 1:  # the first ones compile what is drawn with
            page.evaluate("() => timing.take()")
    return list(page.evaluate("() => timing.take()"))

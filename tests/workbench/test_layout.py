"""Every tab at every width, light and dark: nothing scrolls sideways. Screenshots are kept in `artefacts/pages`."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.browser import Watch, served
from tests.workbench.visiting import ROWS, SHORT, imported, listed, opened, prompted

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PICTURES = Path(__file__).parents[2] / "artefacts" / "pages"
WIDTHS = (390, 768, 1440, 2560)
PICTURED = (390, 1440)


@pytest.fixture(scope="module")
def replay() -> Iterator[str]:
    with served(pause=0.001) as found:
        yield found


@pytest.fixture(scope="module", params=["light", "dark"])
def page(request: Any, browser: Any, replay: str) -> Iterator[Any]:
    """One page for all states of a colour scheme: opened wide in the light, narrow in the dark."""
    width = 1440 if request.param == "light" else 390
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=request.param)
    made, watch = opened(context, replay)
    made.scheme = request.param
    yield made
    Watch.check(watch, replay)
    context.close()


def view(name: str) -> Callable[[Any], None]:
    def show(page: Any) -> None:
        page.evaluate("async (name) => { await canopy.showTab('explore'); canopy.explore.showView(name); }", name)

    return show


def what_if(page: Any) -> None:
    view("tree")(page)
    page.evaluate("() => canopy.explore.part.whatToggle.click()")
    page.select_option("[data-part=whatStrategy]", "dynatree")
    page.get_by_text("Settings of this strategy").click()


def tab(name: str) -> Callable[[Any], None]:
    return lambda page: page.evaluate("async (name) => { await canopy.showTab(name); }", name)


def recorded(page: Any) -> None:
    tab("compare")(page)
    page.wait_for_function("() => canopy.compare.comparisons.recorded")


def compared(page: Any) -> None:
    tab("compare")(page)
    page.wait_for_function("() => canopy.compare.setup.ways.length && !canopy.compare.part.run.disabled")
    page.locator(".cy-go").click()
    page.wait_for_function("() => !canopy.compare.running && canopy.compare.comparisons.own", timeout=60_000)


def lesson(number: int) -> Callable[[Any], None]:
    def show(page: Any) -> None:
        tab("learn")(page)
        page.evaluate("async (number) => { await canopy.learn.go(number, 1); }", number)

    return show


def kept(page: Any) -> None:
    imported(page, prompted(SHORT, "long " * 200), "a rather long name of a file " * 6 + ".jsonl")
    listed(page, page.locator(ROWS).count())


def share(page: Any) -> None:
    view("tree")(page)
    page.locator(".cy-explore [data-part=share]").click()
    page.wait_for_function("() => document.querySelector('[data-part=link]')?.value")


STATES: dict[str, Callable[[Any], None]] = {
    "explore": view("tree"),
    **{f"explore-{name}": view(name) for name in ("mass", "marginals", "mask", "table")},
    "what-if": what_if,
    "compare": recorded,
    "compare-finished": compared,
    **{f"learn-{number + 1}": lesson(number) for number in range(8)},
    "models": tab("models"),
    "sessions": kept,
    "share": share,
}


@pytest.mark.parametrize("state", STATES)
def test_nothing_scrolls_sideways(page: Any, state: str) -> None:
    page.keyboard.press("Escape")
    STATES[state](page)
    PICTURES.mkdir(parents=True, exist_ok=True)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)))")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        for row in page.locator(f"{ROWS} .cy-run-actions:visible").all():
            assert row.evaluate("(row) => row.scrollWidth <= row.clientWidth + 1"), "no button is cut off"
        if width in PICTURED:
            page.screenshot(path=PICTURES / f"{state}-{width}-{page.scheme}.png")

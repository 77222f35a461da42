"""One browser and one served page for a module's tests, and a visitor of their own for each."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.workbench.browser import chromium, served


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def replay() -> Iterator[str]:
    """As `address`, with runs that take a moment for each round."""
    with served(pause=0.03) as found:
        yield found


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    made = browser.new_context(viewport={"width": 1440, "height": 900})
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _pages_are_closed(request: pytest.FixtureRequest) -> Iterator[None]:
    """An open page costs a twentieth of a core: what a test has opened goes with it."""
    if "browser" not in request.fixturenames:
        yield
        return
    browser = request.getfixturevalue("browser")
    shared = set(browser.contexts)
    yield
    for context in set(browser.contexts) - shared:
        context.close()

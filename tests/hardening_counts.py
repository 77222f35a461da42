"""How often the hardening tests try: a little in every run, in full with `-m hardening`, which prints the counts."""

from collections.abc import Callable
from typing import Any

import pytest

Effort = Callable[[int, int], int]
Tally = Callable[[str], None]
NAME = "hardening"


@pytest.fixture(scope="session")
def effort(pytestconfig: pytest.Config) -> Effort:
    """`effort(full, few)`: how many tries there are to be."""
    in_full = pytestconfig.getoption("markexpr") == NAME
    return lambda full, few: full if in_full else few


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """Notes a count for the summary; a note travels with its test's report, also from another process."""
    return lambda text: request.node.user_properties.append((NAME, text))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the notes where they were asked for; a test that noted nothing stands with its name."""
    if terminalreporter.config.getoption("markexpr") != NAME:
        return
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    notes = [
        (report.nodeid.rpartition("/")[2], text, report.outcome)
        for report in reports
        if getattr(report, "when", "") == "call"
        for text in [text for name, text in report.user_properties if name == NAME] or [_said(report.nodeid)]
    ]
    terminalreporter.section("hardening")
    for test, text, outcome in sorted(notes):
        terminalreporter.write_line(f"{outcome}: {text}  [{test}]")


def _said(nodeid: str) -> str:
    """`a/test_b.py::test_a_full_disk[x]`: "a full disk"."""
    return nodeid.rpartition("::")[2].partition("[")[0].removeprefix("test_").replace("_", " ")

"""The benchmark of the page yields numbers. What they are depends on the machine, so no limit is set here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workbench.bench_page import QUICK, measure
from tests.workbench.page_timing import percentile, table

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ROOT = Path(__file__).parents[2]


def test_in_the_page():
    rows = measure(["scrub", "pointer", "long"], QUICK)
    assert len(rows) == 11
    assert all(row["median"] > 0 and row["count"] >= 1 for row in rows)
    assert all(row["idle"] is None or row["idle"] > 0 for row in rows)
    assert len(table(rows).splitlines()) == 12


@pytest.mark.embedded
@pytest.mark.timeout(1800)
def test_with_a_server_that_decodes():
    rows = measure(["cold", "sessions", "streaming", "visitors"], QUICK)
    assert [row["median"] > 0 for row in rows] == [True] * 6


def test_the_last_line_is_json():
    command = [sys.executable, "-m", "tests.workbench.bench_page", "scrub", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["rows"][0]["name"] == "scrub, 64 nodes"


def test_percentiles():
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0] * 19 + [9.0], 0.95) == 9.0
    assert percentile([5.0], 0.95) == 5.0

"""Ten thousand traces with something wrong: each is refused by its line, or is a trace that can be written again."""

import io
import json
from random import Random

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from decoding.errors import TraceError
from decoding.trace import Trace, dump_line, parse_trace
from tests.hardening.short_run import short_lines
from tests.hardening_counts import Effort, Tally
from tests.mutated_traces import mutated
from tests.workbench.forged import INSIDE
from tests.workbench.replay_engine import ReplayEngine
from workbench.run_routes import run_routes
from workbench.services import Services

pytestmark = pytest.mark.hardening
EVERY = 10
"""One of so many is also uploaded."""


def read(raw: bytes) -> tuple[Trace | None, str]:
    try:
        return parse_trace(io.BytesIO(raw)), "valid"
    except TraceError as error:
        return None, error.message


@pytest.mark.timeout(1200)
def test_mutated_traces_are_refused_by_line_or_valid(effort: Effort, tally: Tally) -> None:
    lines = short_lines(rounds=2)
    client = TestClient(Starlette(routes=run_routes(Services(ReplayEngine()))))
    tries = effort(10_000, 300)
    valid = uploads = 0
    for seed in range(tries):
        raw = mutated(lines, Random(seed))
        trace, refusal = read(raw)
        assert refusal.startswith(("Line ", "The trace is empty", "valid")), (seed, refusal)
        if trace is not None:
            valid += 1
            for line in trace.lines:
                dump_line(line).encode()
        if seed % EVERY == 0:
            uploads += 1
            answer = client.post("/canopy/runs", content=raw, headers={"x-canopy-visitor": f"{seed:032x}"})
            assert answer.status_code == (200 if trace is not None else 400), (seed, answer.text)
            assert not INSIDE.search(answer.text), (seed, answer.text)
            if trace is not None:
                given = client.get(f"/canopy/runs/{answer.json()['id']}")
                assert [json.loads(line) for line in given.content.splitlines()] == list(trace.lines)
                assert "sandbox" in given.headers["content-security-policy"]
    assert 0.03 * tries < valid < 0.6 * tries
    tally(f"{tries:,} mutated traces: {tries - valid:,} refused by line, {valid:,} valid; {uploads:,} of them uploaded")

"""Measured costs: a monotone table, kept for what it was measured on, and measured in seconds."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding import cost_probe
from decoding.cost_probe import cost_key, measure, round_costs
from decoding.drafters.base import Observation
from decoding.round_costs import RoundCosts, isotonic
from decoding.target import Target
from tests.decoding.strategies.scripted import Scripted
from tests.decoding.test_lossless import PROMPT, Oracle, plain_greedy, run
from tests.tiny_models import tiny_target

TABLE = RoundCosts((100, 300), (1, 4, 8), [[10, 16, 20], [20, 26, 40]], [2, 4])


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CANOPY_CACHE", str(tmp_path / "cache"))
    cost_probe._measured.clear()
    return tmp_path / "cache"


@given(st.lists(st.floats(0.1, 100), max_size=12))
def test_isotonic_regression(values: list[float]) -> None:
    """Against the max-min formula of the pooled means."""
    got = isotonic(np.array(values))
    expected = [
        max(min(np.mean(values[a : b + 1]) for b in range(i, len(values))) for a in range(i + 1))
        for i in range(len(values))
    ]
    np.testing.assert_allclose(got, expected, rtol=1e-9)
    assert (np.diff(got) >= 0).all()


def test_between_and_beyond_the_points() -> None:
    np.testing.assert_allclose(TABLE.verify(100, 7), [10, 12, 14, 16, 17, 18, 19, 20])
    np.testing.assert_allclose(TABLE.verify(200, 7), [15, 17, 19, 21, 23.25, 25.5, 27.75, 30])
    np.testing.assert_allclose(TABLE.verify(20, 1), [10, 12], err_msg="below the first context that counts")
    np.testing.assert_allclose(TABLE.verify(500, 0), [30])
    assert [TABLE.draft(context) for context in (0, 100, 200, 400)] == [2, 2, 3, 5]
    assert TABLE.max_nodes == 7
    with pytest.raises(ValueError, match="not measured"):
        TABLE.verify(100, 8)


@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 10**6), st.integers(0, 5000))
def test_costs_never_fall(contexts: int, nodes: int, seed: int, context: int) -> None:
    rng = np.random.default_rng(seed)
    measured = rng.uniform(1, 100, (contexts, nodes))
    table = RoundCosts.fitted(
        tuple(np.cumsum(rng.integers(1, 900, contexts)).tolist()),
        (1, *np.cumsum(rng.integers(2, 60, nodes - 1)).tolist()),
        measured,
        rng.uniform(0, 9, contexts),
    )
    row = table.verify(context, table.max_nodes)
    assert (np.diff(row) >= -1e-9).all()
    assert (table.verify(context + 700, table.max_nodes) >= row - 1e-9).all()
    assert table.draft(context + 700) >= table.draft(context)
    assert table.verify_ms.sum() == pytest.approx(measured.sum())


@pytest.mark.parametrize(
    "change",
    [
        {"contexts": (300, 100)}, {"nodes": (2, 4, 8)}, {"nodes": (1, 4)}, {"draft_ms": [1, -1]},
        {"verify_ms": [[10, 9, 20], [20, 26, 40]]}, {"verify_ms": [[10, 16, 20], [9, 26, 40]]},
        {"verify_ms": [[0, 16, 20], [20, 26, 40]]}, {"verify_ms": [[10, 16, np.nan], [20, 26, 40]]},
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        replace(TABLE, **change)


def test_it_is_measured_once(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    target, drafter = tiny_target("llama"), Oracle([])
    asked, said = [], []

    def measured(*parts: object) -> RoundCosts:
        asked.append(parts)
        return TABLE

    monkeypatch.setattr(cost_probe, "measure", measured)
    monkeypatch.setattr(cost_probe, "plain_step", lambda *_: 9.0)
    for again in range(3):
        if again == 2:
            cost_probe._measured.clear()  # as a new process
        costs = round_costs(target, drafter, said.append)
        np.testing.assert_array_equal(costs.verify_ms, TABLE.verify_ms)
    assert len(asked) == 1
    assert len(said) == 2
    assert "4 nodes 16.0 ms" in said[1]
    round_costs(target, None)
    assert len(asked) == 2, "other drafter, other costs"
    assert len(list(empty_cache.rglob("*.json"))) == 2


def test_what_was_measured_on_a_busy_machine_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    target = tiny_target("llama")
    slow = replace(TABLE, contexts=(1, 2), verify_ms=TABLE.verify_ms * 1e4)
    monkeypatch.setattr(cost_probe, "measure", lambda *_: TABLE)
    for kept, expected in ((slow, TABLE), (replace(slow, verify_ms=TABLE.verify_ms * 1e-4), None)):
        cost_probe._measured.clear()
        cost_key(target, None).save(kept)
        np.testing.assert_allclose(round_costs(target, None).verify_ms, (expected or kept).verify_ms, rtol=1e-3)


@pytest.mark.parametrize(
    "damage",
    ["", "[]", "{", '{"version": 99}', None, {"threads": 77}, {"dtype": "bfloat16"}, {"nodes": [1, "x", 8]},
     {"verify_ms": [[1, 2, 3], [3, 2, 1]]}],
)  # fmt: skip
def test_what_cannot_be_used_is_measured_again(damage: object) -> None:
    key = cost_key(tiny_target("llama"), None)
    assert key.load() is None
    key.save(TABLE)
    found = key.load()
    assert found is not None
    assert found.as_json() == TABLE.as_json()
    if isinstance(damage, dict):
        key.path.write_text(json.dumps({**json.loads(key.path.read_text()), **damage}))
    elif damage is None:
        key.path.write_bytes(b"\xff" * 100)
    else:
        key.path.write_text(str(damage))
    assert key.load() is None


def test_other_circumstances_are_another_file() -> None:
    key = cost_key(tiny_target("llama"), None)
    changes = {"threads": 77, "torch": "9.9", "device": "abacus", "dtype": "int8", "drafter": "d", "target": "t"}
    others = [replace(key, **{name: value}) for name, value in changes.items()]
    assert len({other.path for other in [key, *others]}) == 7


def test_a_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CANOPY_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(cost_probe, "measure", lambda *_: TABLE)
    said: list[str] = []
    assert round_costs(tiny_target("llama"), None, said.append) is TABLE
    assert "cannot be kept" in said[-1]


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt-neox"])
def test_measuring_a_real_model(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All points are there, the plain step is the cheapest, and nothing is left behind."""
    monkeypatch.setattr(cost_probe, "DEAREST", math.inf)  # on a busy machine any pass may seem dear
    target = tiny_target(family, max_position_embeddings=2500)
    costs = measure(target, Oracle([]), seconds=1.0)
    assert costs.contexts[0] == 64
    assert costs.nodes == cost_probe.NODES[: max(len(costs.nodes), cost_probe.LEAST_POINTS)], "time may be short"
    assert costs.verify_ms[0, -1] > costs.verify_ms[0, 0] > 0
    assert (costs.draft_ms > 0).all()
    assert not measure(target, Scripted({}), seconds=0.2).draft_ms.any()
    assert list(run(target, None, "ar")[2].output_ids) == plain_greedy(target, PROMPT, 28)


@pytest.mark.parametrize(("hiccups", "points"), [(1, len(cost_probe.NODES)), (2, cost_probe.NODES.index(8) + 1)])
def test_one_hiccup_does_not_end_the_table(hiccups: int, points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees of 8 nodes take a hundred times as long, but only so often: what is dear is measured once more."""
    asked: list[int] = []

    def verified(_: object, count: int) -> float:
        asked.append(count)
        slow = count == 8 and 1 < asked.count(8) <= 1 + hiccups  # the very first pass is not counted anyway
        return 1000.0 if slow else 10.0

    monkeypatch.setattr(cost_probe, "_verify", verified)
    costs = measure(tiny_target("llama", max_position_embeddings=2500), None)
    assert len(costs.nodes) == points


def test_passes_are_made_where_least_time_was_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small trees are measured more often than large ones, and none more often than it needs."""
    now = [0.0]

    def verified(_: object, count: int) -> float:
        now[0] += count
        return float(count)

    monkeypatch.setattr(cost_probe, "_verify", verified)
    monkeypatch.setattr(cost_probe, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    nodes = (1, 4, 8, 16)
    row = cost_probe._Row(tiny_target("llama").open(8, 1), [[float(count)] for count in nodes])
    cost_probe._measure_on([row], nodes, 100.0)
    assert [len(passes) for passes in row.passes] == [cost_probe.PASSES, 9, 5, 3]


def test_a_model_of_short_context() -> None:
    costs = measure(tiny_target("qwen3", max_position_embeddings=40), None, seconds=0.2)
    assert costs.contexts == (1,)
    assert costs.nodes[-1] <= 39


def test_taps_are_measured_too() -> None:
    """A drafter that reads hidden states gets features of the right width."""

    widths = set()

    class Tapped(Oracle):
        taps = (1, 3)

        def observe(self, observation: Observation) -> None:
            super().observe(observation)
            assert observation.features is not None
            widths.add(observation.features.shape[1])

    target: Target = tiny_target("llama")
    measure(target, Tapped([]), seconds=0.2)
    assert widths == {64}

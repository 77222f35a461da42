"""What-if's arithmetic in the browser, judged by the Python core: the same trees, lengths, curves and calibration."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoding.bench.calibration import Calibration
from decoding.bench.marginals_as_steps import MarginalsAsSteps
from decoding.drafters.base import Observation, OnePassDrafter
from decoding.settings import options_of
from decoding.strategies import STRATEGIES, make_strategy
from decoding.strategies.best_first import best_prefixes
from decoding.strategies.ddtree import tree_of
from decoding.strategies.graft_gates import DEFAULT_BLOCK_THRESHOLD, PAPER_THRESHOLDS
from decoding.trace import Trace, read_trace
from decoding.tree import accepted_path, cumulative_logprob
from decoding.types import Marginals, Tree
from tests.workbench.browser import chromium
from tests.workbench.replay_engine import WELCOME

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ONE_PASS = ("ddtree", "linear", "graft-block")
LAYERED = ("fixed", "recycle", "eagle", "dynatree", "opt_tree", "ddd", "echo", "graft")
PLANNERS = (*ONE_PASS, *LAYERED)
BEYOND_MARGINALS: dict[str, dict[str, object]] = {
    "graft": {"retrieve": False},
    "graft-block": {"retrieve": False},
    "dynatree": {"history": False},
}
"""What is switched off because no marginals decide it."""
RECORDED_RANKS = 12
STATIC = WELCOME.parents[1]

PLAN = """async ({ cases }) => {
  const [{ PLANNERS, expectedAccepted }, { Rows }] =
    await Promise.all([import("/canopy/whatif/planners.js"), import("/canopy/whatif/rows.js")]);
  return cases.map(({ name, marginals, settings, root, depth }) => {
    const plan = PLANNERS[name].plan(new Rows(marginals, depth), root, settings);
    return { token: plan.token, parent: plan.parent, expected: expectedAccepted(plan) };
  });
}"""
GROWTH = """async ({ cases }) => {
  const [{ growthByBudget }, { Rows }] =
    await Promise.all([import("/canopy/whatif/heap.js"), import("/canopy/whatif/rows.js")]);
  return cases.map(({ marginals, coming, most }) => {
    const growth = growthByBudget(new Rows(marginals), coming, most);
    return { ...growth, limit: growth.limit === Infinity ? null : growth.limit };
  });
}"""
ANSWERS = """async ({ text, budgets }) => {
  const [{ RunLog }, { Ground, answer }, { PLANNERS, defaults }] = await Promise.all([import("/canopy/run_log.js"),
    import("/canopy/whatif/question.js"), import("/canopy/whatif/planners.js")]);
  const log = RunLog.fromLines("judged", text);
  return log.rounds.map((_, index) => {
    const ground = new Ground(log, index, 128);
    return Object.keys(PLANNERS).flatMap((name) => budgets.map((budget) => {
      const { plan, expected, accepted, atLeast, notes } = answer(ground, name, defaults(name), budget);
      return { name, budget, token: plan?.token, parent: plan?.parent, expected, accepted, atLeast, notes };
    }));
  });
}"""


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    """The modules alone, with no page around them: they need neither Gradio nor a server."""
    with chromium() as browser:
        page = browser.new_page()
        page.route("**/*", lambda route: route.fulfill(path=STATIC / route.request.url.split("/canopy/")[1]))
        page.goto("http://static.test/canopy/top.html")
        yield page


class Given(OnePassDrafter):
    """Marginals that were written down."""

    name = "given"
    vocab_size = 1000

    def __init__(self, marginals: Marginals) -> None:
        self.given = marginals
        self.positions = len(marginals.token)

    def begin(self, capacity: int) -> None: ...

    def observe(self, observation: Observation) -> None: ...

    def marginals(self, root: int, k: int) -> Marginals:
        return Marginals(self.given.token[:, :k], self.given.logprob[:, :k])


def planned(name: str, marginals: Marginals, settings: dict[str, Any], root: int, depth: int) -> Tree:
    """The Python strategy's tree over these marginals."""
    drafter = Given(marginals)
    strategy = make_strategy(name, settings | BEYOND_MARGINALS.get(name, {}))
    return strategy.grow(drafter if name in ONE_PASS else MarginalsAsSteps(drafter, 1024), root, depth).tree


def expected_accepted(tree: Tree) -> float:
    score = np.zeros(len(tree))
    for node in range(1, len(tree)):
        score[node] = score[tree.parent[node]] + float(tree.logprob[node])
    return float(np.exp(score[1:]).sum())


def random_marginals(rng: np.random.Generator, positions: int, vocab: int, kind: str) -> Marginals:
    """Rows that fall; `ties` has few different values, `holes` impossible tokens."""
    logit = rng.normal(size=(positions, vocab)) * rng.uniform(1, 4)
    if kind == "ties":
        logprob = -rng.integers(1, 6, size=(positions, vocab)) / 2
    else:
        logprob = np.round(logit - np.log(np.exp(logit).sum(axis=1, keepdims=True)), 5)
    logprob = -np.sort(-logprob, axis=1)
    if kind == "holes":
        logprob[:, rng.integers(1, vocab) :] = -np.inf
    token = np.stack([rng.permutation(vocab) for _ in range(positions)])
    return Marginals(token.astype(np.int32), logprob.astype(np.float32))


def as_json(marginals: Marginals, ranks: int | None = None) -> dict[str, Any]:
    logprob = marginals.logprob.astype(np.float64)[:, :ranks]
    return {
        "token": marginals.token[:, :ranks].tolist(),
        "logprob": [[value if np.isfinite(value) else None for value in row] for row in logprob.tolist()],
    }


def random_settings(rng: np.random.Generator, name: str) -> dict[str, Any]:
    """Settings all over the place, of those that the page offers."""
    budget = int(rng.choice([1, 2, 3, 7, 16, 40, 90]))
    if name in ("ddtree", "recycle"):
        return {"budget": budget}
    if name in ("linear", "graft-block"):
        chosen: dict[str, Any] = {"budget": min(budget, 64)}
        return chosen | ({"tau_block": float(rng.choice([0.05, 0.3, 0.6]))} if name == "graft-block" else {})
    depth, width = int(rng.integers(1, 8)), int(rng.integers(1, 9))
    pick = lambda *values: float(rng.choice(values))  # noqa: E731
    return {"budget": budget} | {
        "fixed": {"depth": depth, "branching": width, "threshold": pick(0, 0.01, 0.1)},
        "eagle": {"depth": depth - 1, "top_k": width},
        "opt_tree": {"depth": depth, "threshold": pick(0, 0.05, 0.5)},
        "ddd": {
            "depth": depth,
            "width": width,
            "first_check": int(rng.integers(1, 4)),
            "check_every": int(rng.integers(1, 3)),
            "last_check": 9,
            "threshold": pick(-5, -1, -0.3),
        },
        "echo": {
            "depth": depth,
            "width": width,
            "root_threshold": pick(0, 0.2),
            "shallow_gate": 1,
            "shallow_threshold": pick(0.01, 0.2),
            "deep_gate": int(rng.integers(1, 5)),
            "deep_threshold": pick(0.01, 0.3),
        },
        "graft": {"depth": depth, "width": width, "tau_d0": pick(0, 0.2), "tau_d1": pick(0.01, 0.2), "tau_d5": 0.001},
        "dynatree": {
            "root_width": int(rng.integers(0, 4)),
            "high_confidence": pick(0.5, 0.9),
            "low_confidence": pick(0.1, 0.4),
            "min_branches": 1,
            "mid_branches": 2,
            "max_branches": int(rng.integers(2, 9)),
            "base_depth": int(rng.integers(1, 5)),
            "max_depth": int(rng.integers(5, 9)),
            "stop_below": pick(0, 0.01, 0.1),
            "deep_above": pick(0.2, 0.5),
            "prune_below": pick(0, 0.005, 0.05),
        },
    }[name]


@pytest.mark.parametrize("name", PLANNERS)
def test_random_marginals_give_the_tree_of_the_python_strategy(page: Any, name: str) -> None:
    rng = np.random.default_rng(sum(name.encode()))
    cases, trees = [], []
    for trial in range(90):
        kind = ("plain", "ties", "holes")[trial % 3]
        marginals = random_marginals(rng, int(rng.integers(1, 9)), int(rng.choice([9, 30, 120])), kind)
        settings, depth = random_settings(rng, name), int(rng.integers(0, 10))
        trees.append(planned(name, marginals, settings, 7, depth))
        cases.append({"name": name, "marginals": as_json(marginals), "settings": settings, "root": 7, "depth": depth})
    for case, plan, tree in zip(cases, page.evaluate(PLAN, {"cases": cases}), trees, strict=True):
        assert plan["token"] == tree.token.tolist(), case["settings"]
        assert plan["parent"] == tree.parent.tolist(), case["settings"]
        assert plan["expected"] == pytest.approx(expected_accepted(tree), abs=1e-6)
    assert len({len(tree) for tree in trees}) > 3


def test_up_to_its_limit_a_cut_record_gives_the_tree_of_the_whole(page: Any) -> None:
    """Lemma 1 gives as many nodes as ranks; until a last recorded rank is popped, the record decides more."""
    rng = np.random.default_rng(5)
    wholes = [random_marginals(rng, 6, 60, "ties" if trial % 2 else "plain") for trial in range(40)]
    coming = [[int(row[rng.integers(0, 2)]) for row in whole.token] for whole in wholes]
    cases = [
        {"marginals": as_json(whole, RECORDED_RANKS), "coming": text, "most": 500}
        for whole, text in zip(wholes, coming, strict=True)
    ]
    further = 0
    for whole, text, growth in zip(wholes, coming, page.evaluate(GROWTH, {"cases": cases}), strict=True):
        limit = growth["limit"]
        assert limit >= RECORDED_RANKS
        assert growth["most"] == limit
        further += limit > RECORDED_RANKS
        for budget in range(1, limit + 1):
            prefixes = best_prefixes(whole.logprob, budget)
            tree = tree_of(7, whole, prefixes)
            assert growth["expected"][budget] == pytest.approx(float(np.exp(prefixes.score).sum()), abs=1e-6)
            assert growth["accepted"][budget] == len(accepted_path(tree, text)) - 1
        for held, least in enumerate(growth["reached"], start=1):
            assert growth["accepted"][least] == held
            assert growth["accepted"][least - 1] == held - 1
    assert further > 10


def room(trace: Trace) -> Iterator[tuple[int, int]]:
    """For every round how many tokens were written, and the deepest tree that the loop would have allowed."""
    written = 1
    for item in trace.rounds:
        yield written, trace.header.max_new_tokens - written - 1
        written += len(item.emitted)


def test_every_strategy_on_the_recorded_run_is_that_of_the_python_core(page: Any) -> None:
    trace, budgets = read_trace(WELCOME), [1, 2, 5, 12, 32]
    assert trace.summary is not None
    text = WELCOME.read_text(encoding="utf-8")
    answers = page.evaluate(ANSWERS, {"text": text, "budgets": budgets})
    lengths = set()
    for item, (written, depth), answered in zip(trace.rounds, room(trace), answers, strict=True):
        coming, root = trace.summary.output_ids[written:], int(item.tree.token[0])
        assert item.marginals is not None
        assert len(answered) == len(PLANNERS) * len(budgets)
        for found in answered:
            name, budget = found["name"], found["budget"]
            given = _page_defaults(name) | {"budget": budget}
            tree = planned(name, item.marginals, given, root, depth)
            assert (found["token"], found["parent"]) == (tree.token.tolist(), tree.parent.tolist()), (name, budget)
            assert found["expected"] == pytest.approx(expected_accepted(tree), abs=1e-6)
            assert found["accepted"] == len(accepted_path(tree, coming)) - 1
            assert not found["atLeast"]
            lengths.add((name, found["accepted"]))
        recorded = next(f for f in answered if f["name"] == "ddtree" and f["budget"] == 32)
        assert recorded["token"] == item.tree.token.tolist(), "the recorded tree itself"
        assert recorded["accepted"] == item.accepted
    assert len(lengths) > len(PLANNERS)


def _page_defaults(name: str) -> dict[str, Any]:
    if name == "graft":
        return dict(PAPER_THRESHOLDS)
    return {"tau_block": DEFAULT_BLOCK_THRESHOLD} if name == "graft-block" else {}


def test_the_settings_are_those_that_the_strategies_declare(page: Any) -> None:
    declared = page.evaluate(
        "async () => Object.entries((await import('/canopy/whatif/planners.js')).PLANNERS)"
        ".map(([name, { settings }]) => [name, settings])"
    )
    assert {name for name, _ in declared} == set(PLANNERS)
    for name, settings in declared:
        options = options_of(STRATEGIES[name].settings_class)
        for key, shown in settings.items():
            option = options[key]
            if option.default == -1:  # not given: the page takes the paper's, which are what the core falls back to
                assert (shown["value"], shown["low"], shown["high"]) == (_page_defaults(name)[key], 0, 1)
            else:
                assert (shown["value"], shown["low"], shown["high"]) == (option.default, option.low, option.high), key
            assert (shown["step"] == 1) == isinstance(option.default, int)


def test_where_the_record_ends_it_says_at_least(page: Any) -> None:
    """Cut off behind a round that accepted all it could, the record cannot tell how far a chain would have gone."""
    lines = WELCOME.read_text(encoding="utf-8").splitlines()
    trace = read_trace(WELCOME)
    index = next(i for i, item in enumerate(trace.rounds) if item.accepted >= 2)
    item = trace.rounds[index]
    assert item.marginals is not None
    cut = lines[: index + 2]
    cut[-1] = json.dumps(json.loads(cut[-1]) | {"emitted": item.emitted[:1], "emitted_text": item.emitted_text[:1]})
    found = page.evaluate(ANSWERS, {"text": "\n".join(cut), "budgets": [1, 32]})[-1]
    whole = next(f for f in found if f["name"] == "ddtree" and f["budget"] == 32)
    assert (whole["accepted"], whole["atLeast"]) == (1, True)


def test_the_calibration_is_the_benchmarks(page: Any) -> None:
    trace, judge = read_trace(WELCOME), Calibration()
    assert trace.summary is not None
    for item, (written, _) in zip(trace.rounds, room(trace), strict=True):
        coming = trace.summary.output_ids[written:]
        judge.add(item.tree, np.array(accepted_path(item.tree, coming)), len(coming))
    found = page.evaluate(
        """async (text) => {
          const [{ RunLog }, { Calibration }, { coming }] = await Promise.all([import("/canopy/run_log.js"),
            import("/canopy/whatif/calibration.js"), import("/canopy/whatif/score.js")]);
          const log = RunLog.fromLines("judged", text), calibration = new Calibration();
          log.rounds.forEach((round, index) => calibration.add(round, coming(log, index).length));
          return calibration.result();
        }""",
        WELCOME.read_text(encoding="utf-8"),
    )
    wanted = judge.result()
    assert found["expected"] == pytest.approx(wanted["expected_accepted"], abs=1e-6)
    assert found["accepted"] == wanted["accepted"]
    assert found["ece"] == pytest.approx(wanted["ece"], abs=1e-6)
    assert [b["nodes"] for b in found["bins"]] == [b["nodes"] for b in wanted["bins"]]
    assert [b["right"] for b in found["bins"]] == [b["right"] for b in wanted["bins"]]


def test_the_mean_of_all_rounds_is_that_of_the_python_core(page: Any) -> None:
    trace = read_trace(WELCOME)
    assert trace.summary is not None
    found = page.evaluate(
        """async (text) => {
          const [{ RunLog }, { Survey }] =
            await Promise.all([import("/canopy/run_log.js"), import("/canopy/whatif/survey.js")]);
          const log = RunLog.fromLines("judged", text);
          return await new Promise((resolve) => {
            new Survey(log, 128, (survey) => { if (survey.done === log.rounds.length) resolve(survey.means()); }).go();
          });
        }""",
        WELCOME.read_text(encoding="utf-8"),
    )
    assert found["rounds"] == len(trace.rounds)
    assert found["limit"] >= 32
    for budget in (1, 4, 16, 32):
        lengths, expected = [], []
        for item, (written, depth) in zip(trace.rounds, room(trace), strict=True):
            assert item.marginals is not None
            tree = planned("ddtree", item.marginals, {"budget": budget}, int(item.tree.token[0]), depth)
            lengths.append(len(accepted_path(tree, trace.summary.output_ids[written:])) - 1)
            expected.append(expected_accepted(tree))
        assert found["accepted"][budget] == pytest.approx(float(np.mean(lengths)))
        assert found["expected"][budget] == pytest.approx(float(np.mean(expected)), abs=1e-6)


def without_marginals(path: Path, unscored: bool = False) -> Path:
    """The recorded run as a stepwise drafter would have left it; `unscored` as retrieval would."""
    lines = [json.loads(line) for line in WELCOME.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line["kind"] == "round":
            line["marginals"] = None
            if unscored:
                line["tree"]["logprob"] = [0.0] + [None] * (len(line["tree"]["token"]) - 1)
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return path


def test_without_marginals_a_smaller_tree_is_the_likeliest_part_of_the_recorded(page: Any, tmp_path: Path) -> None:
    path = without_marginals(tmp_path / "stepwise.jsonl")
    trace = read_trace(path)
    plans = page.evaluate(
        """async ({ text }) => {
          const [{ RunLog }, { prefixOfRecorded }] =
            await Promise.all([import("/canopy/run_log.js"), import("/canopy/whatif/recorded_prefix.js")]);
          const { rounds } = RunLog.fromLines("stepwise", text);
          return rounds.map((round) => [1, 5, 20, 32].map((budget) => prefixOfRecorded(round, budget)));
        }""",
        {"text": path.read_text(encoding="utf-8")},
    )
    for item, row in zip(trace.rounds, plans, strict=True):
        score = cumulative_logprob(item.tree)
        for budget, plan in zip([1, 5, 20, 32], row, strict=True):
            found = Tree(
                np.array(plan["token"]), np.array(plan["parent"]), np.array(plan["logprob"]), np.array(plan["source"])
            )
            best = np.sort(score[1:])[::-1][:budget]
            np.testing.assert_allclose(np.sort(cumulative_logprob(found)[1:])[::-1], best, atol=1e-5)

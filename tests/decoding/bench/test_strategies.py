"""`bench strategies`, whole: its figures are those of real decoding, its claims follow from them, and can fail."""

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from decoding.__main__ import main
from decoding.bench import strategies, strategy_plans
from decoding.bench.strategy_claims import WORDS
from decoding.bench.strategy_figures import outcome
from decoding.bench.strategy_plans import How, Plan, plan_for
from decoding.bench.strategy_ways import WayRuns, most_nodes
from decoding.cost_probe import measure
from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.base import Drafter
from decoding.drafters.prompt_lookup import PromptLookup
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.loop import Request, decode
from decoding.replay import record
from decoding.round_costs import RoundCosts
from decoding.sampling import Sampling
from decoding.settings import Settings
from decoding.strategies import make_strategy
from decoding.strategies.base import Strategy
from decoding.target import Target
from decoding.types import Round
from decoding.verifiers import make_verifier
from tests.decoding.bench.measured import spec_bench, tiny_folder
from tests.decoding.drafters.dflash_checkpoint import write_dflash_checkpoint
from tests.decoding.test_replay import PROMPT, block_drafter, blurred
from tests.tiny_models import VOCAB, tiny_target

CATEGORIES = ("mt_bench", "qa")
RISING = RoundCosts((1,), (1, 257), [[10.0, 266.0]], [3.0])
"""A plain step takes 10 ms, every node one more, a draft 3."""
NEW_TOKENS = 16
FEW_TREES = ((3, 2, 0.1), (4, 3, 0.3))
"""For runs in which nothing depends on how many there are."""


def plan_runs(target: Target, drafter: Drafter, costs: RoundCosts | None = RISING) -> WayRuns:
    plan = plan_for(drafter, (4, 12), CATEGORIES)

    def strategy_of(title: str) -> Strategy[Settings]:
        return plan.ways[title][1].make()

    return WayRuns(target, drafter, TransitionMatrix(VOCAB), plan, strategy_of, costs)


def really(runs: WayRuns, target: Target, title: str, request: Request) -> list[Round]:
    """The rounds of a way by the loop."""
    how, config = runs.plan.ways[title]
    strategy = config.make()
    strategy.costs = RISING
    drafter = TransitionMatrix(VOCAB) if how is How.RETRIEVED else runs.drafter if strategy.needs else None
    retrieval = TransitionMatrix(VOCAB) if strategy.retrieval else None
    verifier = make_verifier(None, Sampling())
    return [
        item
        for item in decode(target, drafter, strategy, verifier, request, retrieval=retrieval)
        if isinstance(item, Round)
    ]


def blurred_llama(target: Target, folder: Path) -> Drafter:  # noqa: ARG001
    return Autoregressive(blurred("llama"), VOCAB)


@pytest.mark.parametrize("make", [block_drafter, blurred_llama])
def test_every_way_has_the_figures_of_real_decoding(
    make: Callable[..., Drafter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replayed or decoded, in any order: no way and no prompt knows what another one has learnt."""
    monkeypatch.setattr(strategy_plans, "FIXED_TREES", FEW_TREES)
    target = tiny_target("llama")
    drafter = make(target, tmp_path)
    runs = plan_runs(target, drafter)
    for length, category in ((11, "qa"), (7, "mt_bench")):
        request = Request("", PROMPT[:length], NEW_TOKENS)
        runs.add(category, record(target, make_verifier(None, Sampling()), request, drafter.taps))
    for title, (how, _) in runs.plan.ways.items():
        if how is How.OVER_MARGINALS:
            continue
        for (_, result), length in zip(runs.figures[title].rows, (11, 7), strict=True):
            rounds = really(runs, target, title, Request("", PROMPT[:length], NEW_TOKENS))
            assert result.tokens == sum(len(item.emitted) for item in rounds) == NEW_TOKENS - 1, title
            assert result.rounds == len(rounds), title
            assert result.nodes == sum(item.tree.drafted for item in rounds), title
            assert result.same_output
            if runs.drafter.gives_logprobs and how is not How.RETRIEVED and make is block_drafter:
                verifying = sum(10.0 + item.tree.drafted for item in rounds)
                drafts = 3.0 * sum(item.marginals is not None for item in rounds)
                assert result.milliseconds == pytest.approx(verifying + drafts), title


def test_a_stepwise_draft_costs_what_it_took() -> None:
    target, drafter, request = tiny_target("llama"), Autoregressive(blurred("llama"), VOCAB), Request("", PROMPT, 9)
    verifier = make_verifier(None, Sampling())
    rounds = [
        item
        for item in decode(target, drafter, make_strategy("fixed", {}), verifier, request)
        if isinstance(item, Round)
    ]
    seconds = sum(item.seconds.get("draft", 0) for item in rounds)  # the last round has no room for a draft
    assert seconds > 0
    verifying = sum(10.0 + item.tree.drafted for item in rounds)
    assert outcome(rounds, RISING, False, True).milliseconds == pytest.approx(verifying + 1000 * seconds)
    plan = Plan()
    plan.way("fixed", How.REPLAYED, "fixed")
    runs = WayRuns(target, drafter, TransitionMatrix(VOCAB), plan, lambda name: make_strategy(name, {}), RISING)
    replayed = runs.outcomes(record(target, verifier, request))["fixed"]
    assert replayed.milliseconds is not None
    assert replayed.milliseconds > verifying, "replayed drafts are timed too"


def test_the_plans_hold_the_claims_of_each_kind(tmp_path: Path) -> None:
    target = tiny_target("llama")
    block = plan_for(block_drafter(target, tmp_path), (4, 32), CATEGORIES)  # a block of 5 positions
    assert [(claim.text.split()[0], claim.figure, len(claim.comparisons)) for claim in block.claims] == [
        ("a", "tokens_per_round", 2), ("DDTree", "tokens_per_round", 2),
        ("Graft", "tokens_per_round", 2), ("Graft", "tokens_per_second", 2),
        ("auto", "tokens_per_second", 2), ("auto", "tokens_per_second", 1), ("ddtree-graft", "tokens_per_round", 2),
    ]  # fmt: skip
    assert [each.ours for each in block.claims[0].comparisons] == ["ddtree 4", "ddtree 5"]
    assert set(block.claims[5].comparisons[0].others) == {
        "plain", "ddtree 4", "ddtree 32", "ddtree-graft 4", "ddtree-graft 32"
    }  # fmt: skip
    stepwise = plan_for(blurred_llama(target, tmp_path), (4, 32), CATEGORIES)
    assert [claim.text.split()[0] for claim in stepwise.claims] == ["a", "DynaTree", "Graft", "Graft"]
    assert len(stepwise.claims[1].comparisons[0].others) == 12
    assert [each.ours for each in stepwise.claims[2].comparisons[::2]] == ["graft 4", "graft 32", "graft 60"]
    assert most_nodes(stepwise) == 256
    for drafter, how in ((PromptLookup(VOCAB), How.REPLAYED), (TransitionMatrix(VOCAB), How.DECODED)):
        plan = plan_for(drafter, (4, 32), CATEGORIES)
        assert len(plan.claims) == 1
        assert not plan.needs_costs
        assert {way for way, _ in plan.ways.values()} == {how}, "what learns from opinions cannot be replayed"
    for plan in (block, stepwise):
        named = {name for claim in plan.claims for each in claim.comparisons for name in (each.ours, *each.others)}
        assert named == set(plan.ways), "nothing is measured in vain"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target, a block drafter for it and questions."""
    root = tmp_path_factory.mktemp("strategies")
    tiny_folder(root / "target")
    write_dflash_checkpoint(
        root / "block", hidden=32, heads=4, kv_heads=2, head_dim=8, layers=1, target_layers=2, target_layer_ids=[0],
        block_size=5, mask_token_id=4, vocab=97, seed=0,
    )  # fmt: skip
    spec_bench(root / "questions.jsonl")
    return root


def words(folder: Path, *more: str) -> tuple[str, ...]:
    return ("strategies", "--target", str(folder / "target"), "--spec-bench", str(folder / "questions.jsonl"),
            "--categories", "mt_bench", "qa", "--budgets", "4", "12",
            "--max-new-tokens", "12", "--max-prompt-tokens", "60", *more)  # fmt: skip


class Ran(NamedTuple):
    drafter: str
    table: str
    result: dict[str, Any]
    kept: Path
    asked: list[int]
    """Nodes up to which costs were to be measured, for each drafter that needs them."""


@pytest.fixture(scope="module")
def ran(folder: Path) -> Ran:
    """One run through the command line, under costs that are known."""
    asked: list[int] = []

    def measured(*given: Any) -> RoundCosts:
        asked.append(given[-1])
        return RISING

    out, block, said = folder / "result.json", str(folder / "block"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.setattr(strategies, "measure", measured)
        patch.setattr(strategy_plans, "FIXED_TREES", FEW_TREES)
        given = words(folder, "--drafters", block, "self", "transition-matrix", "--out", str(out))
        assert main(["bench", *given]) == 0
    *table, last = said.getvalue().splitlines()
    return Ran(block, "\n".join(table), json.loads(last), out, asked)


def test_the_whole_benchmark(ran: Ran) -> None:
    result = ran.result
    assert json.loads(ran.kept.read_text()) == result
    assert ran.asked == [16, 257], "none where no speed is shown; the largest tree and its root else"
    assert result["prompts"] == {"mt_bench": 2, "qa": 1}
    assert [row["drafter"] for row in result["drafters"]] == [ran.drafter, "self", "transition-matrix"]
    assert [row["costs"] is None for row in result["drafters"]] == [False, False, True]
    for row in result["drafters"]:
        assert all(way["same_output"] == way["prompts"] == 3 for way in row["ways"])


def test_every_verdict_follows_from_the_figures(ran: Ran) -> None:
    lines = ran.table.splitlines()
    for row in ran.result["drafters"]:
        ways = {way["way"]: way for way in row["ways"]}
        for claim in row["claims"]:
            figure = claim["figure"]
            for each in claim["comparisons"]:
                category = each["category"]
                assert each["value"] == pytest.approx(ways[each["ours"]][figure][category]["mean"])
                assert each["other_value"] == pytest.approx(ways[each["best_other"]][figure][category]["mean"])
                bar = claim["least"] * each["other_value"]
                assert each["holds"] == (each["value"] > bar if claim["strictly"] else each["value"] >= bar - 1e-6)
            assert claim["holds"] == all(each["holds"] for each in claim["comparisons"])
            begin = f"| {claim['claim']} | {row['drafter']} | {WORDS[figure]}"
            (line,) = [line for line in lines if line.startswith(begin)]
            assert line.endswith("| yes |" if claim["holds"] else "| no |")


def test_a_claim_can_come_out_as_no(ran: Ran) -> None:
    """The target drafts for itself: its chain is right as far as it goes, and a tree of as many nodes less deep."""
    claim = ran.result["drafters"][1]["claims"][0]
    assert claim["claim"].startswith("a tree beats a chain")
    assert claim["holds"] is False
    assert all(each["value"] < each["other_value"] for each in claim["comparisons"])


def test_trees_that_do_not_pay_are_measured_too() -> None:
    target = tiny_target("llama", max_position_embeddings=64)
    assert measure(target, None, 0.0, least_nodes=150).max_nodes >= 149
    assert measure(target, None, 0.0).max_nodes < 149


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--budgets", "8", "0"], "--budgets names 0"),
        (["--budgets", "2000"], "--budgets names 2000"),
        ([], "No drafter is made for"),
        (["--drafters", "z-lab/Qwen3-4B-DFlash-b16", "--target", "qwen3-8b"], "was made for qwen3-4b"),
    ],
)
def test_bad_requests(more: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[Any]) -> None:
    assert main(["bench", *words(folder, *more)]) == 2
    captured = capsys.readouterr()
    assert said in captured.err.splitlines()[-1]
    assert captured.out == ""

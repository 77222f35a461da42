"""`bench speed`: the convention of its clock, its arithmetic and the whole run; no figure is judged."""

from pathlib import Path
from typing import Any

import pytest

from decoding.__main__ import main
from decoding.bench.measured_prompts import MeasuredPrompt
from decoding.bench.speed import usual_configs
from decoding.bench.speed_figures import speed_table, speedup, typical, way_figures
from decoding.bench.speed_ways import (
    ASSISTED,
    GENERATE,
    LOOKUP,
    PLAIN,
    Timed,
    Way,
    generate,
    in_turn,
    ours,
    parse_config,
)
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.errors import BadRequest
from decoding.measuring import Question
from decoding.strategies import make_strategy
from tests.decoding.bench.measured import run_bench, spec_bench, tiny_folder
from tests.decoding.test_lossless import PROMPT, plain_greedy
from tests.tiny_models import VOCAB, tiny_target

QUESTION = MeasuredPrompt(Question("1", "qa", ""), PROMPT)


def test_all_ways_write_the_same_and_stop_at_the_same_place() -> None:
    target = tiny_target("llama")
    whole = plain_greedy(target, PROMPT, 24)
    ways = [
        ours(PLAIN, target, None, lambda: make_strategy("ar", {})),
        generate(GENERATE, target, {}),
        generate(LOOKUP, target, {"prompt_lookup_num_tokens": 8}),
        generate(ASSISTED, target, {"assistant_model": tiny_target("llama", seed=1).model}),
        ours("recycle", target, TransitionMatrix(VOCAB, target.device), lambda: make_strategy("recycle", {})),
    ]
    for end in (2, whole[9], whole[0]):
        target.model.generation_config.eos_token_id = end
        expected = plain_greedy(target, PROMPT, 24)
        for way in ways:
            run = way.run(QUESTION, 24)
            assert list(run.output_ids) == expected, way.name
            assert run.prefill_seconds > 0
            assert run.tokens == len(expected) - run.first
            assert run.first == 1 or way.name in (LOOKUP, ASSISTED)
            if run.rounds is not None:
                assert run.rounds <= len(expected) - 1


def test_the_clock_starts_at_the_first_new_tokens() -> None:
    """Prompt lookup accepts drafted tokens in its very first pass: they must not be counted as decoded."""
    target = tiny_target("gemma3")
    again = (*PROMPT, *plain_greedy(target, PROMPT, 12))  # this one repeats itself
    run = generate(LOOKUP, target, {"prompt_lookup_num_tokens": 8}).run(QUESTION._replace(ids=again), 20)
    assert list(run.output_ids) == plain_greedy(target, again, 20)
    assert run.first > 1
    assert run.tokens == 20 - run.first


class Watched(TransitionMatrix):
    """Notes at the beginning of every run whether it knows anything."""

    def begin(self, capacity: int) -> None:
        self.knew = [*getattr(self, "knew", []), bool((self.matrix >= 0).any())]


def test_what_a_drafter_learnt_is_forgotten_between_runs() -> None:
    target = tiny_target("llama")
    drafter = Watched(VOCAB, target.device)
    way = ours("recycle", target, drafter, lambda: make_strategy("recycle", {}))
    first, second = way.run(QUESTION, 8), way.run(QUESTION, 8)
    assert bool((drafter.matrix >= 0).any())
    assert drafter.knew == [False, False]
    assert first.rounds == second.rounds


def timed(tokens: int, seconds: float, first: int = 1, prefill: float = 0.5, token: int = 3) -> Timed:
    return Timed((token,) * (tokens + first), first, prefill, seconds, None)


def test_speedups_by_hand() -> None:
    rows = [
        ("qa", {PLAIN: timed(10, 1), GENERATE: timed(10, 2), "x": timed(10, 0.5)}),  # 2 over ours, the faster
        ("qa", {PLAIN: timed(10, 2), GENERATE: timed(10, 1), "x": timed(8, 2, first=3)}),  # .4 over generate, .8 ours
        ("rag", {PLAIN: timed(10, 4), GENERATE: timed(10, 5), "x": timed(0, 0, first=11)}),  # all came at once
    ]
    figures = way_figures(rows, "x")
    faster = figures["speedup_over_faster_plain"]
    assert faster["qa"]["mean"] == pytest.approx((2 + 0.4) / 2)
    assert (faster["qa"]["least"], faster["qa"]["most"]) == (pytest.approx(0.4), pytest.approx(2))
    # Pooled: 18 tokens in 2.5 s over 20 in 3 s, which both plain ways take.
    assert faster["qa"]["pooled"] == pytest.approx((18 / 2.5) / (20 / 3))
    assert faster["rag"] == {"mean": None, "pooled": None, "least": None, "most": None, "prompts": 0}
    assert faster["all"] == faster["qa"]
    assert figures["speedup_over_our_plain"]["qa"]["mean"] == pytest.approx((2 + 0.8) / 2)
    assert figures["tokens_per_second"]["qa"]["pooled"] == pytest.approx(18 / 2.5)
    assert figures["tokens_per_round"] is None
    assert figures["same_output"] == 3
    assert speedup([runs for _, runs in rows[:1]], PLAIN, (PLAIN, GENERATE))["mean"] == 1
    table = speed_table([figures], {"qa": 2, "rag": 1, "humaneval": 0})
    assert "| x | 1.20 | — | — | 1.20 |" in table
    assert table.rstrip().endswith("| 3 of 3 |")


def test_of_repeated_runs_the_median_counts() -> None:
    run = typical([timed(4, seconds, prefill=seconds / 10) for seconds in (3.0, 1.0, 2.0)])
    assert (run.decode_seconds, run.prefill_seconds, run.tokens) == (2.0, pytest.approx(0.2), 4)


def test_every_way_goes_first_in_turn() -> None:
    ways = [Way(name, lambda prompt, count: timed(1, 1)) for name in "abc"]  # noqa: ARG005
    assert ["".join(way.name for way in in_turn(ways, turn)) for turn in range(4)] == ["abc", "bca", "cab", "abc"]


def test_configs_are_read_and_refused() -> None:
    full = parse_config("ddtree:some/folder:budget=16")
    assert (full.strategy, full.drafter, full.make().settings.as_dict()) == ("ddtree", "some/folder", {"budget": 16})
    assert parse_config("recycle").drafter is None
    assert parse_config("fixed::depth=3, branching=2").make().settings.as_dict()["branching"] == 2
    for text, said in (
        ("tree:x", "no strategy named 'tree'"),
        ("linear:x:budget", "'budget' is not of the form key=value"),
        ("linear:x:size=3", "no setting named 'size'"),
        ("linear:x:budget=0", "budget is 0"),
        ("ar", "is plain decoding"),
    ):
        with pytest.raises(BadRequest, match=said):
            parse_config(text)


def test_the_usual_configs_are_the_strategies_with_their_drafters() -> None:
    usual = usual_configs("smollm2-135m")
    assert "ddtree:smollm2-135m-dflash" in usual
    assert "pld:prompt-lookup" in usual
    assert "recycle:transition-matrix" in usual
    assert not any(text.startswith("ar") for text in usual)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("speed")
    tiny_folder(root / "target")
    spec_bench(root / "questions.jsonl")
    return root


def words(folder: Path, *more: str) -> tuple[str, ...]:
    return ("speed", "--target", str(folder / "target"), "--spec-bench", str(folder / "questions.jsonl"),
            "--categories", "mt_bench", "qa", "--max-new-tokens", "10", "--max-prompt-tokens", "60", *more)  # fmt: skip


def test_the_whole_benchmark(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configs = ("linear:prompt-lookup:budget=10", "recycle")
    given = [word for text in configs for word in ("--config", text)]
    table, result = run_bench(capsys, *words(folder, "--repeats", "2", "--assistant", str(folder / "target"), *given))
    assert [way["way"] for way in result["ways"]] == [PLAIN, GENERATE, LOOKUP, ASSISTED, *configs]
    assert all(way["same_output"] == way["prompts"] == 3 for way in result["ways"])
    assert result["ways"][0]["speedup_over_our_plain"]["all"]["mean"] == 1
    assert result["ways"][0]["tokens_per_round"]["pooled"] == 1
    assert result["ways"][-1]["drafter"] == "transition-matrix"
    assert result["ways"][-1]["settings"] == {"budget": 80}
    seconds = result["start_seconds"]
    assert seconds["total"] >= seconds["target"] + sum(seconds["drafters"].values())
    assert set(seconds["drafters"]) == {"prompt-lookup", "transition-matrix"}
    assert f"| {configs[0]} |" in table


def test_without_hugging_faces_ways(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = ("--no-generate", "--prompt-lookup-tokens", "0", "--assistant", "none", "--config", "recycle")
    _, result = run_bench(capsys, *words(folder, *alone))
    assert [way["way"] for way in result["ways"]] == [PLAIN, "recycle"]
    for way in result["ways"]:
        assert way["speedup_over_faster_plain"] == way["speedup_over_our_plain"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--repeats", "0"], "--repeats is 0"),
        (["--config", "ddtree:prompt-lookup"], "DDTree needs a one-pass drafter"),
        (["--prompt-lookup-tokens", "-1"], "--prompt-lookup-tokens is -1"),
        (["--assistant", "sam"], "sam is no language model"),
        (["--config", "none"], "no strategy named 'none'"),
    ],
)
def test_bad_requests(more: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[Any]) -> None:
    assert main(["bench", *words(folder, *more)]) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]

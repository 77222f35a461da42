"""A run that goes step by step: one round a click, the device free in between, nothing mixed up."""

import threading
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaForCausalLM

from decoding.errors import BadRequest
from decoding.model_store import ModelStore
from decoding.run import RunSettings, run
from tests.decoding import tiny
from tests.workbench.browser import READY, Watch, chromium, served
from tests.workbench.replay_engine import ReplayEngine
from tests.workbench.test_queue import Visitor, request, until
from workbench.policy import ServerPolicy
from workbench.services import Services

ROUNDS = "() => canopy.explore.log.rounds.length"
STATE = "() => canopy.explore.buttons.state"


def rounds(visitor: Visitor) -> int:
    return sum(event["kind"] == "round" for event in visitor.events)


def waits_after(visitor: Visitor, count: int) -> None:
    until(lambda: visitor.events and visitor.events[-1].get("waiting") == "step" and rounds(visitor) == count)


def test_each_step_is_one_round_and_the_device_is_free_in_between() -> None:
    services = Services(ReplayEngine())
    stepped = Visitor(services, "a" * 16, stepping=True)
    for count in (1, 2, 3):
        waits_after(stepped, count)
        until(lambda: services.status()["queue"] == {"length": 0, "stepping": 1})
        services.step("a" * 16)
    waits_after(stepped, 4)
    other = Visitor(services, "b" * 16)
    other.finish()
    assert other.places() == []
    assert rounds(stepped) == 4
    services.proceed("a" * 16)
    stepped.finish()
    assert stepped.events[-1]["kind"] == "summary"
    assert rounds(stepped) == rounds(other)
    assert services.status()["queue"] == {"length": 0, "stepping": 0}


def test_a_step_waits_its_turn_behind_others() -> None:
    engine = ReplayEngine(pause=0.02)
    services = Services(engine)
    stepped = Visitor(services, "a" * 16, stepping=True)
    waits_after(stepped, 1)
    other = Visitor(services, "b" * 16)
    until(lambda: services.status()["queue"]["length"] == 1)
    services.step("a" * 16)
    until(lambda: stepped.places() == [1])
    waits_after(stepped, 2)
    assert other.events[-1]["kind"] == "summary"
    assert engine.most_decoding == 1
    services.stop("a" * 16)
    assert stepped.finish() == "interrupted"


def test_a_step_halts_a_run_that_was_not_stepped() -> None:
    services = Services(ReplayEngine(pause=0.03))
    visitor = Visitor(services, "a" * 16)
    until(lambda: rounds(visitor) >= 2)
    services.step("a" * 16)
    until(lambda: visitor.events[-1].get("waiting") == "step")
    assert visitor.events[-2]["kind"] == "round"
    services.stop("a" * 16)
    assert visitor.finish() == "interrupted"


@pytest.mark.parametrize("how", ["stop", "close"])
def test_stopping_or_closing_ends_a_run_that_waits_for_a_step(how: str) -> None:
    engine = ReplayEngine()
    services = Services(engine)
    stream = services.stream("a" * 16, request, stepping=True)
    while services.status()["queue"]["stepping"] == 0:
        next(stream)
    if how == "stop":
        services.stop("a" * 16)
        list(stream)
    else:
        stream.close()
    until(lambda: engine.active == 0 and services.status()["queue"] == {"length": 0, "stepping": 0})


def test_nobody_steps_for_a_while() -> None:
    services = Services(ReplayEngine(), ServerPolicy(step_seconds=0.2))
    visitor = Visitor(services, "a" * 16, stepping=True)
    assert visitor.finish() == "interrupted"
    assert any("nobody stepped" in event.get("text", "") for event in visitor.events)


def test_too_many_stepped_runs_end_the_one_that_has_waited_longest() -> None:
    services = Services(ReplayEngine(), ServerPolicy(max_stepped=2))
    visitors = []
    for letter in "abc":
        visitors.append(Visitor(services, letter * 16, stepping=True))
        waits_after(visitors[-1], 1)
    assert visitors[0].finish() == "interrupted"
    assert any("too many runs" in event.get("text", "") for event in visitors[0].events)
    assert services.status()["queue"]["stepping"] == 2
    for letter in "bc":
        services.stop(letter * 16)


def test_another_target_ends_a_stepped_run_before_it_is_loaded() -> None:
    engine = ReplayEngine()
    services = Services(engine)
    stepped = Visitor(services, "a" * 16, stepping=True)
    waits_after(stepped, 1)
    loading = [line for _, lines in services.load("c" * 16, "another", "none") for line in lines]
    assert '"kind":"loaded"' in loading[-1]
    assert stepped.finish() == "interrupted"
    assert any("another model" in event.get("text", "") for event in stepped.events)


def test_steering_an_unknown_or_ended_run_says_so() -> None:
    services = Services(ReplayEngine())
    Visitor(services, "a" * 16).finish()
    for act in (services.step, services.proceed):
        for ticket in ("a" * 16, "f" * 16):
            with pytest.raises(BadRequest, match="has ended"):
                act(ticket)


# ---- with real models ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target and a smaller drafter of the same vocabulary."""
    root = tmp_path_factory.mktemp("models")
    target = tiny.save_model(root / "target", LlamaForCausalLM, tiny.llama_config(initializer_range=0.4))
    drafter = tiny.save_model(
        root / "drafter", LlamaForCausalLM, tiny.llama_config(num_hidden_layers=1, initializer_range=0.4)
    )
    return target, drafter


def gathered(lines: Any) -> tuple[list[Any], list[Any]]:
    """What was written and which trees were drafted: everything but the times."""
    lines = [line for line in lines if line["kind"] in ("round", "summary")]
    return lines[-1]["output_ids"], [line["tree"] for line in lines if line["kind"] == "round"]


@pytest.mark.parametrize(
    ("strategy", "drafter"),
    [("eagle", "self"), ("eagle", "folder"), ("recycle", None), ("pld", None), ("sam", None), ("graft", "folder")],
)
def test_runs_that_take_turns_between_rounds_give_what_they_give_alone(
    folders: tuple[Path, Path], strategy: str, drafter: str | None
) -> None:
    target, small = folders
    name = str(small) if drafter == "folder" else drafter
    asked = [
        RunSettings(prompt, str(target), name, strategy, {"budget": 8}, raw=True, max_new_tokens=24, dtype="float32")
        for prompt in ("w5 w9 w5 w9 w5", "w60 w2 w2 w33")
    ]
    alone = [gathered(run(settings, ModelStore())) for settings in asked]
    models = ModelStore()
    turns = [iter(run(settings, models)) for settings in asked]
    found: list[list[Any]] = [[], []]
    while any(turn is not None for turn in turns):
        for number, turn in enumerate(turns):
            if turn is not None and (line := next(turn, None)) is not None:
                found[number].append(line)
            else:
                turns[number] = None  # type: ignore[call-overload]
    assert [gathered(lines) for lines in found] == alone
    assert len(alone[0][1]) > 3
    loaded = [item.id for item in models.loaded()]
    assert len(loaded) == len(set(loaded))
    assert all(len(kept) == 1 for kept in models._drafters.values())


def test_a_store_refuses_to_unload_what_a_run_uses(folders: tuple[Path, Path]) -> None:
    models = ModelStore()
    settings = RunSettings("w5 w9", str(folders[0]), "self", "eagle", {"budget": 4}, raw=True, max_new_tokens=8)
    stream = run(settings, models)
    next(stream)
    for name in ("self", str(folders[0])):
        with pytest.raises(BadRequest, match="in use"):
            models.unload(name)
    stream.close()
    models.unload("self")
    assert [item.id for item in models.loaded()] == [str(folders[0])]
    models.unload(str(folders[0]))
    assert models.loaded() == ()


@pytest.mark.slow
@pytest.mark.embedded
def test_steps_over_the_embedded_model_while_another_run_decodes() -> None:
    from workbench.engine import DecodingEngine

    services = Services(DecodingEngine())
    given = {"target": "smollm2-135m", "drafter": "smollm2-135m-dflash", "strategy": "ddtree"}
    text = {"max_new_tokens": 24}
    outputs = {}
    for ticket, stepping in (("a" * 16, False), ("b" * 16, True)):
        lines: list[dict[str, Any]] = []

        def read(ticket: str = ticket, stepping: bool = stepping, lines: list[Any] = lines) -> None:
            import json

            def build() -> Any:
                return request(**given, text=request().text_settings(text), prompt="Name three birds.")

            for _, some in services.stream(ticket, build, stepping):
                lines += map(json.loads, some)

        thread = threading.Thread(target=read)
        thread.start()
        while stepping and thread.is_alive():
            until(lambda lines=lines, thread=thread: (lines and lines[-1].get("waiting")) or not thread.is_alive(), 200)
            if thread.is_alive():
                other = Visitor(services, f"{len(lines):032x}")
                other.services.stop(other.ticket)
                before = len(lines)
                services.step(ticket)
                until(lambda lines=lines, before=before: len(lines) > before, 200)
        thread.join(250)
        outputs[ticket] = lines[-1]["output_ids"]
    assert outputs["a" * 16] == outputs["b" * 16]


# ---- in the browser -----------------------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.slow
def test_step_run_on_and_stop_in_the_browser() -> None:
    with chromium() as browser, served(pause=0.02) as address:
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        watch = Watch(page)
        page.goto(address)
        page.wait_for_function(READY, timeout=120_000)
        page.wait_for_function("() => document.querySelector('#cy-stop')?.disabled", timeout=60_000)
        before = page.locator("#cy-run").bounding_box()
        for count in (1, 2, 3):
            page.locator("#cy-step").click()
            page.wait_for_function(
                f"() => ({ROUNDS})() === {count} && ({STATE})() === 'waiting' && canopy.explore.log.id !== 'recorded'",
                timeout=60_000,
            )
        assert "Round 3 is done" in page.inner_text(".cy-status")
        assert page.inner_text("#cy-run").strip() == "Run on"
        assert page.locator("#cy-run").bounding_box() == before
        assert page.evaluate("() => canopy.explore.current") == 2
        page.locator("#cy-run").click()
        page.wait_for_function("() => canopy.explore.log.summary", timeout=60_000)
        page.wait_for_function(f"() => ({STATE})() === 'idle'", timeout=60_000)
        assert page.evaluate(ROUNDS) > 3
        assert page.inner_text("#cy-run").strip() == "Run"
        page.locator("#cy-step").click()
        page.wait_for_function(f"() => ({ROUNDS})() === 1 && ({STATE})() === 'waiting'", timeout=60_000)
        page.locator("#cy-stop").click()
        page.wait_for_function(f"() => ({STATE})() === 'idle'", timeout=60_000)
        assert page.evaluate("() => canopy.explore.log.summary.finish") == "interrupted"
        watch.check(address)

"""Runs on a GPU that is lent to a forked worker: the same rounds, ended in time, and plain words where it fails."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gradio as gr
import pytest
from transformers import LlamaForCausalLM

from decoding.errors import BadRequest, CanopyError
from tests.decoding import tiny
from tests.workbench.browser import chromium, opened, serving
from tests.workbench.lent_gpu import LentGpu
from tests.workbench.replay_engine import ReplayEngine
from tests.workbench.test_queue import until
from workbench import lent_time
from workbench.device import LentDevice, OwnDevice
from workbench.engine import DecodingEngine
from workbench.lent_time import seconds_for
from workbench.run_request import CompareRequest, RunRequest
from workbench.run_store import Event
from workbench.services import Services
from workbench.wanted_run import WantedRun

ROUND = 0.1
"""Seconds of a slow round."""


class Worked(DecodingEngine):
    """The real core, with something that happens in the worker before a round is handed out."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[int], Any] = lambda _: None

    def run(self, request: RunRequest, should_stop: Callable[[], bool], report: Callable[[str], None]) -> Iterator[Any]:
        for event in super().run(request, should_stop, report):
            if event["kind"] == "round" and (other := self.before(event["index"])) is not None:
                event["other"] = other
            yield event


def slow(_: int) -> None:
    time.sleep(ROUND)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Worked, str]:
    """An engine that holds a tiny target, as one on ZeroGPU holds its menu before the first worker is forked."""
    folder = tmp_path_factory.mktemp("target")
    config = tiny.llama_config(initializer_range=0.4, max_position_embeddings=2048, eos_token_id=None)
    tiny.save_model(folder, LlamaForCausalLM, config)
    engine = Worked()
    engine.load(str(folder), "none", lambda _: None)
    return engine, str(folder)


@pytest.fixture
def engine(loaded: tuple[Worked, str]) -> Iterator[Worked]:
    yield loaded[0]
    loaded[0].before = lambda _: None


@pytest.fixture
def ask(loaded: tuple[Worked, str]) -> Callable[..., RunRequest]:
    def asked(tokens: int = 24, settings: Mapping[str, object] | None = None, **given: Any) -> RunRequest:
        text = RunRequest.text_settings({"max_new_tokens": tokens})
        given = {"prompt": "w5 w9 w5 w9 w5", "drafter": None, "strategy": "recycle", **given}
        return RunRequest(target=loaded[1], text=text, settings=settings or {}, **given)

    return asked


@pytest.fixture
def short_loans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lent_time, "START_SECONDS", 0.0)
    monkeypatch.setattr(lent_time, "LEAST_SECONDS", 2)
    monkeypatch.setattr(lent_time, "ROUND_SECONDS", 0.0)


def device(engine: Worked) -> tuple[LentDevice, LentGpu]:
    lend = LentGpu()
    return LentDevice(engine, lend, 120), lend


def events(found: Any) -> list[Event]:
    return list(found)


def of_kind(found: list[Event], kind: str) -> list[Event]:
    return [event for event in found if event["kind"] == kind]


def untimed(found: list[Event]) -> list[Any]:
    return [(event["tree"], event["verdict"]["path"], event["emitted"]) for event in of_kind(found, "round")]


def test_a_worker_gives_the_rounds_that_a_run_here_gives(engine: Worked, ask: Callable[..., RunRequest]) -> None:
    lent, lend = device(engine)
    said: list[str] = []
    theirs = events(lent.events(ask(), lambda: False, said.append))
    ours = events(OwnDevice(engine).events(ask(), lambda: False, lambda _: None))
    assert untimed(theirs) == untimed(ours)
    assert theirs[-1]["output_ids"] == ours[-1]["output_ids"]
    assert len(of_kind(theirs, "round")) > 3
    assert lend.seconds == [seconds_for(ask(), 120)]
    assert [f"{lend.seconds[0]} seconds" in said[0], said[1]] == [True, "A GPU is here"]
    assert lend.workers[0].pid != os.getpid()
    assert lend.workers[0].exitcode == 0
    json.dumps(theirs, allow_nan=False)


def test_a_comparison_runs_in_one_worker_and_a_lane_s_error_stays_in_it(
    engine: Worked, ask: Callable[..., RunRequest]
) -> None:
    lent, lend = device(engine)
    ways = CompareRequest((ask(strategy="pld"), ask(settings={"budget": -3})))
    found = events(lent.events(ways, lambda: False, lambda _: None))
    assert len(lend.workers) == 1
    assert {event["lane"] for event in of_kind(found, "summary")} == {0, 1}
    assert [event["lane"] for event in of_kind(found, "error")] == [2]
    (comparison,) = of_kind(found, "comparison")
    assert comparison["lossless"]["identical"]


def test_a_stop_ends_the_worker_s_run_within_a_round(engine: Worked, ask: Callable[..., RunRequest]) -> None:
    engine.before = slow
    lent, lend = device(engine)
    stopped_after, found = 3, []
    for event in lent.events(ask(400), lambda: len(of_kind(found, "round")) >= stopped_after, lambda _: None):
        found.append(event)
    assert stopped_after <= len(of_kind(found, "round")) <= stopped_after + 1
    assert found[-1]["finish"] == "interrupted"
    assert len(found[-1]["output_ids"]) == 1 + sum(len(event["emitted"]) for event in of_kind(found, "round"))
    assert lend.workers[0].exitcode == 0


def test_a_closed_reader_ends_the_worker_within_a_round(engine: Worked, ask: Callable[..., RunRequest]) -> None:
    engine.before = slow
    lent, lend = device(engine)
    stream = lent.events(ask(1000), lambda: False, lambda _: None)
    while next(stream)["kind"] != "round":
        pass
    assert lend.workers[0].is_alive()
    begun = time.monotonic()
    stream.close()  # type: ignore[attr-defined]
    assert not lend.workers[0].is_alive()
    assert time.monotonic() - begun < 20 * ROUND


def test_a_closed_tab_ends_the_worker_and_the_next_visitor_is_served(
    engine: Worked, ask: Callable[..., RunRequest]
) -> None:
    engine.before = slow
    lent, lend = device(engine)
    services = Services(engine, device=lent)
    stream = services.stream("a" * 16, lambda: ask(1000))
    while not any('"kind":"round"' in line for line in next(stream)[1]):
        pass
    stream.close()
    until(lambda: not lend.workers[0].is_alive() and services.status()["queue"]["length"] == 0)
    engine.before = lambda _: None
    assert list(services.events(ask(), "b" * 16))[-1]["finish"] == "length"
    assert len(lend.workers) == 2


@pytest.mark.usefixtures("short_loans")
def test_a_run_that_takes_too_long_is_ended_with_a_smaller_suggestion(
    engine: Worked, ask: Callable[..., RunRequest]
) -> None:
    engine.before = lambda index: time.sleep(60) if index == 20 else None
    lent, lend = device(engine)
    found: list[Event] = []
    with pytest.raises(CanopyError, match="The 2 seconds for which the GPU was lent are over, after") as caught:
        found.extend(lent.events(ask(900), lambda: False, lambda _: None))
    assert lend.workers[0].exitcode == -signal.SIGKILL
    written = sum(len(event["emitted"]) for event in of_kind(found, "round"))
    assert len(of_kind(found, "round")) == 20
    assert f"after {written} new tokens" in caught.value.message
    assert caught.value.hint == f"Ask for {int(0.8 * written) // 8 * 8} new tokens or fewer."
    engine.before = lambda _: None
    assert events(lent.events(ask(8), lambda: False, lambda _: None))[-1]["finish"] == "length"


def test_a_worker_that_dies_is_told_plainly_and_the_next_run_works(
    engine: Worked, ask: Callable[..., RunRequest]
) -> None:
    engine.before = lambda index: os.kill(os.getpid(), signal.SIGKILL) if index == 2 else None
    lent, _ = device(engine)
    services = Services(engine, device=lent)
    lines = [json.loads(line) for _, lines in services.stream("a" * 16, lambda: ask(64)) for line in lines]
    assert len(of_kind(lines, "round")) == 2, "what had arrived is kept"
    assert lines[-1]["kind"] == "error"
    assert "worker ended in the middle of the run" in lines[-1]["message"]
    assert "another worker" in lines[-1]["hint"]
    engine.before = lambda _: None
    assert list(services.events(ask(), "b" * 16))[-1]["finish"] == "length"


def test_what_cannot_be_pickled_is_found(engine: Worked, ask: Callable[..., RunRequest]) -> None:
    engine.before = lambda _: threading.Lock()
    lent, lend = device(engine)
    with pytest.raises(CanopyError, match="TypeError"):
        events(lent.events(ask(), lambda: False, lambda _: None))
    with pytest.raises(TypeError, match="pickle"):
        events(lent.events(ask(settings={"budget": threading.Lock()}), lambda: False, lambda _: None))
    assert len(lend.workers) == 1, "what cannot be sent asks for no GPU"


def test_errors_in_the_worker_arrive_with_their_words(engine: Worked, ask: Callable[..., RunRequest]) -> None:
    lent, lend = device(engine)
    with pytest.raises(CanopyError, match=r"tokens; .* reads at most 2048"):
        events(lent.events(ask(prompt="w5 " * 2100), lambda: False, lambda _: None))
    engine.before = lambda _: 1 / 0
    with pytest.raises(CanopyError, match=r"Something inside Canopy failed \(ZeroDivisionError\)"):
        events(lent.events(ask(), lambda: False, lambda _: None))
    assert [worker.exitcode for worker in lend.workers] == [0, 0]


def test_no_gpu_is_told_with_the_words_of_the_lender(engine: Worked, ask: Callable[..., RunRequest]) -> None:
    def refuses(**_: Any) -> Any:
        def quota(*_: Any) -> Iterator[Event]:
            raise gr.Error("You have exceeded your free ZeroGPU quota (28s requested vs. 3s left).")
            yield

        return lambda _: quota

    with pytest.raises(CanopyError, match=r"gave no GPU: You have exceeded .* 3s left") as caught:
        events(LentDevice(engine, refuses, 120).events(ask(), lambda: False, lambda _: None))
    assert "fewer new tokens" in caught.value.hint


def test_steps_are_refused_with_another_way(engine: Worked, ask: Callable[..., RunRequest]) -> None:
    lent, lend = device(engine)
    services = Services(engine, device=lent)
    (line,) = [line for _, lines in services.stream("a" * 16, ask, stepping=True) for line in lines]
    assert "a GPU is lent for one run at a time" in json.loads(line)["message"]
    assert "arrow keys" in json.loads(line)["hint"]
    with pytest.raises(BadRequest, match="without a pause"):
        services.step("a" * 16)
    assert lend.workers == []


@pytest.mark.parametrize(
    ("tokens", "compare", "most", "seconds"),
    [(1, False, 120, 15), (128, False, 120, 27), (128, True, 120, 45), (1024, False, 120, 120), (1, False, 9, 9)],
)
def test_the_time_asked_for_follows_the_request(
    tokens: int, compare: bool, most: float, seconds: int, ask: Callable[..., RunRequest]
) -> None:
    assert seconds_for(ask(tokens, compare=compare), most) == seconds
    ways = CompareRequest((ask(tokens), ask(tokens), ask(tokens)))
    assert seconds <= seconds_for(ways, most) <= most


def test_what_is_wanted_is_seen_across_a_fork() -> None:
    wanted = WantedRun()
    first, (ours, theirs) = wanted.begin(), os.pipe()
    if not (child := os.fork()):
        begun = time.monotonic()
        while wanted.is_wanted(first) and time.monotonic() - begun < 30:
            time.sleep(0.01)
        os.write(theirs, b"seen" if not wanted.is_wanted(first) else b"late")
        os._exit(0)
    assert wanted.is_wanted(first)
    second = wanted.begin()
    assert os.read(ours, 4) == b"seen"
    os.waitpid(child, 0)
    assert wanted.is_wanted(second)
    wanted.end()
    assert not wanted.is_wanted(second)


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize(
    "device",
    [{"viewport": {"width": 1440, "height": 900}}, {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}],
    ids=["wide", "narrow"],
)
def test_the_page_offers_no_steps_and_says_why(device: dict[str, Any]) -> None:
    replaying, lend = ReplayEngine(pause=0.01), LentGpu()
    with chromium() as browser, serving(Services(replaying, device=LentDevice(replaying, lend, 120))) as address:
        page, watch = opened(browser, address, **device)
        step, why = page.locator("#cy-step"), page.locator("#cy-no-steps")
        assert step.is_disabled()
        assert "a GPU is lent for one run at a time" in why.inner_text()
        assert "arrow keys" in why.inner_text()
        assert why.is_visible()
        page.wait_for_function("() => document.querySelector('#cy-step').title.includes('GPU is lent')")
        assert step.get_attribute("aria-describedby") == "cy-no-steps"
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        step.click(force=True)
        assert page.evaluate("() => canopy.explore.buttons.state") == "idle"
        page.locator("#cy-run").click()
        page.wait_for_function("() => canopy.explore.log.id !== 'recorded' && canopy.explore.log.summary")
        page.wait_for_function("() => canopy.explore.buttons.state === 'idle'")
        assert step.is_disabled()
        assert len(lend.workers) == 1
        watch.check(address)


@pytest.mark.browser
@pytest.mark.slow
def test_a_device_that_can_wait_offers_steps(context: Any, address: str) -> None:
    page = context.new_page()
    page.goto(address)
    page.wait_for_function("() => document.querySelector('#cy-step')?.title === 'Decode one round, then wait'")
    assert page.locator("#cy-step").is_enabled()
    assert page.locator("#cy-no-steps").count() == 0

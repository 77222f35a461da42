"""A worker that dies in the middle of a run: the visitor is told, the rounds so far stay, the device is free."""

import gc
import json
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from decoding.exhaustion import is_out_of_memory
from decoding.target import Target
from decoding.trace import parse_trace
from tests.decoding import tiny
from tests.hardening.short_run import ROUNDS, write_short
from tests.hardening_counts import Tally
from tests.workbench.replay_engine import ReplayEngine
from workbench.engine import DecodingEngine
from workbench.run_request import CompareRequest, RunRequest
from workbench.run_store import Event
from workbench.services import Services

pytestmark = pytest.mark.hardening


def more_than_there_is() -> Any:
    """A real allocation that the system refuses, with the words of the real allocator."""
    return torch.empty(2**45)


def raising(kind: type[BaseException], *said: object) -> Callable[[], Any]:
    def fail() -> Any:
        raise kind(*said)  # made anew: an error that is kept keeps the frames that it came through

    return fail


DEATHS: dict[str, Callable[[], Any]] = {
    "bug": raising(ValueError, "secret inside"),
    "memory": raising(MemoryError),
    "cuda memory": raising(torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 20.00 GiB"),
    "cpu memory": more_than_there_is,
    "cublas": raising(RuntimeError, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    "forked worker": raising(BrokenProcessPool, "A process in the process pool was terminated abruptly"),
    "exit": raising(SystemExit, 1),
    "interrupt": raising(KeyboardInterrupt),
    "lost device": raising(RuntimeError, "CUDA error: device-side assert triggered"),
}


class DyingEngine(ReplayEngine):
    """Dies once, after so many rounds; holds a block of memory in the frame that fails."""

    def __init__(self, trace: Path, death: Callable[[], Any], rounds: int) -> None:
        super().__init__(trace)
        self.death: Callable[[], Any] | None = death
        self.rounds = rounds
        self.block: weakref.ref[torch.Tensor] | None = None
        self.alive_at_relief: bool | None = None

    def run(self, request: RunRequest, should_stop: Any, report: Any) -> Iterator[Event]:
        block = torch.empty(1000)
        self.block = weakref.ref(block)
        left = self.rounds
        for event in super().run(request, should_stop, report):
            if self.death is not None and left == 0:
                death, self.death = self.death, None
                death()
            left -= event["kind"] == "round"
            yield event

    def relieve(self) -> None:
        gc.collect()
        assert self.block is not None
        self.alive_at_relief = self.block() is not None
        super().relieve()


def asked() -> RunRequest:
    return RunRequest("Why?" * 100, "small", "mini", "tree", {"budget": 32})


def run(services: Services, ticket: str, request: RunRequest | CompareRequest) -> list[Event]:
    return [json.loads(line) for _, lines in services.stream(ticket, lambda: request) for line in lines]


@pytest.mark.parametrize("rounds", [0, 3])
@pytest.mark.parametrize("how", DEATHS)
def test_the_visitor_is_told_and_the_next_run_is_served(how: str, rounds: int, tmp_path: Path, tally: Tally) -> None:
    engine = DyingEngine(write_short(tmp_path / "run.jsonl"), DEATHS[how], rounds)
    services = Services(engine)
    events = run(services, "a" * 16, asked())
    assert events[-1]["kind"] == "error"
    assert events[-1]["hint"]
    assert "secret" not in json.dumps(events)
    assert sum(event["kind"] == "round" for event in events) == rounds, "nothing is lost but the round in flight"
    if rounds:
        trace = parse_trace(line.encode() for line in services.trace("a" * 16).splitlines(keepends=True))
        assert len(trace.rounds) == rounds
    assert services.status()["queue"] == {"length": 0, "stepping": 0}
    if "memory" in how or how == "cublas":
        assert "memory" in events[-1]["message"]
        assert events[-1]["hint"] == "Try a budget of 16 nodes, 64 new tokens, half the prompt, or a smaller model."
        assert engine.relieved == 1
        assert engine.alive_at_relief is False, "what the run held is let go before memory is handed back"
    else:
        assert engine.relieved == 0
    after = run(services, "b" * 16, asked())
    assert after[-1]["kind"] == "summary"
    assert sum(event["kind"] == "round" for event in after) == ROUNDS
    if rounds:
        tally(f"a worker that died after {rounds} rounds ({how}): told, {rounds} rounds kept, next run whole")


def test_a_stepped_run_that_dies_frees_its_place(tmp_path: Path) -> None:
    engine = DyingEngine(write_short(tmp_path / "run.jsonl"), DEATHS["bug"], 1)
    services = Services(engine)
    stream = services.stream("a" * 16, asked, stepping=True)
    told = threading.Event()

    def step() -> None:
        told.wait(20)
        services.step("a" * 16)

    threading.Thread(target=step, daemon=True).start()
    events = []
    for _, lines in stream:
        events += [json.loads(line) for line in lines]
        if any(event.get("waiting") == "step" for event in events):
            told.set()
    assert events[-1]["kind"] == "error"
    assert services.status()["queue"] == {"length": 0, "stepping": 0}


def test_a_thread_that_cannot_be_started_leaves_nothing_behind(tmp_path: Path, monkeypatch: Any) -> None:
    services = Services(ReplayEngine(write_short(tmp_path / "run.jsonl")))
    real = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        if self.name == "canopy-run":
            raise RuntimeError("can't start new thread")
        real(self)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            run(services, "a" * 16, asked())
    log = services.runs.find("a" * 16)
    assert log is not None
    assert not log.live
    assert run(services, "b" * 16, asked())[-1]["kind"] == "summary"


def test_memory_that_runs_out_in_a_real_forward_pass(tmp_path: Path, monkeypatch: Any) -> None:
    """The third forward pass of a tiny model finds no memory; the same run is whole right after, and the same again."""
    config = tiny.llama_config(initializer_range=0.4)
    folder = str(tiny.save_model(tmp_path / "target", LlamaForCausalLM, config))
    services = Services(DecodingEngine())
    (*_, (_, loaded)) = services.load("1" * 16, folder, "none")
    assert json.loads(loaded[-1])["kind"] == "loaded"
    text = RunRequest.text_settings({"max_new_tokens": 40})
    request = RunRequest("w5 w9 w5 w9", folder, "prompt-lookup", "pld", {}, text)
    whole = run(services, "2" * 16, request)[-1]
    real, calls = Target.forward, [0]

    def forward(self: Target, *args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        return more_than_there_is() if calls[0] == 3 else real(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Target, "forward", forward)
        events = run(services, "3" * 16, request)
    assert "not enough memory for the forward pass" in events[-1]["message"]
    assert "20 new tokens" in events[-1]["hint"]
    assert sum(event["kind"] == "round" for event in events) == 1
    assert run(services, "4" * 16, request)[-1]["output_ids"] == whole["output_ids"]


def test_other_failures_are_not_taken_for_memory() -> None:
    for error in (RuntimeError("shape mismatch"), ValueError("out of memory"), OSError("no such file")):
        assert not is_out_of_memory(error)
    with pytest.raises(RuntimeError) as refused:
        more_than_there_is()
    assert is_out_of_memory(refused.value)

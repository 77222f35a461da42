"""An engine for tests: replays a trace file, needs no model, and fits things together by three plain rules."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from decoding.errors import ModelUnavailable
from decoding.settings import Option, Settings, option, options_of
from workbench.engine import Choice
from workbench.run_request import RunRequest
from workbench.run_store import Event

WELCOME = Path(__file__).parents[2] / "static" / "traces" / "welcome.jsonl"


@dataclass(frozen=True)
class TreeSettings(Settings):
    budget: int = option(32, "most nodes drafted, the root not counted", low=1, high=256)
    top_k: int = option(8, "candidates of each position", low=1, high=16)
    chain: bool = option(False, "start from the most likely chain")
    order: str = option("best", "which node is next", choices=("best", "widest"))


class ReplayEngine:
    """`one-pass` drafter with `tree`, `lookup` with `chain`, none with `plain`. A prompt `fail` fails."""

    default_target = "small"
    default_strategy = "tree"

    def __init__(self, trace: Path = WELCOME, pause: float = 0.0) -> None:
        self.trace = trace
        self.pause = pause
        self.active = 0
        self.most_active = 0

    def targets(self) -> list[Choice]:
        return [("SmolLM2-135M-Instruct", "small")]

    def drafters(self) -> list[Choice]:
        return [("Block diffusion, mini", "mini"), ("Prompt lookup", "lookup"), ("DFlash for Qwen3-4B", "alien")]

    def strategies(self) -> list[Choice]:
        return [("DDTree", "tree"), ("Linear", "chain"), ("Plain decoding", "plain")]

    def options(self, strategy: str) -> dict[str, Option]:
        return options_of(TreeSettings if strategy == "tree" else Settings)

    def misfit(self, target: str, drafter: str, strategy: str) -> str | None:
        if drafter == "alien":
            return "DFlash for Qwen3-4B was trained for another target."
        wanted = {"tree": ("mini",), "chain": ("mini", "lookup"), "plain": ("none",)}[strategy]
        return None if drafter in wanted else f"{strategy} needs {' or '.join(wanted)}."

    def usual_drafter(self, target: str, strategy: str) -> str:
        return {"tree": "mini", "chain": "mini", "plain": "none"}[strategy]

    def run(
        self, request: RunRequest, should_stop: Callable[[], bool], report: Callable[[str], None]
    ) -> Iterator[Event]:
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            report("loading small")
            time.sleep(self.pause)
            if request.prompt == "fail":
                raise ModelUnavailable("The model could not be fetched.", "Check the network, then try again.")
            if request.prompt == "crash":
                raise RuntimeError("secret inside")
            yield from self._replay(request, should_stop)
        finally:
            self.active -= 1

    def _replay(self, request: RunRequest, should_stop: Callable[[], bool]) -> Iterator[Event]:
        events = [json.loads(line) for line in self.trace.read_text(encoding="utf-8").splitlines()]
        for event in events:
            if event["kind"] == "round":
                if should_stop():
                    continue
                time.sleep(self.pause)
            if event["kind"] == "header":
                event["prompt"] = request.prompt
            if event["kind"] == "summary" and should_stop():
                event["finish"] = "interrupted"
            if event["kind"] != "comparison":
                yield event
        if request.compare and not should_stop():
            lossless = {"identical": True, "first_divergence": None, "margin": None}
            yield {"kind": "comparison", "baseline": {}, "speedup": 1.42, "lossless": lossless}

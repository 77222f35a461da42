"""An engine for tests: replays a trace file, needs no model, and fits things together by three plain rules."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from decoding.errors import BadRequest, ModelUnavailable
from decoding.settings import Option, Settings, option, options_of, parse_settings
from workbench.engine import Choice
from workbench.run_request import CompareRequest, RunRequest
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
        self.decoding = 0
        self.most_decoding = 0
        self.relieved = 0
        self.holds: dict[str, dict[str, Any]] = {}
        self.named: list[Choice] = []

    def warm_up(self) -> None:
        """Nothing: a recorded run is there at once."""

    def targets(self) -> list[Choice]:
        return [("SmolLM2-135M-Instruct", "small"), *self.named]

    def verifiers(self) -> list[Choice]:
        return [("Greedy", "greedy")]

    def max_nodes(self, strategy: str, settings: Mapping[str, object]) -> int:
        if strategy == "tree":
            return parse_settings(TreeSettings, settings).budget
        parse_settings(Settings, settings)
        return 0

    def survey(self, target: str, drafter: str) -> dict[str, Any]:
        """`absent` is not there, everything else fits."""
        if target == "absent":
            raise ModelUnavailable("There is no model absent on the Hub.", "Check the spelling (owner/name).")
        return {"said": [f"{target}: 1 M parameters.", "Everything is on this machine already."], "refuses": []}

    def load(self, target: str, drafter: str, report: Callable[[str], None]) -> tuple[str, str]:
        for part in range(5):
            report(f"Fetching {target}: {part * 20} of 100 MB.")
            time.sleep(self.pause)
        self.holds = {target: self._part(target, "target")}
        if drafter != "none":
            self.holds[drafter] = self._part(drafter, "drafter")
        if target != "small":
            self.named.append((target, target))
        return target, drafter

    def _part(self, name: str, role: str) -> dict[str, Any]:
        return {
            "id": name,
            "role": role,
            "parameters": 135_000_000 if role == "target" else 12_000_000,
            "bytes": 540_000_000 if role == "target" else 50_000_000,
            "device": "cpu",
            "dtype": "float32",
            "since": "2026-01-01T12:00:00+00:00",
            "kernels": True,
            "note": "float32: exact on a CPU" if role == "target" else "",
        }

    def loaded(self) -> list[dict[str, Any]]:
        return list(self.holds.values())

    def unload(self, name: str) -> None:
        if name not in self.holds:
            raise BadRequest(f"{name!r} is not loaded.", "Look at what is.")
        role = self.holds.pop(name)["role"]
        if role == "target":
            self.holds = {}

    def relieve(self) -> None:
        self.relieved += 1

    def memory(self) -> dict[str, Any]:
        return {"device": "cpu", "held": 900_000_000, "free": 4_000_000_000}

    def versions(self) -> dict[str, str]:
        return {"canopy": "test"}

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

    def no_room(self, target: str) -> str:
        return ""

    def usual_drafter(self, target: str, strategy: str) -> str:
        return {"tree": "mini", "chain": "mini", "plain": "none"}[strategy]

    def run(
        self, request: RunRequest, should_stop: Callable[[], bool], report: Callable[[str], None]
    ) -> Iterator[Event]:
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            report("loading small")
            self.holds.setdefault("small", self._part("small", "target"))
            time.sleep(self.pause)
            if request.prompt == "fail":
                raise ModelUnavailable("The model could not be fetched.", "Check the network, then try again.")
            if request.prompt == "crash":
                raise RuntimeError("secret inside")
            yield from self._replay(request, should_stop)
        finally:
            self.active -= 1

    def compare(
        self, request: CompareRequest, should_stop: Callable[[], bool], report: Callable[[str], None]
    ) -> Iterator[Event]:
        """`tree` replays the trace, `chain` the same text drafting one token a round; budget 13 fails, order `widest`
        parts from plain decoding where its fifth round ends."""
        first = request.ways[0]
        for lane, way in enumerate((replace(first, strategy="plain", settings={}), *request.ways)):
            if should_stop():
                return
            if way.settings.get("budget") == 13:
                yield {"lane": lane, "kind": "error", "message": "No luck.", "hint": "Take another budget."}
                continue
            for event in self.run(replace(way, compare=False), should_stop, report):
                yield {"lane": lane, **event}
            if lane and not should_stop():
                parted = way.settings.get("order") == "widest"
                place = len(self._output(way)) - 1 if parted else None
                lossless = {"identical": not parted, "first_divergence": place, "margin": 0.0125 if parted else None}
                yield {"lane": lane, "kind": "comparison", "baseline": {}, "speedup": 0.5 + lane, "lossless": lossless}

    def _output(self, request: RunRequest) -> list[int]:
        *_, summary = self._replay(request, lambda: False)
        return list(summary["output_ids"])

    def _replay(self, request: RunRequest, should_stop: Callable[[], bool]) -> Iterator[Event]:
        for event in self._recorded(request):
            if event["kind"] == "round":
                if should_stop():
                    continue
                self.decoding += 1
                self.most_decoding = max(self.most_decoding, self.decoding)
                time.sleep(self.pause)
                self.decoding -= 1
            if event["kind"] == "header":
                event["prompt"] = request.prompt
            if event["kind"] == "summary" and should_stop():
                event["finish"] = "interrupted"
            if event["kind"] != "comparison":
                yield event
        if request.compare and not should_stop():
            lossless = {"identical": True, "first_divergence": None, "margin": None}
            yield {"kind": "comparison", "baseline": {}, "speedup": 1.42, "lossless": lossless}

    def _recorded(self, request: RunRequest) -> list[Event]:
        events = [json.loads(line) for line in self.trace.read_text(encoding="utf-8").splitlines()]
        header, *rounds, summary = (event for event in events if event["kind"] != "comparison")
        if request.strategy != "tree":
            rounds = [piece for item in rounds for piece in shortened(item, 1 if request.strategy == "chain" else 0)]
            header["strategy"] = request.strategy
        if request.settings.get("order") == "widest":
            rounds = rounds[:5]
            rounds[-1]["emitted"][-1] += 1
        for index, item in enumerate(rounds):
            item["index"] = index
        header["settings"] = dict(request.settings) if request.strategy == "tree" else {}
        emitted = sum(len(item["emitted"]) for item in rounds)
        accepted = sum(len(item["verdict"]["path"]) - 1 for item in rounds)
        drafted = sum(len(item["tree"]["token"]) - 1 for item in rounds)
        seconds = sum(sum(item["seconds"].values()) for item in rounds)
        summary["metrics"] |= {
            "rounds": len(rounds),
            "new_tokens": 1 + emitted,
            "drafted_tokens": drafted,
            "accepted_tokens": accepted,
            "tokens_per_round": emitted / len(rounds),
            "accepted_per_round": accepted / len(rounds),
            "acceptance_rate": accepted / drafted if drafted else None,
            "tokens_per_second": emitted / seconds,
            "tpot_seconds": seconds / emitted,
            "decode_seconds": seconds,
        }
        summary["output_ids"] = [header["first_token"], *(token for item in rounds for token in item["emitted"])]
        return [header, *rounds, summary]


def shortened(item: Event, length: int) -> Iterator[Event]:
    """A round as several that draft chains of at most `length` tokens: the same text, fewer tokens a round."""
    tree, verdict, emitted = item["tree"], item["verdict"], item["emitted"]
    path = verdict["path"][: len(emitted)]
    for start in range(0, len(path), length + 1):
        nodes = path[start : start + length + 1]
        said = emitted[start : start + len(nodes)]
        below = [node for node, parent in enumerate(tree["parent"]) if parent == nodes[-1]]
        drafted = [*nodes, *below[: length + 1 - len(nodes)]]
        rows = {name: [verdict[name][node] for node in drafted] for name in verdict if name not in ("path", "bonus")}
        columns = {name: [column[node] for node in drafted] for name, column in tree.items()}
        columns["source"][0] = tree["source"][0]  # whatever it was in the larger tree, here it is the root
        yield item | {
            "tree": columns | {"parent": list(range(-1, len(drafted) - 1))},
            "marginals": None,
            "verdict": rows | {"path": list(range(len(nodes))), "bonus": said[-1]},
            "emitted": said,
            "emitted_text": item["emitted_text"][start : start + len(nodes)],
            "pieces": item["pieces"] if start == 0 else {},
        }

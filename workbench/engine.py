"""The seam to the core: what can be chosen, what fits, what is loaded, and a run as a stream of trace events."""

import gc
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from decoding.menu import misfit_of, named_with_drafters
from decoding.presets import DEFAULT_TARGET, PRESETS
from decoding.settings import Option
from workbench.boundary import explain
from workbench.run_request import CompareRequest, RunRequest
from workbench.run_store import Event

if TYPE_CHECKING:
    from decoding.model_store import Loaded, ModelStore
    from decoding.run import RunSettings

Choice = tuple[str, str]
"""Title and id, the order in which Gradio wants them."""
Report = Callable[[str], None]


class Engine(Protocol):
    """What the page needs of the core."""

    default_target: str
    default_strategy: str

    def warm_up(self) -> None:
        """Gets ready what the first run would wait for."""
        ...

    def targets(self) -> list[Choice]: ...

    def drafters(self) -> list[Choice]:
        """Without `none`, which stands for no drafter at all."""
        ...

    def strategies(self) -> list[Choice]: ...

    def verifiers(self) -> list[Choice]: ...

    def options(self, strategy: str) -> dict[str, Option]:
        """The settings of a strategy."""
        ...

    def max_nodes(self, strategy: str, settings: Mapping[str, object]) -> int:
        """The most nodes that a tree of these settings can have; raises BadRequest for bad settings."""
        ...

    def misfit(self, target: str, drafter: str, strategy: str) -> str | None:
        """Why these do not go together, None where they do. `drafter` may be `none`."""
        ...

    def no_room(self, target: str) -> str:
        """Why a target cannot be had on this machine, with the figures; empty where it can."""
        ...

    def usual_drafter(self, target: str, strategy: str) -> str:
        """The drafter that a strategy is usually run with, or `none`."""
        ...

    def run(self, request: RunRequest, should_stop: Callable[[], bool], report: Report) -> Iterator[Event]:
        """The events of a run. `should_stop` is asked before every round and may take its time."""
        ...

    def compare(self, request: CompareRequest, should_stop: Callable[[], bool], report: Report) -> Iterator[Event]:
        """The events of several runs, each with its `lane`: 0 is plain decoding, then the ways in their order.

        The error of one way is an event of its lane and does not end the others.
        """
        ...

    def survey(self, target: str, drafter: str) -> dict[str, Any]:
        """`said`, sentences on a pair that has not been loaded, and `refuses`, strategies with reasons."""
        ...

    def load(self, target: str, drafter: str, report: Report) -> tuple[str, str]:
        """Loads a pair and gives both a place among the targets and drafters: the ids that they have there.

        What `report` raises ends it.
        """
        ...

    def loaded(self) -> list[dict[str, Any]]:
        """What is loaded: see `decoding.model_store.Loaded`."""
        ...

    def unload(self, name: str) -> None:
        """Frees a drafter, or with the target everything."""
        ...

    def relieve(self) -> None:
        """Hands back what a run that failed has left behind, so that the next one has the memory."""
        ...

    def memory(self) -> dict[str, Any]:
        """`device`, `held` and `free` bytes there (`free` None where the system does not say)."""
        ...

    def versions(self) -> dict[str, str]: ...


class DecodingEngine:
    """The core of this project.

    What says what there is is imported at birth and not before: it brings torch along. What loads and decodes comes
    with the first run, or with `warm_up`: a page can be served without it, a few seconds earlier.
    """

    def __init__(self) -> None:
        from decoding import catalogue, devices, fit, memory
        from decoding.strategies import STRATEGIES
        from decoding.verifiers import VERIFIERS
        from workbench.placed_models import PlacedModels

        self._catalogue, self._fit = catalogue, fit
        self._devices, self._memory = devices, memory
        self._strategies, self._verifiers = STRATEGIES, VERIFIERS
        self._store: ModelStore | None = None
        self._storing = threading.Lock()
        self._placed = PlacedModels()
        self._targets = {item.id: item for item in catalogue.targets()}
        self._drafters = {item.id: item for item in catalogue.drafters()}
        self.default_target = DEFAULT_TARGET
        self.default_strategy = catalogue.usual_strategy(self.default_target)

    def warm_up(self) -> None:
        """Imports what loads and decodes."""
        from decoding import lanes, run  # noqa: F401

    @property
    def _models(self) -> "ModelStore":
        """What is loaded on demand lies here."""
        from decoding.model_store import ModelStore

        with self._storing:
            if self._store is None:
                self._store = ModelStore()
            return self._store

    def _on_demand(self) -> "tuple[Loaded, ...]":
        return () if self._store is None else self._store.loaded()

    def targets(self) -> list[Choice]:
        return [(item.title, item.id) for item in list(self._targets.values())]

    def drafters(self) -> list[Choice]:
        return [(item.title, item.id) for item in list(self._drafters.values())]

    def strategies(self) -> list[Choice]:
        return [(item.title, name) for name, item in self._strategies.items()]

    def verifiers(self) -> list[Choice]:
        return [(item.title, name) for name, item in self._verifiers.items()]

    def options(self, strategy: str) -> dict[str, Option]:
        from decoding.settings import options_of

        return options_of(self._strategies[strategy].settings_class)

    def max_nodes(self, strategy: str, settings: Mapping[str, object]) -> int:
        from decoding.strategies import make_strategy

        return make_strategy(strategy, settings).max_nodes

    def misfit(self, target: str, drafter: str, strategy: str) -> str | None:
        info = None if drafter == "none" else self._drafters[drafter]
        return self._fit.misfit(self._targets[target], info, self._strategies[strategy])

    def no_room(self, target: str) -> str:
        if self._placed.targets:
            return self._placed.reason(target)
        if any(item.id == target for item in self._on_demand()):
            return ""
        device = self._devices.pick_device("auto")
        free = self._devices.free_bytes(device)
        return misfit_of(target, None if free is None else free + self._held(), device.type)

    def _held(self) -> int:
        """Bytes that would be free again if what is loaded went."""
        return sum(item.bytes for item in self._on_demand())

    def place(self, wanted: Sequence[str], report: Report) -> frozenset[str]:
        """Loads a menu of presets with their drafters for good, for workers that are forked later.

        Gives the ids of what has been loaded; the default target is then the first of them. Raises UnknownName for what
        is no preset, and the error of the first where nothing can be loaded. On the main thread, see `zero_gpu`.
        """
        placed = self._placed.fill(wanted, self._devices.free_bytes(self._devices.pick_device("auto")), report)
        if self.default_target not in placed:
            self.default_target = self._placed.targets[0]
            self.default_strategy = self._catalogue.usual_strategy(self.default_target)
        return placed

    def menu(self, wanted: Sequence[str]) -> frozenset[str]:
        """Ids of the presets `wanted` and of the drafters published for them, to be loaded on demand.

        Nothing is `wanted`: all on a GPU, none on a CPU, where they would be too slow for visitors. Raises UnknownName.
        """
        names = wanted
        if not wanted and self._devices.pick_device("auto").type != "cpu":
            names = tuple(self._targets)
        return frozenset(one for name in names for one in named_with_drafters(name))

    def usual_drafter(self, target: str, strategy: str) -> str:
        return self._catalogue.usual_drafter(target, self._strategies[strategy]) or "none"

    def run(self, request: RunRequest, should_stop: Callable[[], bool], report: Report) -> Iterator[Event]:
        from decoding import run

        self._fetch([request], report)
        stream = run.compare if request.compare else run.run
        yield from stream(self._settings(request), self._models_for(request.target), should_stop, report)

    def compare(self, request: CompareRequest, should_stop: Callable[[], bool], report: Report) -> Iterator[Event]:
        from decoding import lanes

        self._fetch(request.ways, report)
        ways = [self._settings(way) for way in request.ways]
        yield from lanes.side_by_side(ways, self._models_for(request.target), _failed, should_stop, report)

    def _fetch(self, ways: Sequence[RunRequest], report: Report) -> None:
        """Fetches what of the presets is not here yet, telling how far it has come; nothing for ways that misfit."""
        from decoding.fetch import fetch_checkpoint

        wanted: set[str] = set()
        for way in ways:
            drafter = self.usual_drafter(way.target, way.strategy) if way.drafter is None else way.drafter
            if self.misfit(way.target, drafter, way.strategy) is None:
                wanted |= {way.target, drafter}
        for name in sorted(wanted & {one for preset in PRESETS for one in (preset.id, *preset.drafters)}):
            fetch_checkpoint(name, report)

    def _models_for(self, target: str) -> "ModelStore":
        return self._placed.of(target) or self._models

    def _settings(self, request: RunRequest) -> "RunSettings":
        from decoding.run import RunSettings

        return RunSettings(
            prompt=request.prompt,
            target=request.target,
            drafter=request.drafter,
            strategy=request.strategy,
            settings=dict(request.settings),
            verifier=request.verifier,
            **request.text.as_dict(),
        )

    def survey(self, target: str, drafter: str) -> dict[str, Any]:
        from decoding.survey import survey_pair

        found = survey_pair(target, drafter, self._held())
        return {"said": found.sentences(), "refuses": list(found.refuses)}

    def load(self, target: str, drafter: str, report: Report) -> tuple[str, str]:
        from decoding.fetch import fetch_checkpoint

        for name in (target, drafter):
            fetch_checkpoint(name, report)
        facts = self._catalogue.target_info(target)
        loaded = self._models.target(facts.id, "auto", "auto", report)
        info = None if drafter == "none" else self._catalogue.drafter_info(drafter)
        if info is not None:
            self._models.drafter(info.id, loaded, report)
            self._drafters.setdefault(info.id, info)
        self._targets.setdefault(facts.id, facts)
        return facts.id, info.id if info is not None else "none"

    def loaded(self) -> list[dict[str, Any]]:
        return [asdict(item) for item in (*self._placed.loaded(), *self._on_demand())]

    def unload(self, name: str) -> None:
        self._models.unload(name)

    def relieve(self) -> None:
        from decoding.kv_cache import free_memory

        gc.collect()
        free_memory(self._devices.pick_device("auto"))

    def memory(self) -> dict[str, Any]:
        device = self._devices.pick_device("auto")
        return {
            "device": device.type,
            "held": self._memory.resident_bytes(device),
            "free": self._devices.free_bytes(device),
        }

    def versions(self) -> dict[str, str]:
        from decoding.provenance import git_commit, library_versions

        commit, _, changed = git_commit().partition("-")
        return {"canopy": (commit[:12] or "unknown") + (", changed" if changed else ""), **library_versions()}


def _failed(error: Exception) -> Event:
    return explain(error).event()

"""Keeps what has been loaded: one target and its drafters, so that the next run starts at once."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from torch import nn

from decoding.catalogue import drafter_info, target_info, usual_drafter
from decoding.drafter_loading import load_drafter
from decoding.drafters.base import Drafter, StepwiseDrafter
from decoding.errors import BadRequest
from decoding.fit import DrafterInfo, require_fit
from decoding.kernels.prepare import prepare
from decoding.kv_cache import free_memory
from decoding.memory import tensor_bytes
from decoding.models import load_causal_lm
from decoding.settings import Settings
from decoding.strategies.base import Strategy
from decoding.target import Target
from decoding.types import Source

Report = Callable[[str], None]
Role = Literal["target", "drafter", "retrieval source"]


@dataclass(frozen=True)
class Loaded:
    """What is known of something that has been loaded, as it was right after loading."""

    id: str
    role: Role
    parameters: int
    """Numbers of its own network; 0 where it has none."""
    bytes: int
    """Of its own tensors and arrays, those it shares with the target left out; a run's cache comes on top."""
    device: str
    dtype: str
    since: str
    """UTC, ISO 8601."""
    kernels: bool
    """Whether this project's kernels run its layers, instead of transformers and torch."""
    note: str = ""
    """Why this dtype; empty but for targets."""


class ModelStore:
    """At most one target is held at a time; asking for another frees it and its drafters first.

    A drafter keeps the state of one run. Where a run waits while another begins, each has a drafter of its own: see
    `using`.
    """

    def __init__(self) -> None:
        self._target: Target | None = None
        self._key: tuple[str, str, str] | None = None
        self._drafters: dict[str, list[Drafter]] = {}
        self._in_use: list[Drafter] = []
        self._facts: dict[str, Loaded] = {}
        self._lock = threading.Lock()

    def choose_drafter(
        self, target_id: str, drafter_id: str | None, strategy: type[Strategy[Settings]]
    ) -> DrafterInfo | None:
        """The drafter of a run, None where the strategy uses none; raises Incompatible before anything loads."""
        target = target_info(target_id)
        if drafter_id is None:
            drafter_id = usual_drafter(target_id, strategy)
        info = None if drafter_id in (None, "none") else drafter_info(drafter_id)
        require_fit(target, info, strategy)
        return info

    def target(self, target_id: str, dtype: str, device: str, report: Report) -> Target:
        """The target, loaded if it is not the one held."""
        key = (target_id, dtype, device)
        if self._target is None or key != self._key:
            self.clear()
            report(f"loading {target_id}")
            with ThreadPoolExecutor(1) as pool:
                kernels = pool.submit(prepare)  # compiled once on a machine: some seconds, beside the loading
                loaded = load_causal_lm(target_id, dtype, device, report)
                kernels.result()
            report(f"{loaded.name} is ready: {loaded.dtype} on {loaded.device} ({loaded.dtype_reason})")
            target = Target(loaded.model, loaded.tokenizer, loaded.name)
            with self._lock:
                self._target, self._key = target, key
                self._facts[target_id] = _facts_of_target(target_id, target, loaded.dtype_reason)
        assert self._target is not None
        return self._target

    def drafter(self, drafter_id: str, target: Target, report: Report) -> Drafter:
        """A drafter of the target that is held, one that no open run is using."""
        with self._lock:
            idle = [one for one in self._drafters.get(drafter_id, ()) if not _among(one, self._in_use)]
        if idle:
            return idle[0]
        report(f"loading drafter {drafter_id}")
        drafter = load_drafter(drafter_id, target, report)
        with self._lock:
            self._drafters.setdefault(drafter_id, []).append(drafter)
            self._facts.setdefault(drafter_id, _facts_of_drafter(drafter_id, drafter, target))
        return drafter

    def retrieval(self, strategy: type[Strategy[Settings]], target: Target, report: Report) -> StepwiseDrafter | None:
        """The retrieval source that the strategy takes beside its drafter; None where it takes none."""
        if strategy.retrieval is None:
            return None
        source = self.drafter(strategy.retrieval, target, report)
        if not isinstance(source, StepwiseDrafter):
            raise TypeError(f"{strategy.name} declares {source.name}, which is no stepwise source")
        return source

    @contextmanager
    def using(self, *drafters: Drafter | None) -> Iterator[None]:
        """Inside, these drafters belong to one run; afterwards one of each name stays loaded."""
        taken = [drafter for drafter in drafters if drafter is not None]
        with self._lock:
            self._in_use += taken
        try:
            yield
        finally:
            with self._lock:
                for drafter in taken:
                    self._in_use = [one for one in self._in_use if one is not drafter]
                for name, loaded in self._drafters.items():
                    busy = [one for one in loaded if _among(one, self._in_use)]
                    self._drafters[name] = busy + [one for one in loaded if not _among(one, busy)][:1]

    def loaded(self) -> tuple[Loaded, ...]:
        """What is loaded, the target first. Any thread may ask."""
        with self._lock:
            return tuple(self._facts.values())

    def unload(self, name: str) -> None:
        """Frees a drafter, or with the target everything; raises BadRequest for what is not loaded or is in use."""
        with self._lock:
            known, busy = self._facts.get(name), bool(self._in_use)
            if known is None:
                raise BadRequest(f"{name!r} is not loaded.", "Look at what is: the list may have changed meanwhile.")
            if busy:
                raise BadRequest(f"{name} is in use by a run.", "Stop the run, or wait until it has ended.")
            if known.role != "target":
                del self._drafters[name], self._facts[name]
        if known.role == "target":
            self.clear()
        elif self._target is not None:
            free_memory(self._target.device)

    def clear(self) -> None:
        """Frees everything."""
        device = self._target.device if self._target is not None else None
        with self._lock:
            self._target, self._key, self._drafters, self._facts = None, None, {}, {}
        if device is not None:
            free_memory(device)


def _among(drafter: Drafter, others: list[Drafter]) -> bool:
    return any(drafter is other for other in others)


def _facts_of_target(name: str, target: Target, note: str) -> Loaded:
    return Loaded(
        name, "target", _parameters(target.model), tensor_bytes(target), str(target.device), _named(target.dtype),
        _now(), target.runs_on_kernels, note,
    )  # fmt: skip


def _facts_of_drafter(name: str, drafter: Drafter, target: Target) -> Loaded:
    network = getattr(drafter, "model", None)
    module: nn.Module | None = network
    if isinstance(network, Target):
        module = network.model if network is not target else None
    first = next(module.parameters()) if module is not None else None
    return Loaded(
        id=name,
        role="retrieval source" if drafter.source == Source.RETRIEVAL else "drafter",
        parameters=_parameters(module),
        bytes=tensor_bytes(drafter, besides=(target,)),
        device=str(first.device) if first is not None else str(target.device) if network is target else "cpu",
        dtype=_named(first.dtype) if first is not None else _named(target.dtype) if network is target else "",
        since=_now(),
        kernels=drafter.runs_on_kernels,
    )


def _parameters(module: nn.Module | None) -> int:
    return sum(parameter.numel() for parameter in module.parameters()) if module is not None else 0


def _named(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

"""Keeps what has been loaded: one target and its drafters, so that the next run starts at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from decoding.catalogue import drafter_info, load_drafter, target_info, usual_drafter
from decoding.drafters.base import Drafter, StepwiseDrafter
from decoding.fit import DrafterInfo, require_fit
from decoding.kernels.prepare import prepare
from decoding.kv_cache import free_memory
from decoding.models import load_causal_lm
from decoding.settings import Settings
from decoding.strategies.base import Strategy
from decoding.target import Target

Report = Callable[[str], None]


class ModelStore:
    """At most one target is held at a time; asking for another frees it and its drafters first."""

    def __init__(self) -> None:
        self._target: Target | None = None
        self._key: tuple[str, str, str] | None = None
        self._drafters: dict[str, Drafter] = {}

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
            self._target = Target(loaded.model, loaded.tokenizer, loaded.name)
            self._key = key
        return self._target

    def drafter(self, drafter_id: str, target: Target, report: Report) -> Drafter:
        """A drafter of the target that is held."""
        if drafter_id not in self._drafters:
            report(f"loading drafter {drafter_id}")
            self._drafters[drafter_id] = load_drafter(drafter_id, target, report)
        return self._drafters[drafter_id]

    def retrieval(self, strategy: type[Strategy[Settings]], target: Target, report: Report) -> StepwiseDrafter | None:
        """The retrieval source that the strategy takes beside its drafter; None where it takes none."""
        if strategy.retrieval is None:
            return None
        source = self.drafter(strategy.retrieval, target, report)
        if not isinstance(source, StepwiseDrafter):
            raise TypeError(f"{strategy.name} declares {source.name}, which is no stepwise source")
        return source

    def clear(self) -> None:
        """Frees everything."""
        device = self._target.device if self._target is not None else None
        self._target, self._key, self._drafters = None, None, {}
        if device is not None:
            free_memory(device)

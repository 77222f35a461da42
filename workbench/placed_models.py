"""Models that are loaded before the first run and stay: the menu of a Space whose workers are forked."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from decoding.errors import CanopyError
from decoding.menu import named_with_drafters, placed_together
from decoding.shipped import MATRIX, SHIPPED

if TYPE_CHECKING:
    from decoding.model_store import Loaded, ModelStore

Report = Callable[[str], None]


class PlacedModels:
    """Several targets side by side, each with its own drafters, all on one device."""

    def __init__(self) -> None:
        self._stores: dict[str, ModelStore] = {}
        self._reasons: dict[str, str] = {}

    @property
    def targets(self) -> tuple[str, ...]:
        """Ids, in the order of the menu."""
        return tuple(self._stores)

    def of(self, target: str) -> "ModelStore | None":
        """Where a target and its drafters lie; None where it has not been placed."""
        return self._stores.get(target)

    def reason(self, target: str) -> str:
        """Why a target has not been placed; empty where it has."""
        if target in self._stores:
            return ""
        return self._reasons.get(target, "It is not on the menu of this Space: a GPU is lent for seconds only.")

    def loaded(self) -> "tuple[Loaded, ...]":
        """All of them, each target before its drafters."""
        return tuple(item for store in self._stores.values() for item in store.loaded())

    def fill(self, wanted: Sequence[str], free_bytes: int | None, report: Report) -> frozenset[str]:
        """Places what fits of `wanted` and gives the ids of targets and drafters that are there.

        What cannot be loaded is left out with its reason. Raises UnknownName for what is no preset, and the last error
        where no target could be placed at all.
        """
        for name in wanted:
            named_with_drafters(name)  # refuses what is no preset before anything loads
        fit, self._reasons = placed_together(wanted, free_bytes)
        placed: set[str] = set()
        for name in fit:
            try:
                placed |= self._place(name, report)
            except CanopyError as error:
                self._reasons[name] = f"{error.message} {error.hint}"
                report(self._reasons[name])
        if not self._stores:
            raise CanopyError(
                "None of the models of this Space could be loaded.", " ".join(self._reasons.values()) or "Name some."
            )
        return frozenset(placed)

    def _place(self, name: str, report: Report) -> set[str]:
        from decoding.model_store import ModelStore

        store = ModelStore()
        preset, *published = named_with_drafters(name)
        target = store.target(preset, "auto", "auto", report)
        self._stores[preset] = store
        placed = {preset}
        own = (item.id for item in SHIPPED if item.target == preset and item.kind != MATRIX)
        for drafter in (*own, *published):
            try:
                store.drafter(drafter, target, report)
            except CanopyError as error:
                report(f"{drafter} is left out: {error.message}")
            else:
                placed.add(drafter)
        return placed

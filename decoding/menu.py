"""Which presets fit a device: what each takes with its largest drafter, against the memory that can be had."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from decoding.errors import UnknownName
from decoding.memory import as_size
from decoding.presets import EMBEDDED, PRESETS, Preset, find_preset

BYTES_A_NUMBER = 2
"""In 16 bits, in which a GPU computes; a CPU falls back to it where float32 does not fit."""
ROOM_FOR_A_RUN = 1_500_000_000
"""Bytes beside the weights: the cache of a long text, the activations and logits of a large tree, the driver's own."""
PLACED = ("smollm2-135m", "qwen3-4b")
"""The default menu of a GPU that is lent for seconds: all of it is copied there each time, so it stays small."""


@dataclass(frozen=True)
class MenuItem:
    """A preset, judged against a device."""

    id: str
    title: str
    needed_bytes: int
    reason: str
    """Why it is not offered, in one sentence with both figures; empty where it fits."""


def menu(free_bytes: int | None, device: str = "cuda") -> tuple[MenuItem, ...]:
    """All presets with what they need; `free_bytes` is what could be had with nothing loaded, None for unknown.

    The embedded model is always offered: it is the one that needs no look at the memory.
    """
    return tuple(
        MenuItem(preset.id, preset.title, needed_bytes(preset), _why_not(preset, free_bytes, device))
        for preset in PRESETS
    )


def misfit_of(target_id: str, free_bytes: int | None, device: str) -> str:
    """Why a target does not fit; empty where it does, and for what is no preset: that is judged as it loads."""
    preset = find_preset(target_id)
    return "" if preset is None else _why_not(preset, free_bytes, device)


def placed_together(wanted: Sequence[str], free_bytes: int | None) -> tuple[tuple[str, ...], dict[str, str]]:
    """Of `wanted`, in that order, the presets that fit side by side; and for each of the others why not.

    Room for a run is counted once: they take turns.
    """
    room = None if free_bytes is None else free_bytes - ROOM_FOR_A_RUN
    fit: list[str] = []
    reasons: dict[str, str] = {}
    for name in wanted:
        preset = find_preset(name)
        size = 0 if preset is None else needed_bytes(preset, placed=True)
        if preset is not None and room is not None and size > room:
            beside = f" beside {', '.join(fit)}" if fit else ""
            left = as_size(max(0, room))
            reasons[name] = f"{preset.title} takes {as_size(size)} with its drafters; {left} are left{beside}."
            continue
        fit.append(name)
        room = None if room is None else room - size
    return tuple(fit), reasons


def needed_bytes(preset: Preset, placed: bool = False) -> int:
    """Bytes for the weights of a preset and its largest drafter, and a run; `placed` with every drafter, and no run."""
    drafters = len(preset.drafters) if placed else min(1, len(preset.drafters))
    weights = round((preset.parameters + drafters * preset.drafter_parameters) * 1e9) * BYTES_A_NUMBER
    return weights + (0 if placed else ROOM_FOR_A_RUN)


def named_with_drafters(name: str) -> tuple[str, ...]:
    """The id of a preset and those of its published drafters; raises UnknownName for what is no preset."""
    preset = find_preset(name)
    if preset is None:
        raise UnknownName("model", name, [one.id for one in PRESETS])
    return (preset.id, *preset.drafters)


def preloaded(names: Iterable[str] = PLACED) -> tuple[str, ...]:
    """The Hub ids that a menu fetches: its targets, each with the published drafters, but for what is embedded."""
    presets = [preset for name in names if (preset := find_preset(name)) is not None and preset.source != EMBEDDED]
    return tuple(one for preset in presets for one in (preset.source, *preset.drafters))


def _why_not(preset: Preset, free_bytes: int | None, device: str) -> str:
    needed = needed_bytes(preset)
    if preset.source == EMBEDDED or free_bytes is None or needed <= free_bytes:
        return ""
    takes = as_size(needed) + (" with its drafter" if preset.drafters else "")
    return f"{preset.title} takes {takes} in 16 bits; {as_size(free_bytes)} can be had on {device}."

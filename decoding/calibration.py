"""What was measured once for a pair of target and drafter: thresholds, kept as small JSON files in the user's cache.

    <cache>/canopy/calibration/<target>--<drafter>--<strategy>-<digest>.json

The digest stands for the pair: the ids, for a shipped drafter also the sums of its files and for a local folder the
sizes and times of its files, so that a drafter trained anew is a new pair. The matrix that retrieval was warmed up with
lies beside it, one for each target.
"""

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from decoding.errors import BadRequest, CanopyError
from decoding.files import write_atomically
from decoding.presets import find_preset
from decoding.shipped import SUMS, Shipped, find_shipped
from decoding.user_cache import user_cache

VERSION = 1
MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Calibration:
    """Measured thresholds of one strategy for one pair."""

    strategy: str
    target: str
    drafter: str
    thresholds: dict[str, float]
    """By the name of the setting; each from 0 to 1."""
    details: dict[str, Any] = field(default_factory=dict)
    """How they came about: JSON values only."""

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return calibration_path(self.strategy, self.target, self.drafter)

    def save(self) -> Path:
        """Writes the file in one step: a reader finds the old one or the new one, whole."""
        path = self.path
        stored = {"version": VERSION, "pair": identity_digest(self.strategy, self.target, self.drafter), **asdict(self)}
        try:
            write_atomically(path, json.dumps(stored, indent=1, ensure_ascii=False, allow_nan=False))
        except OSError as error:
            raise CanopyError(
                f"The calibration {path} cannot be written: {error.strerror}.",
                "Set CANOPY_CACHE to a folder that can be written.",
            ) from None
        return path


def load_calibration(strategy: str, target: str, drafter: str) -> Calibration | None:
    """What is kept for the pair, None where there is nothing; raises BadRequest naming a file that is damaged."""
    path = calibration_path(strategy, target, drafter)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError("it is too large")
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.pop("version") != VERSION:
            raise ValueError("it was written by another version")
        if stored.pop("pair") != identity_digest(strategy, target, drafter):
            raise ValueError("it was made for another pair")
        found = Calibration(**stored)
        values = found.thresholds.values()
        if not all(isinstance(value, int | float) and 0 <= value <= 1 for value in values):
            raise ValueError("a threshold is not a number from 0 to 1")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = error if type(error) is ValueError else "it is no calibration"
        raise BadRequest(f"The calibration {path} cannot be used: {reason}.", _AGAIN) from None
    return found


_AGAIN = "Delete it, or make it again with: python -m decoding calibrate"


def calibration_path(strategy: str, target: str, drafter: str) -> Path:
    """Where the calibration of a pair lies, whether it is there or not."""
    digest = identity_digest(strategy, target, drafter)
    return _folder() / f"{slug(target)}--{slug(drafter)}--{slug(strategy)}-{digest}.json"


def matrix_path(target: str) -> Path:
    """Where the transition matrix of a target's warm-up lies, whether it is there or not."""
    return _folder() / f"{slug(target)}--transitions-{identity_digest('transitions', target)}.safetensors"


def _folder() -> Path:
    return user_cache() / "calibration"


def identity_digest(purpose: str, *models: str) -> str:
    """Stands for models by id, and for those in local folders also by the sizes and times of their files."""
    return hashlib.sha256("\n".join((purpose, *map(_identity, models))).encode()).hexdigest()[:12]


def slug(model_id: str) -> str:
    """A model's name as a part of a file name."""
    preset, folder = find_preset(model_id), Path(model_id).expanduser()
    name = preset.id if preset else folder.resolve().name if folder.is_dir() else model_id
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[-40:] or "model"


def _identity(model_id: str) -> str:
    """An id, whichever of its names was used; of a shipped drafter also the sums of its files, of a folder also what
    its files say of their age."""
    preset, shipped = find_preset(model_id), find_shipped(model_id)
    if preset is not None:
        return preset.id
    if shipped is not None:
        return f"{shipped.id} {_sums(shipped)}"
    folder = Path(model_id).expanduser()
    if not folder.is_dir():
        return model_id
    files = sorted([folder / "config.json", *folder.glob("*.safetensors")])
    states = [(path.name, status.st_size, status.st_mtime_ns) for path in files if (status := _status(path))]
    return f"{folder.resolve()} {states}"


def _sums(shipped: Shipped) -> str:
    try:
        return (shipped.folder / SUMS).read_text(encoding="utf-8")
    except OSError:
        return ""  # damaged: it will be refused when it is loaded


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None

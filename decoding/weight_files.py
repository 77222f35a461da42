"""What a checkpoint's weights come to, read from the headers of its files or from the Hub's listing alone."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from decoding.embedded import BYTES_NEEDED
from decoding.errors import ModelUnavailable, UnsupportedModel
from decoding.hub import SAFETENSORS_HINT, told_plainly
from decoding.presets import EMBEDDED, PRESETS, locate
from decoding.shipped import find_shipped

PATTERNS = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
"""The files that are fetched of a checkpoint: no code, and no pickled weights."""
SLICES = ("*/*",)
"""Left out: copies of the weights in other formats lie in folders."""
LONGEST_HEADER = 100_000_000


@dataclass(frozen=True)
class WeightFiles:
    """The safetensors files of a checkpoint."""

    parameters: int
    stored_bytes: int
    to_fetch: int
    """Bytes that are not on this machine yet."""


def weight_files_of(model_id: str) -> WeightFiles:
    """What the weights of a preset, shipped drafter, Hub id or folder come to.

    Raises UnsupportedModel where there are none in safetensors, ModelUnavailable where the Hub cannot be asked.
    """
    shipped = find_shipped(model_id)
    place = str(shipped.folder) if shipped is not None else locate(model_id)
    if place == EMBEDDED:
        from decoding.embedded import CACHE_VERSION, cache_root

        billions = PRESETS[0].parameters
        parameters = round(billions * 1e9)
        return WeightFiles(parameters, 4 * parameters, 0 if (cache_root() / CACHE_VERSION).is_dir() else BYTES_NEEDED)
    folder = Path(place) if Path(place).is_dir() else cached_snapshot(place)
    if folder is not None:
        return _in_folder(folder, model_id)
    return _on_hub(place)


def cached_snapshot(hub_id: str) -> Path | None:
    """The folder of a checkpoint that the Hub's cache holds whole; None where it does not."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(
            snapshot_download(
                hub_id, local_files_only=True, allow_patterns=list(PATTERNS), ignore_patterns=list(SLICES)
            )
        )
    except (LocalEntryNotFoundError, HFValidationError, OSError, ValueError):
        return None
    index = folder / "model.safetensors.index.json"
    try:
        needed = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else set()
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    whole = all((folder / str(name)).is_file() for name in needed) and any(folder.glob("*.safetensors"))
    return folder if whole and (folder / "config.json").is_file() else None


def _in_folder(folder: Path, model_id: str) -> WeightFiles:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UnsupportedModel(f"{model_id} has no weights in safetensors.", SAFETENSORS_HINT)
    return WeightFiles(sum(_numbers(file, model_id) for file in files), sum(file.stat().st_size for file in files), 0)


def _numbers(file: Path, model_id: str) -> int:
    """How many numbers a safetensors file says that it holds."""
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if length > min(LONGEST_HEADER, file.stat().st_size):
                raise ValueError("its header is longer than the file")
            header = json.loads(opened.read(length))
        return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ModelUnavailable(f"{file.name} of {model_id} is damaged.", "Fetch the checkpoint again.") from None


def _on_hub(hub_id: str) -> WeightFiles:
    from huggingface_hub import HfApi

    with told_plainly(hub_id, "list of files"):
        said = HfApi().model_info(hub_id, files_metadata=True, timeout=20)
        files = [item for item in said.siblings or () if "/" not in item.rfilename]
    stored = sum(item.size or 0 for item in files if item.rfilename.endswith(".safetensors"))
    if not stored:
        raise UnsupportedModel(f"{hub_id} has no weights in safetensors.", SAFETENSORS_HINT)
    counted = said.safetensors.total if said.safetensors is not None else 0
    return WeightFiles(counted or stored // 2, stored, stored)  # most are stored in 16 bits

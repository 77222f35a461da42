"""Published checkpoints: finding the folder, reading its config, filling a module by tensor names.

Only JSON and safetensors are ever read: no pickle, no code from the checkpoint.
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from decoding.errors import ModelUnavailable, UnsupportedModel

SHOWN_NAMES = 8


def checkpoint_folder(source: str | Path, revision: str | None = None) -> Path:
    """The local folder of a checkpoint: `source` itself, or a snapshot of the Hub id (JSON and safetensors only).

    Raises ModelUnavailable when there is neither.
    """
    if Path(source).is_dir():
        return Path(source)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(str(source), revision=revision, allow_patterns=["*.safetensors", "*.json"]))
    except HFValidationError:
        message, hint = f"{source} is neither a folder nor a Hub id.", "Check the path."
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        # LocalEntryNotFoundError: the hub could not be reached and nothing is cached.
        message = f"{source} is not a folder here and could not be fetched from the Hub ({type(error).__name__})."
        hint = "Check the id and the network, or give the folder of a downloaded copy."
    raise ModelUnavailable(message, hint)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; raises ModelUnavailable when it is missing or is not one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelUnavailable(f"{path.parent} has no {path.name}.", "A checkpoint folder needs one.") from None
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{path} cannot be read: {error}.", "Fetch the checkpoint again.") from error
    if not isinstance(content, dict):
        raise ModelUnavailable(f"{path} does not hold a JSON object.", "Fetch the checkpoint again.")
    return content


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint: those of its index, `model.safetensors`, or the only one there.

    Raises ModelUnavailable when there is none, when one of the index is missing, or when it is unclear which counts.
    """
    index = folder / "model.safetensors.index.json"
    found = sorted(folder.glob("*.safetensors"))
    if index.exists():
        names = read_json(index).get("weight_map")
        if not isinstance(names, dict) or not all(Path(str(name)).name == name for name in names.values()):
            raise ModelUnavailable(f"{index} has no usable weight_map.", "Fetch the checkpoint again.")
        files = [folder / name for name in sorted(set(names.values()))]
        missing = [path.name for path in files if path not in found]
        if missing:
            raise ModelUnavailable(f"{folder} lacks {', '.join(missing)}.", "Fetch the checkpoint again.")
        return files
    if folder / "model.safetensors" in found:
        return [folder / "model.safetensors"]
    if len(found) == 1:
        return found
    names_found = ", ".join(path.name for path in found) or "none"
    raise ModelUnavailable(
        f"{folder} has no single safetensors file and no index (found: {names_found}).",
        "Only safetensors checkpoints are read; convert others first.",
    )


def fill_module(module: nn.Module, folder: Path, dtype: torch.dtype, device: torch.device) -> None:
    """Gives `module` (made on the meta device) the tensors of the checkpoint, cast to `dtype` on `device`.

    Names and shapes are compared before anything is loaded; every disagreement goes into one UnsupportedModel.
    """
    expected = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    try:
        with ExitStack() as stack:
            shards: list[Any] = [
                stack.enter_context(safe_open(path, framework="pt", device=str(device)))
                for path in weight_files(folder)
            ]
            home = {name: shard for shard in shards for name in shard.keys()}  # noqa: SIM118 (not a mapping)
            # Shapes stand in the headers: nothing is read until they agree.
            _compare(folder, expected, {name: tuple(home[name].get_slice(name).get_shape()) for name in home})
            state = {name: home[name].get_tensor(name).to(dtype) for name in expected}
    except SafetensorError as error:
        raise ModelUnavailable(f"The weights in {folder} cannot be read: {error}.", "Fetch them again.") from error
    module.load_state_dict(state, assign=True)
    module.requires_grad_(False).eval()


def _compare(folder: Path, expected: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]]) -> None:
    faults = {
        "missing": [name for name in expected if name not in found],
        "unexpected": [name for name in found if name not in expected],
        "of another shape": [
            f"{name} {list(found[name])} instead of {list(shape)}"
            for name, shape in expected.items()
            if name in found and found[name] != shape
        ],
    }
    said = [f"{kind}: {_listed(names)}" for kind, names in faults.items() if names]
    if said:
        raise UnsupportedModel(
            f"The tensors in {folder} are not those of its config; {'; '.join(said)}.",
            "The checkpoint is of another architecture or of another version of it.",
        )


def _listed(names: list[str]) -> str:
    more = len(names) - SHOWN_NAMES
    return ", ".join(sorted(names)[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")

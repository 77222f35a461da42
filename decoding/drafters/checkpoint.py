"""Published checkpoints: finding the folder, reading its config, filling a module by tensor names.

Only JSON and safetensors are ever read: no pickle, no code from the checkpoint.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from decoding.devices import staging
from decoding.drafters.draft_tokens import FILE as DRAFT_TOKENS
from decoding.drafters.sequential_head import FILE as SEQUENTIAL_HEAD
from decoding.errors import ModelUnavailable, UnsupportedModel

SHOWN_NAMES = 8
BESIDE = frozenset({DRAFT_TOKENS, SEQUENTIAL_HEAD})
"""Files of our own that stand beside a checkpoint."""
PICKLED = frozenset({".pt", ".pth", ".bin", ".ckpt"})


def checkpoint_folder(source: str | Path) -> Path:
    """The local folder of a checkpoint: `source` itself, or a snapshot of the Hub id (JSON and safetensors only).

    Raises ModelUnavailable when there is neither.
    """
    if Path(source).is_dir():
        return Path(source)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(str(source), allow_patterns=["*.safetensors", "*.json"]))
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
    found = sorted(path for path in folder.glob("*.safetensors") if path.name not in BESIDE)
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
    pickled = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLED)
    said = f"; {', '.join(pickled)} can only be unpickled, which is never done" if pickled else ""
    raise ModelUnavailable(
        f"{folder} has no single safetensors file and no index (found: {names_found}){said}.",
        "Only safetensors checkpoints are read; convert others first.",
    )


def tensor_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of all tensors of the checkpoint by name, read from the headers alone.

    Raises ModelUnavailable where a file cannot be read.
    """
    with ExitStack() as stack:
        opened = _open_tensors(stack, folder, torch.device("cpu"))
        return {name: tuple(file.get_slice(name).get_shape()) for name, file in opened.items()}


def read_tensor(folder: Path, name: str) -> Tensor | None:
    """One tensor of the checkpoint, None where it has none of that name; raises ModelUnavailable as `fill_module`."""
    with ExitStack() as stack:
        opened = _open_tensors(stack, folder, torch.device("cpu"))
        if name not in opened:
            return None
        return _tensor(opened[name], name, folder)


def fill_module(
    module: nn.Module,
    folder: Path,
    dtype: torch.dtype,
    device: torch.device,
    rename: Callable[[str], str | None] = lambda name: name,
    optional: Mapping[str, Tensor] = MappingProxyType({}),
) -> None:
    """Gives `module` (made on the meta device) the tensors of the checkpoint on `device`; floats are cast to `dtype`.

    `rename` says what a published name is called in the module, None for a tensor to pass over; `optional` tensors
    stand in for those that the checkpoint may lack. Names and shapes are compared before anything is loaded; every
    disagreement goes into one UnsupportedModel.
    """
    expected = module.state_dict()
    with ExitStack() as stack:
        opened = _open_tensors(stack, folder, staging(device))
        published: dict[str, str] = {}
        for name in sorted(opened):
            own = rename(name)
            if own in published:
                raise UnsupportedModel(f"{folder} holds both {published[own]} and {name}.", "Use another copy of it.")
            if own is not None:
                published[own] = name
        # Shapes stand in the headers: nothing is read until they agree.
        shapes = {own: tuple(opened[name].get_slice(name).get_shape()) for own, name in published.items()}
        shapes |= {own: tuple(tensor.shape) for own, tensor in optional.items() if own not in shapes}
        _compare(folder, {name: tuple(tensor.shape) for name, tensor in expected.items()}, shapes)
        state = dict(optional)
        for own, name in published.items():
            state[own] = _tensor(opened[name], name, folder)
    for name, tensor in expected.items():
        state[name] = state[name].to(device, dtype if tensor.is_floating_point() else tensor.dtype)
    module.load_state_dict(state, assign=True)
    module.requires_grad_(False).eval()


def _open_tensors(stack: ExitStack, folder: Path, device: torch.device) -> dict[str, Any]:
    """For every tensor name the opened file that holds it."""
    home: dict[str, Any] = {}
    for path in weight_files(folder):
        try:
            shard = stack.enter_context(safe_open(path, framework="pt", device=str(device)))
        except (SafetensorError, OSError) as error:
            raise _unreadable(path, error) from error
        home |= dict.fromkeys(shard.keys(), shard)
    return home


def _tensor(file: Any, name: str, folder: Path) -> Tensor:
    try:
        tensor: Tensor = file.get_tensor(name)
    except SafetensorError as error:
        raise _unreadable(folder, error) from error
    return tensor


def _unreadable(place: Path, error: Exception) -> ModelUnavailable:
    return ModelUnavailable(f"The weights in {place} cannot be read: {error}.", "Fetch them again.")


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

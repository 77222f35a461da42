"""Writes a trained drafter as a checkpoint folder: config, safetensors in files below 10 MB, sums, model card."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from decoding.drafters import draft_tokens
from decoding.errors import BadRequest
from decoding.files import write_atomically
from decoding.shipped import write_sums

FILE_BYTES = 9_900_000
"""A file of more than 10 MB needs Git LFS on a Space."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a trained drafter is, as its readers expect it."""

    tensors: Mapping[str, Tensor]
    config: Mapping[str, Any] | None = None
    """The content of config.json, where there is one."""
    draft_tokens: Tensor | None = None
    """Ids `[kept]` of the tokens it drafts with, where these are not its own business (see `draft_tokens`)."""


def export_folder(folder: Path, checkpoint: Checkpoint, card: str) -> None:
    """Writes a checkpoint folder; with an index where the tensors fill more than one file.

    Raises BadRequest where one tensor alone is too large for a file.
    """
    tensors = checkpoint.tensors
    files = split(tensors)
    for stale in folder.glob("*.safetensors*"):
        stale.unlink()
    if checkpoint.config is not None:
        write_atomically(folder / "config.json", json.dumps(dict(checkpoint.config), indent=2) + "\n")
    if checkpoint.draft_tokens is not None:
        write_atomically(folder / draft_tokens.FILE, save({draft_tokens.NAME: checkpoint.draft_tokens.to(torch.int32)}))
    if len(files) == 1:
        write_atomically(folder / "model.safetensors", save(files[0], {"format": "pt"}))
    else:
        weight_map: dict[str, str] = {}
        for number, part in enumerate(files, 1):
            name = f"model-{number:05d}-of-{len(files):05d}.safetensors"
            write_atomically(folder / name, save(part, {"format": "pt"}))
            weight_map |= dict.fromkeys(part, name)
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        index = {"metadata": {"total_size": size}, "weight_map": weight_map}
        write_atomically(folder / "model.safetensors.index.json", json.dumps(index, indent=1) + "\n")
    write_atomically(folder / "README.md", card)
    write_sums(folder)


def split(tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """The tensors in order, in as few files of at most `FILE_BYTES` as that order allows."""
    files: list[dict[str, Tensor]] = [{}]
    room = FILE_BYTES
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        if size > FILE_BYTES:
            raise BadRequest(f"{name} alone has {size:,} bytes; a file holds {FILE_BYTES:,}.", "Make it smaller.")
        if size > room:
            files.append({})
            room = FILE_BYTES
        files[-1][name] = tensor.detach().contiguous()
        room -= size
    return files


def in_bfloat16(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Floating-point tensors in bfloat16, others as they are."""
    return {name: t.to(torch.bfloat16) if t.is_floating_point() else t for name, t in state.items()}


@dataclass(frozen=True)
class Card:
    """What a model card says."""

    title: str
    what: str
    recipe: str
    """The command, and the settings that count."""
    data: str
    seed: int
    commit: str
    hardware: str
    curve: list[dict[str, float]]
    measured: str

    def text(self) -> str:
        """Markdown."""
        shown = self.curve[:: max(1, len(self.curve) // 16)]
        if self.curve and shown[-1] is not self.curve[-1]:
            shown.append(self.curve[-1])
        names = list(shown[0]) if shown else []
        points = [[f"{point.get(name, float('nan')):g}" for name in names] for point in shown]
        table = "\n".join("| " + " | ".join(row) + " |" for row in (names, ["---"] * len(names), *points))
        made = f"{self.recipe}\n\nSeed {self.seed}, commit {self.commit}, {self.hardware}."
        parts = {"Data": self.data, "Recipe": made, "Training curve": table, "Acceptance": self.measured}
        if not self.curve:
            del parts["Training curve"]
        chapters = "".join(f"## {name}\n\n{content}\n\n" for name, content in parts.items())
        return f"# {self.title}\n\n{self.what}\n\n{chapters}Licence: Apache-2.0, as the target's.\n"

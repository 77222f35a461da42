"""Goes on from a drafter that was trained before: its weights, and the tokens that it learnt to tell apart."""

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from decoding.drafters.checkpoint import fill_module, read_json, read_tensor
from decoding.drafters.draft_tokens import read_draft_tokens
from decoding.errors import UnsupportedModel
from decoding.training.trainer import Trainer

OF_NO_ACCOUNT = frozenset({"transformers_version"})


def drafted_tokens(folder: Path, kind: str, vocab_size: int) -> Tensor:
    """Token ids `[kept]` that the checkpoint drafts with; raises as the readers of such checkpoints do."""
    if kind == "eagle3":
        offsets = read_tensor(folder, "d2t")
        ids = None if offsets is None else offsets + torch.arange(len(offsets))
    else:
        ids = read_draft_tokens(folder, vocab_size)
    return torch.arange(vocab_size) if ids is None else ids


def take_weights(trainer: Trainer, folder: Path) -> None:
    """Gives the trainer's model the weights of a checkpoint, in float32.

    Raises UnsupportedModel, naming what differs, for a drafter of another kind, shape or target, and ModelUnavailable
    for a folder that holds none or a damaged one.
    """
    _require_same(folder, trainer.published().config or {})
    module, rename = trainer.checkpointed()
    filled = deepcopy(module).to("meta")
    fill_module(filled, folder, torch.float32, next(module.parameters()).device, rename)
    module.load_state_dict(filled.state_dict())


def _require_same(folder: Path, ours: Mapping[str, Any]) -> None:
    theirs, ours = read_json(folder / "config.json"), json.loads(json.dumps(dict(ours)))
    names = [name for name in ours if name in theirs and theirs[name] != ours[name] and name not in OF_NO_ACCOUNT]
    if names:
        said = "; ".join(f"{name} {theirs[name]} instead of {ours[name]}" for name in names)
        raise UnsupportedModel(
            f"The drafter in {folder} is another one than this profile trains: {said}.",
            "Give --begin-with a folder that `train` wrote with the same kind and profile, or leave it out.",
        )

"""The tokens that a drafter drafts with, where these are a part of the target's vocabulary.

A drafter that reads the target's whole head spends most of a draft on tokens it never names. As FR-Spec (Zhao et al.,
ACL 2025) does for EAGLE-2, the head is cut to the commonest tokens; drafts get cheaper and stay lossless, because the
target still checks them with its whole vocabulary. The ids stand beside a checkpoint in a file of their own, so that
the checkpoint itself stays in the published format.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from decoding.errors import Incompatible, ModelUnavailable

FILE = "draft_tokens.safetensors"
NAME = "ids"

HeadOver = Callable[[Tensor], Callable[[Tensor], Tensor]]
"""Token ids `[kept]` to a head that gives the logits of these alone."""


def read_draft_tokens(folder: Path, target_vocab: int) -> Tensor | None:
    """Ascending int64 ids `[kept]`; None where the checkpoint drafts with the whole vocabulary.

    Raises ModelUnavailable for a file that cannot be read, Incompatible for ids beyond the target's vocabulary.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        ids: Tensor = load_file(path)[NAME].to(torch.int64)
    except (OSError, SafetensorError, KeyError) as error:
        raise ModelUnavailable(f"{path} cannot be read: {error}.", "Fetch the checkpoint again.") from None
    if ids.ndim != 1 or not len(ids) or bool((ids.diff() <= 0).any()) or int(ids[0]) < 0:
        raise ModelUnavailable(f"{path} does not hold ascending token ids.", "Fetch the checkpoint again.")
    if int(ids[-1]) >= target_vocab:
        raise Incompatible(
            f"The drafter drafts with token {int(ids[-1])}, the target has {target_vocab} tokens.",
            "Choose the drafter that was trained for this target.",
        )
    return ids

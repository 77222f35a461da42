"""How a drafter's name becomes a drafter."""

from collections.abc import Callable
from pathlib import Path

from decoding.calibration import matrix_path
from decoding.catalogue import SELF, drafter_info
from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.base import Drafter
from decoding.drafters.block_diffusion import load_block_diffusion
from decoding.drafters.draft_tokens import read_draft_tokens
from decoding.drafters.eagle3 import load_eagle3
from decoding.drafters.fitting import Fitting
from decoding.drafters.medusa import load_medusa
from decoding.drafters.prompt_lookup import PromptLookup
from decoding.drafters.sam import SamDrafter
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.model_config import BLOCK_DIFFUSION, EAGLE3, MEDUSA, read_config
from decoding.models import load_causal_lm
from decoding.shipped import MATRIX, SHIPPED, checked_folder, find_shipped
from decoding.target import Target


def load_drafter(drafter_id: str, target: Target, report: Callable[[str], None]) -> Drafter:
    """The drafter `drafter_id` for a loaded target, on the target's device and in its dtype."""
    loader = _LOADERS.get(drafter_id)
    if loader is not None:
        return loader(target)
    name = source = drafter_info(drafter_id).id
    if (shipped := find_shipped(name)) is not None:
        source = str(checked_folder(shipped))
    kind = read_config(source).kind
    fitting = Fitting(target.vocab_size, target.hidden_size, target.layers, target.dtype, target.device)
    if kind == BLOCK_DIFFUSION:
        return load_block_diffusion(source, fitting, target.embed, target.head, name=name, head_over=target.head_over)
    if kind == EAGLE3:
        return load_eagle3(source, fitting, target.embed, name=name)
    if kind == MEDUSA:
        return load_medusa(source, fitting, target.head, name=name)
    dtype = str(target.dtype).removeprefix("torch.")
    loaded = load_causal_lm(source, dtype, target.device.type, report, with_tokenizer=False)
    tokens = read_draft_tokens(Path(source), target.vocab_size)
    return Autoregressive(Target(loaded.model, None, name), target.vocab_size, tokens)


def _self(target: Target) -> Drafter:
    drafter = Autoregressive(target, target.vocab_size)
    drafter.name = SELF
    return drafter


def _transition_matrix(target: Target) -> Drafter:
    """As the warm-up of `python -m decoding calibrate` left it, else as it ships for the target, else empty."""
    drafter, warm = TransitionMatrix(target.vocab_size, target.device), matrix_path(target.name)
    shipped = next((s for s in SHIPPED if s.kind == MATRIX and s.target == target.name), None)
    if warm.exists():
        drafter.load(warm)
    elif shipped is not None:
        drafter.load(checked_folder(shipped) / "model.safetensors")
    return drafter


_LOADERS: dict[str, Callable[[Target], Drafter]] = {
    "transition-matrix": _transition_matrix,
    "prompt-lookup": lambda target: PromptLookup(target.vocab_size),
    "sam": lambda target: SamDrafter(target.vocab_size),
    SELF: _self,
}

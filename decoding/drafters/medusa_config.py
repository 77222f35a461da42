"""What a published checkpoint of Medusa heads (arXiv 2401.10774) says of itself, in the layouts of its trainers.

    layout                          config.json                             tensors
    FasterDecoding, Medusa-1        medusa_num_heads, medusa_num_layers,    {head}.{layer}.linear.weight and .bias,
                                    base_model_name_or_path                 {head}.{layers}.weight
    text-generation-inference       the same and version "2"                the first two: all heads end in the target's
    vLLM                            architectures ["MedusaModel"],          blocks.{head}.layers.{layer}.weight (.bias),
                                    num_heads, num_hidden_layers,           lm_heads.{head}.weight
                                    vocab_size, hidden_size

The names may begin with `medusa_head.` or `medusa_heads.`. Only vLLM's config tells the dimensions; those of the others
are read from the headers of the weights.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decoding.drafters.checkpoint import read_json, tensor_shapes
from decoding.drafters.target_states import require_made_for
from decoding.errors import UnsupportedModel

FOREIGN_KEYS = {
    "quantization_config": "quantized weights",
    "speculators_model_type": "the layout of the speculators library",
}
_PREFIX = re.compile(r"^medusa_heads?\.")
_VLLM_LAYER = re.compile(r"blocks\.(\d+)\.layers\.(\d+)\.(weight|bias)")
_VLLM_OUTPUT = re.compile(r"lm_heads\.(\d+)\.weight")
_LAYER = re.compile(r"(\d+)\.\d+\.linear\.weight")
MOST = 64
"""Heads, and ResBlocks of one, that a checkpoint can have; five and one are usual."""


@dataclass(frozen=True)
class MedusaConfig:
    """One set of Medusa heads. Names of tensors are those of `MedusaModel`, which are FasterDecoding's."""

    heads: int
    layers: int
    """ResBlocks of a head."""
    bias: bool
    """Whether the ResBlocks have biases: FasterDecoding's do, the paper's do not."""
    own_output: bool
    """Whether every head ends in a matrix of its own; otherwise they all end in the target's head."""
    original_output: bool
    """Whether the config calls the last matrix the target's own: a copy of it is then passed over."""
    hidden: int
    vocab: int | None
    """None where nothing says it, as where the heads end in the target's."""

    @staticmethod
    def from_folder(folder: Path) -> "MedusaConfig":
        """Reads `config.json` and the headers of the weights.

        Raises ModelUnavailable, or UnsupportedModel naming what is not implemented or not usable.
        """
        return MedusaConfig.from_parts(read_json(folder / "config.json"), tensor_shapes(folder))

    @staticmethod
    def from_parts(raw: Mapping[str, Any], published: Mapping[str, tuple[int, ...]]) -> "MedusaConfig":
        """Reads the content of config.json and the shapes of the published tensors; raises UnsupportedModel.

        Where there are more heads than the config counts all are taken: FasterDecoding's configs for Vicuna 7B and 13B
        say 2 beside 5 trained heads, because the number of the training run was not written into them.
        """
        _refuse_foreign(raw)
        layers = _count(raw, "medusa_num_layers", "num_hidden_layers")
        shapes = {_own_name(name, layers): shape for name, shape in published.items()}
        found = {match[1]: shapes[name] for name in shapes if (match := _LAYER.fullmatch(name))}
        if not all(len(shape) == 2 for shape in found.values()) or not found:
            some = ", ".join(sorted(published)[:4])
            raise _unsupported(f"it has no matrix {{head}}.{{layer}}.linear.weight (there are: {some or 'no tensors'})")
        outputs = [shape for name, shape in shapes.items() if re.fullmatch(rf"\d+\.{layers}\.weight", name)]
        original = bool(raw.get("original_lm_head"))
        vocab = _size(raw, "vocab_size")
        return MedusaConfig(
            heads=max(_count(raw, "medusa_num_heads", "num_heads"), len(found)),
            layers=layers,
            bias=bool(raw.get("medusa_fc_bias", "medusa_num_heads" in raw)),
            own_output=bool(outputs) and not original,
            original_output=original,
            hidden=_size(raw, "hidden_size") or next(iter(found.values()))[-1],
            vocab=outputs[0][0] if vocab is None and outputs else vocab,
        )

    def check_target(self, hidden: int, vocab: int) -> None:
        """Raises Incompatible, naming both numbers, when the heads were not made for such a target."""
        require_made_for((("hidden size", self.hidden, hidden), ("vocabulary", self.vocab, vocab)))

    def module_name(self, published: str) -> str | None:
        """What a tensor of the checkpoint is called in `MedusaModel`; None for a copy of the target's head."""
        name = _own_name(published, self.layers)
        is_copy = self.original_output and (name == "lm_head.weight" or name == f"0.{self.layers}.weight")
        return None if is_copy else name


def _own_name(published: str, layers: int) -> str:
    """The name that FasterDecoding gives the tensor `published` of heads with so many ResBlocks."""
    name = _PREFIX.sub("", published)
    if match := _VLLM_LAYER.fullmatch(name):
        return f"{match[1]}.{match[2]}.linear.{match[3]}"
    if match := _VLLM_OUTPUT.fullmatch(name):
        return f"{match[1]}.{layers}.weight"
    return name


def _count(raw: Mapping[str, Any], *names: str) -> int:
    """The first of the settings `names` that there is."""
    given = next((raw[name] for name in names if name in raw), None)
    if type(given) is not int or not 1 <= given <= MOST:
        raise _unsupported(f"its config says {given!r} for {' or '.join(names)}, which must be 1 to {MOST}")
    return given


def _size(raw: Mapping[str, Any], name: str) -> int | None:
    given = raw.get(name)
    if given is not None and (type(given) is not int or given < 1):
        raise _unsupported(f"its config says {given!r} for {name}")
    return given


def _refuse_foreign(raw: Mapping[str, Any]) -> None:
    for key, meaning in FOREIGN_KEYS.items():
        if raw.get(key):
            raise _unsupported(f"it asks for {meaning} ({key}), which is not implemented")
    kept = raw.get("truncated_vocab_size")
    if kept and kept != raw.get("vocab_size"):
        raise _unsupported(f"its vocabulary is cut to {kept} tokens (truncated_vocab_size), which is not implemented")
    if raw.get("logit_scale", 1.0) != 1.0:
        raise _unsupported(f"its logits are scaled by {raw['logit_scale']} (logit_scale), which is not implemented")


def _unsupported(what: str) -> UnsupportedModel:
    return UnsupportedModel(f"This Medusa checkpoint cannot be used: {what}.", "See the drafters that are listed.")

"""Reads a checkpoint's config alone, so that what does not fit is refused before anything loads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decoding.errors import BadRequest, ModelUnavailable, UnsupportedModel
from decoding.hub import told_plainly
from decoding.presets import EMBEDDED, PRESETS, locate

CAUSAL_LM, BLOCK_DIFFUSION, EAGLE3, MEDUSA = "causal-lm", "block-diffusion", "eagle3", "medusa"
DRAFTER_KINDS = {
    "DFlashDraftModel": BLOCK_DIFFUSION,
    # One architecture under the names that SpecForge, AngelSlim and speculators (twice) give it.
    "LlamaForCausalLMEagle3": EAGLE3,
    "Eagle3LlamaForCausalLM": EAGLE3,
    "Eagle3Speculator": EAGLE3,
    "Eagle3DraftModel": EAGLE3,
    "MedusaModel": MEDUSA,
}
MEDUSA_MARK = "medusa_num_heads"
"""Heads alone are published under no architecture; a whole model that brings heads names its own and is a target."""
NESTED_LAYER = "transformer_layer_config"
"""Where the speculators library keeps what a drafter's config says of its layers."""


@dataclass(frozen=True)
class ModelConfig:
    """What the fit check needs to know of a model."""

    name: str
    """As the user gave it."""
    kind: str
    """`causal-lm`, `block-diffusion`, `eagle3` or `medusa`."""
    architecture: str
    vocab_size: int
    """Rows of the output head, so ids run from 0 to vocab_size - 1. This is what two models are compared by. It may
    exceed the tokenizer's length: Qwen3 pads 151,669 tokens to 151,936 rows. 0 where the config does not say,
    as most of Medusa heads do not."""
    hidden_size: int
    """Of a drafter that reads the target's hidden states, the width of those; 0 where the config does not say."""
    layers: int
    max_context: int
    """Positions the model was made for; 0 where the config does not say."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The whole config, for what only one kind of drafter knows."""


EMBEDDED_CONFIG = ModelConfig(PRESETS[0].id, CAUSAL_LM, "LlamaForCausalLM", 49_152, 576, 30, 8192)
"""Known without fetching; a test compares it with the file."""


def read_config(model_id: str) -> ModelConfig:
    """The config of a preset, Hub id or local folder; fetches no weights.

    Raises UnknownName, BadRequest, ModelUnavailable, or UnsupportedModel for what is neither a causal language
    model nor a drafter of a known kind.
    """
    place = locate(model_id)
    if place == EMBEDDED:
        return EMBEDDED_CONFIG
    if Path(place).is_dir() and not Path(place, "config.json").is_file():
        raise BadRequest(f"{model_id} has no config.json.", "Give the folder of a Hugging Face checkpoint.")
    with told_plainly(model_id, "config"):
        from transformers import PreTrainedConfig

        raw, _ = PreTrainedConfig.get_config_dict(place)
    if not isinstance(raw, dict):
        raise ModelUnavailable(f"The config.json of {model_id} is not a JSON object.", "Fetch the checkpoint again.")
    architectures = [str(name) for name in raw.get("architectures") or ()]
    for architecture in architectures:
        if architecture in DRAFTER_KINDS:
            return _drafter_config(model_id, architecture, raw)
    if MEDUSA_MARK in raw and not architectures:
        return _drafter_config(model_id, "MedusaModel", raw)
    return _causal_config(model_id, architectures, raw)


def flat_config(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a drafter's config.json with what it says of its layers, where that is nested, at the top."""
    layer = raw.get(NESTED_LAYER)
    if not isinstance(layer, Mapping):
        return dict(raw)
    # `model_type` of the whole names the library's own class, that of the layer says what it is.
    return {**layer, **{key: value for key, value in raw.items() if key not in (NESTED_LAYER, "model_type")}}


def _drafter_config(model_id: str, architecture: str, nested: Mapping[str, Any]) -> ModelConfig:
    raw = flat_config(nested)
    kind = DRAFTER_KINDS[architecture]
    if kind == MEDUSA:
        raw = {"vocab_size": 0, "hidden_size": 0, "num_hidden_layers": raw.get("medusa_num_layers", 1), **raw}
    try:
        return ModelConfig(
            name=model_id,
            kind=kind,
            architecture=architecture,
            vocab_size=int(raw["vocab_size"]),
            hidden_size=int(raw.get("target_hidden_size") or raw["hidden_size"]),
            layers=int(raw["num_hidden_layers"]),
            max_context=int(raw.get("max_position_embeddings") or 0),
            raw=raw,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnsupportedModel(f"The config of {model_id} lacks or garbles {error}.", "Fetch it again.") from None


def _causal_config(model_id: str, architectures: list[str], raw: Mapping[str, Any]) -> ModelConfig:
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    kind = str(raw.get("model_type"))
    default = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(kind)
    known = {name for value in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
             for name in ((value,) if isinstance(value, str) else value)}  # fmt: skip
    named = next((name for name in architectures if name in known), None)
    if default is None or (architectures and named is None):
        what = architectures[0] if architectures else f"of type {kind!r}"
        raise UnsupportedModel(
            f"{model_id} is {what}, which is not a causal language model that transformers knows.",
            "Choose a decoder-only model; models with their own code are not run.",
        )
    with told_plainly(model_id, "config"):
        config = CONFIG_MAPPING[kind].from_dict(dict(raw)).get_text_config()
        return ModelConfig(
            name=model_id,
            kind=CAUSAL_LM,
            architecture=named or str(default),
            vocab_size=int(config.vocab_size),
            hidden_size=int(config.hidden_size),
            layers=int(config.num_hidden_layers),
            max_context=int(getattr(config, "max_position_embeddings", 0) or 0),
            raw=raw,
        )

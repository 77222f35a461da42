"""Loads a target, or an autoregressive drafter: any Hugging Face causal LM in safetensors, with its tokenizer.

The embedded model, on two cores: 15 s at first use (fetch, unpack, sync to disk), later 0.7 s, after some 5 s in which
torch and transformers import themselves.
"""

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from decoding import devices
from decoding.embedded import CACHE_VERSION, embedded_folder
from decoding.errors import ModelUnavailable, UnsupportedModel
from decoding.few_rows import turn_where_faster
from decoding.host_layers import FAMILIES
from decoding.hub import check_folder, out_of_memory, told_plainly
from decoding.kernels import compiled_before
from decoding.memory import as_size
from decoding.model_config import CAUSAL_LM, ModelConfig, read_config
from decoding.presets import DEFAULT_TARGET, EMBEDDED, PRESETS, Preset, find_preset, locate
from decoding.wheel import Report

__all__ = ["DEFAULT_TARGET", "PRESETS", "LoadedModel", "ModelConfig", "Preset", "find_preset", "load_causal_lm",
           "read_config"]  # fmt: skip


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model ready to run: in eval mode, frozen, on its device."""

    model: Any
    """A `transformers.PreTrainedModel` with a language-model head."""
    tokenizer: Any
    """A `transformers.PreTrainedTokenizerBase`, None where none was asked for. Its length may be below
    `config.vocab_size`."""
    name: str
    """The short name or id that was asked for."""
    tokenizer_id: str
    """Where the tokenizer came from, for the trace."""
    dtype: str
    device: str
    dtype_reason: str
    """One sentence, with figures where it was measured."""
    config: ModelConfig


def silent(_: str) -> None:
    """A report that nobody reads."""


def load_causal_lm(
    model_id: str, dtype: str = "auto", device: str = "auto", report: Report = silent, with_tokenizer: bool = True
) -> LoadedModel:
    """Loads a preset, Hub id or local folder: safetensors only, no remote code. A drafter needs no tokenizer.

    Raises BadRequest (a bad name, dtype or device), UnsupportedModel (no causal LM, no safetensors, no tokenizer),
    ModelUnavailable (not found, gated, no network, damaged) or OutOfMemory; each says the way out.
    """
    place = devices.pick_device(device)
    source = locate(model_id)
    config = read_config(model_id)
    if config.kind != CAUSAL_LM:
        raise UnsupportedModel(f"{model_id} is a {config.kind} drafter, not a language model.", "Give it as --drafter.")
    devices.exact_float32()
    if source != EMBEDDED:
        if Path(source).is_dir():
            check_folder(Path(source), model_id)
        return _load(source, config, dtype, place, source, report, with_tokenizer)
    tokenizer_id = f"{PRESETS[0].id}@{CACHE_VERSION}"
    folder = embedded_folder(report)
    try:
        return _load(str(folder), config, dtype, place, tokenizer_id, report, with_tokenizer)
    except ModelUnavailable:  # damaged in a way that the quick check cannot see
        folder = embedded_folder(report, thorough=True)
        return _load(str(folder), config, dtype, place, tokenizer_id, report, with_tokenizer)


def _load(
    source: str,
    config: ModelConfig,
    dtype: str,
    device: torch.device,
    tokenizer_id: str,
    report: Report,
    with_tokenizer: bool = True,
) -> LoadedModel:
    tokenizer = _tokenizer(source, config) if with_tokenizer else None
    with told_plainly(config.name):
        parameters = _count_parameters(source)
    choice = devices.first_choice(dtype, device, parameters)
    _require_room(config.name, parameters, choice.dtype, device)
    report(f"Loading {config.name} ({parameters / 1e9:.2f} B parameters) in {devices.dtype_name(choice.dtype)}.")
    with told_plainly(config.name):
        model = _weights(source, config, choice.dtype, device)
        if dtype == "auto" and device.type == "cpu" and choice.dtype == torch.float32:
            choice = devices.measured_choice(model, parameters)
            model = model.to(choice.dtype)
    reason = choice.reason
    if device.type == "cpu" and choice.dtype == torch.float32 and parameters >= devices.TINY_PARAMETERS:
        if not compiled_before:
            report("Compiling this project's kernels for this CPU (once, about a minute).")
        if model.config.model_type not in FAMILIES:
            reason = "; ".join(filter(None, (reason, turn_where_faster(model))))
    return LoadedModel(
        model=model.eval().requires_grad_(False),
        tokenizer=tokenizer,
        name=config.name,
        tokenizer_id=tokenizer_id,
        dtype=devices.dtype_name(choice.dtype),
        device=device.type,
        dtype_reason=reason,
        config=config,
    )


def _tokenizer(source: str, config: ModelConfig) -> Any:
    from transformers import AutoTokenizer

    with told_plainly(config.name, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    # transformers makes an empty tokenizer, without a word, from a folder that has none
    if len(tokenizer) <= len(set(tokenizer.all_special_tokens)):
        raise UnsupportedModel(
            f"{config.name} has no tokenizer.", "Use a checkpoint that brings its tokenizer (tokenizer.json)."
        )
    return tokenizer


def _count_parameters(source: str) -> int:
    """Numbers in the model's weights, counted on a skeleton without memory."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = deepcopy(AutoConfig.from_pretrained(source, trust_remote_code=False))
    with torch.device("meta"):
        skeleton = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    return sum(parameter.numel() for parameter in skeleton.parameters())


def _require_room(name: str, parameters: int, dtype: torch.dtype, device: torch.device) -> None:
    needed, free = parameters * dtype.itemsize, devices.free_bytes(device)
    if free is not None and needed > free:
        raise out_of_memory(name, f" in {devices.dtype_name(dtype)} on {device.type}: its weights are "
                                  f"{as_size(needed)} and {as_size(free)} are free")  # fmt: skip


def _weights(source: str, config: ModelConfig, dtype: torch.dtype, device: torch.device) -> Any:
    """The model with SDPA attention, or eager where it refuses that (Gemma 2's soft-capped scores)."""
    try:
        model, loading = _from_pretrained(source, dtype, device, "sdpa")
    except (ValueError, ImportError) as error:
        if "scaled_dot_product_attention" not in str(error) and "sdpa" not in str(error).lower():
            raise
        model, loading = _from_pretrained(source, dtype, device, "eager")
    missing = sorted(loading["missing_keys"])
    if missing:  # transformers would run them with random values
        raise ModelUnavailable(
            f"The weights of {config.name} lack {len(missing)} tensors, {missing[0]} among them.",
            "Fetch the checkpoint again, or check that its config.json belongs to it.",
        )
    return model


def _from_pretrained(source: str, dtype: torch.dtype, device: torch.device, attention: str) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM

    place = devices.staging(device)
    placement = {} if place.type == "cpu" else {"device_map": {"": place.type}}
    model, loading = AutoModelForCausalLM.from_pretrained(
        source,
        dtype=dtype,
        use_safetensors=True,
        trust_remote_code=False,
        attn_implementation=attention,
        output_loading_info=True,
        **placement,
    )
    return model if place == device else model.to(device), loading

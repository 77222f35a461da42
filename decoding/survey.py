"""What can be said of a target and a drafter before any of their weights are loaded: what they are, what they would
take, whether they fit this machine and each other."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from decoding.catalogue import BUILT_IN, drafter_info, drafters, target_info
from decoding.devices import dtype_name, first_choice, free_bytes, pick_device
from decoding.errors import Incompatible, ModelUnavailable, UnsupportedModel
from decoding.fit import DrafterInfo, TargetInfo, misfit
from decoding.hub import out_of_memory, require_reachable, told_plainly
from decoding.kv_cache import attention_windows
from decoding.memory import as_size
from decoding.model_config import CAUSAL_LM, ModelConfig, read_config
from decoding.presets import EMBEDDED, locate
from decoding.strategies import STRATEGIES
from decoding.weight_files import WeightFiles, cached_snapshot, weight_files_of


@dataclass(frozen=True)
class Survey:
    """A checkpoint that could be loaded."""

    id: str
    title: str
    what: str
    """In a few words."""
    files: WeightFiles
    needed_bytes: int
    """Of its weights once loaded."""


@dataclass(frozen=True)
class PairSurvey:
    """A target, and a drafter or none, judged together."""

    target: Survey
    drafter: Survey | None
    """None where none was named, and for a drafter without a network of its own."""
    drafter_title: str
    """Empty where none was named."""
    works: tuple[str, ...]
    """Titles of the strategies that can run them."""
    refuses: tuple[tuple[str, str], ...]
    """Title and reason of the others."""
    other_drafters: tuple[str, ...]
    """Titles of the named drafters that fit the target with some strategy."""
    device: str
    dtype: str
    free_bytes: int | None
    """What could be had there, with what is held now freed; None where the system does not say."""

    @property
    def parts(self) -> tuple[Survey, ...]:
        return (self.target,) if self.drafter is None else (self.target, self.drafter)

    @property
    def needed_bytes(self) -> int:
        """Memory for the weights of both."""
        return sum(part.needed_bytes for part in self.parts)

    @property
    def to_fetch(self) -> int:
        """Bytes that are not on this machine yet."""
        return sum(part.files.to_fetch for part in self.parts)

    def sentences(self) -> list[str]:
        """What a person wants to know of it, a fact each."""
        said = [f"{part.title}: {part.what}; {part.files.parameters / 1e6:,.1f} M parameters." for part in self.parts]
        room = "" if self.free_bytes is None else f"; {as_size(self.free_bytes)} can be had"
        said.append(f"Memory on {self.device}: {as_size(self.needed_bytes)} of weights in {self.dtype}{room}.")
        here = "Everything is on this machine already."
        said.append(f"To fetch: {as_size(self.to_fetch)}." if self.to_fetch else here)
        how = f"{self.drafter_title} fits with" if self.drafter_title else "Without a drafter it runs with"
        said.append(f"{how}: {', '.join(self.works)}.")
        said.append(f"Drafters with a name here that fit this target: {', '.join(self.other_drafters)}.")
        return said


def survey_pair(target_id: str, drafter_id: str | None, held_bytes: int = 0) -> PairSurvey:
    """Judges a pair by configs, file headers and the Hub's listing alone. `held_bytes` would be freed before loading.

    Raises what `read_config` raises, and UnsupportedModel, Incompatible, ModelUnavailable or OutOfMemory, each with
    the way out.
    """
    device = pick_device("auto")
    _require_hub(target_id)
    config = read_config(target_id)
    known = target_info(target_id)
    info = TargetInfo(known.id, known.title, known.help, config.vocab_size, config.hidden_size, known.is_preset)
    _require_target(target_id, config)
    chosen = None if drafter_id in (None, "", "none") else _judged(drafter_info(str(drafter_id)))
    works, refuses = _what_works(info, chosen)
    if chosen is not None and not works:
        raise Incompatible(
            next((reason for _, reason in refuses if info.title in reason), refuses[0][1]),
            "Choose a drafter made for this target, or prompt lookup, which fits every target.",
        )
    files = weight_files_of(target_id)
    dtype = first_choice("auto", device, files.parameters).dtype
    what = f"{config.architecture}, {config.layers} layers, {config.vocab_size:,} tokens"
    target = Survey(target_id, info.title, what, files, files.parameters * dtype.itemsize)
    drafter = None
    if chosen is not None and chosen not in BUILT_IN:
        files = weight_files_of(chosen.id)
        drafter = Survey(chosen.id, chosen.title, chosen.help, files, files.parameters * dtype.itemsize)
    free = free_bytes(device)
    found = PairSurvey(
        target=target,
        drafter=drafter,
        drafter_title=chosen.title if chosen is not None else "",
        works=works,
        refuses=refuses,
        other_drafters=tuple(item.title for item in drafters() if _what_works(info, item)[0]),
        device=device.type,
        dtype=dtype_name(dtype),
        free_bytes=None if free is None else free + held_bytes,
    )
    _require_room(found)
    return found


def _require_hub(model_id: str) -> None:
    place = locate(model_id)
    if place != EMBEDDED and not Path(place).is_dir() and cached_snapshot(place) is None:
        require_reachable(model_id)


def _require_target(target_id: str, config: ModelConfig) -> None:
    if config.kind != CAUSAL_LM:
        raise UnsupportedModel(
            f"{target_id} is a {config.kind} drafter, not a language model.", "Name it as the drafter."
        )
    if locate(target_id) != EMBEDDED:
        from transformers import CONFIG_MAPPING

        with told_plainly(target_id, "config"):
            whole: Any = CONFIG_MAPPING[str(config.raw.get("model_type"))].from_dict(dict(config.raw))
            attention_windows(whole)  # refuses what cannot drop rejected nodes


def _judged(info: DrafterInfo) -> DrafterInfo:
    """With the sizes of its config, which the catalogue does not read for published drafters."""
    if info in BUILT_IN or info.vocab_size is not None:
        return info
    _require_hub(info.id)
    config = read_config(info.id)
    return replace(
        info,
        vocab_size=config.vocab_size or None,
        hidden_size=None if config.kind == CAUSAL_LM else config.hidden_size or None,
    )


def _what_works(target: TargetInfo, drafter: DrafterInfo | None) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    reasons = [(kind.title, misfit(target, drafter, kind)) for kind in STRATEGIES.values()]
    works = tuple(title for title, reason in reasons if reason is None)
    return works, tuple((title, reason) for title, reason in reasons if reason is not None)


def _require_room(found: PairSurvey) -> None:
    if found.free_bytes is not None and found.needed_bytes > found.free_bytes:
        raise out_of_memory(
            found.target.title,
            f" on {found.device}: its weights are {as_size(found.needed_bytes)} in {found.dtype} and "
            f"{as_size(found.free_bytes)} can be had",
        )
    if not found.to_fetch:
        return
    from huggingface_hub.constants import HF_HUB_CACHE

    cache = Path(HF_HUB_CACHE)
    free = shutil.disk_usage(next(path for path in (cache, *cache.parents) if path.exists())).free
    if found.to_fetch > free:
        raise ModelUnavailable(
            f"{as_size(found.to_fetch)} are to be fetched and {as_size(free)} are free on the disk of {cache}.",
            "Free some space, or set HF_HOME to a folder on another disk.",
        )

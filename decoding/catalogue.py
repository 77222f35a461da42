"""What can be named: targets and drafters, and what each is. Nothing is loaded, nor what loads them imported."""

from pathlib import Path

from decoding.drafters.medusa_config import MedusaConfig
from decoding.fit import DrafterInfo, TargetInfo, misfit
from decoding.model_config import BLOCK_DIFFUSION, CAUSAL_LM, EAGLE3, MEDUSA, read_config
from decoding.presets import EMBEDDED, PRESETS, find_preset
from decoding.settings import Settings
from decoding.shipped import SHIPPED, Shipped
from decoding.strategies import STRATEGIES
from decoding.strategies.base import PUBLISHED, DrafterKind, Strategy

SELF = "self"
_STEPS: dict[str, DrafterKind] = {
    CAUSAL_LM: "stepwise",
    EAGLE3: "stepwise",
    BLOCK_DIFFUSION: "one-pass",
    MEDUSA: "one-pass",
}
_DESCRIPTIONS = {
    CAUSAL_LM: "language model with the same vocabulary",
    EAGLE3: "one layer over the target's hidden states (EAGLE-3)",
    BLOCK_DIFFUSION: "block-diffusion drafter (DFlash)",
    MEDUSA: "heads on the target's last hidden state (Medusa)",
}
BUILT_IN = (
    DrafterInfo(
        "transition-matrix",
        "Transition matrix",
        "stepwise",
        False,
        "the target's last top 8 after every token it has looked at (Token Recycling); no model, learns as it runs",
    ),
    DrafterInfo(
        "prompt-lookup",
        "Prompt lookup",
        "stepwise",
        False,
        "copies what followed the same words earlier in the text; no model",
    ),
    DrafterInfo(
        "sam",
        "Suffix automaton",
        "stepwise",
        False,
        "copies what followed the longest suffix that the text held before (SAM-Decoding); no model",
    ),
    DrafterInfo(
        SELF,
        "The target itself",
        "stepwise",
        True,
        "the target drafts for itself: trees at their best acceptance, never faster than plain decoding",
    ),
)


def targets() -> tuple[TargetInfo, ...]:
    """The targets with a short name; the embedded default first."""
    return tuple(target_info(preset.id) for preset in PRESETS)


def target_info(target_id: str) -> TargetInfo:
    """What is known of a target without loading it; reads the config of one that is no preset."""
    preset = find_preset(target_id)
    if preset is not None and preset.source != EMBEDDED:
        note = f"{preset.parameters:g} B parameters, {preset.licence}; {preset.dtype_note}"
        return TargetInfo(preset.id, preset.title, note, None, None, is_preset=True)
    config = read_config(target_id)
    title, note = _title(target_id), ""
    if preset is not None:
        title, note = preset.title, f"embedded, {preset.licence}; {preset.dtype_note}"
    identity = preset.id if preset else target_id
    return TargetInfo(identity, title, note, config.vocab_size, config.hidden_size, is_preset=preset is not None)


def drafter_kinds() -> tuple[tuple[str, str, DrafterKind], ...]:
    """The kinds of checkpoint that can be named as a drafter: name, what it is, how it drafts."""
    return tuple((kind, _DESCRIPTIONS[kind], steps) for kind, steps in _STEPS.items())


def drafters() -> tuple[DrafterInfo, ...]:
    """The drafters with a name: those shipped here, those that need no training, those published for the presets."""
    published = (_published(name) for preset in PRESETS for name in preset.drafters)
    return (*(_shipped(shipped) for shipped in SHIPPED if shipped.kind in _STEPS), *BUILT_IN, *published)


def _shipped(shipped: Shipped) -> DrafterInfo:
    return DrafterInfo(
        shipped.id,
        shipped.title,
        _STEPS[shipped.kind],
        True,
        f"{shipped.help}, for {shipped.target}",
        read_config(shipped.target).vocab_size,
        None if shipped.kind == CAUSAL_LM else read_config(shipped.target).hidden_size,
        made_for=(shipped.target,),
    )


def _published(drafter_id: str) -> DrafterInfo:
    made_for = tuple(preset.id for preset in PRESETS if drafter_id in preset.drafters)
    name = drafter_id.lower()  # it says the kind, so that no config has to be fetched for a list
    marks = {"dflash": BLOCK_DIFFUSION, "eagle3": EAGLE3, "medusa": MEDUSA}
    kind = next((kind for mark, kind in marks.items() if mark in name), CAUSAL_LM)
    return DrafterInfo(
        drafter_id,
        drafter_id.rpartition("/")[2],
        _STEPS[kind],
        True,
        f"{_DESCRIPTIONS[kind]}, for {', '.join(made_for)}",
        made_for=made_for,
    )


def drafter_info(drafter_id: str) -> DrafterInfo:
    """What is known of a drafter without loading it; reads the config of one that has no name here."""
    for info in drafters():
        if drafter_id in (info.id, info.title):
            return info
    config = read_config(drafter_id)
    vocab, hidden, preset = config.vocab_size, config.hidden_size, None
    if config.kind == MEDUSA:
        preset = find_preset(str(config.raw.get("base_model_name_or_path")))
        if Path(drafter_id).is_dir():  # its weights say what its config does not
            heads = MedusaConfig.from_folder(Path(drafter_id))
            vocab, hidden = heads.vocab or 0, heads.hidden
    return DrafterInfo(
        drafter_id,
        _title(drafter_id),
        _STEPS[config.kind],
        True,
        _DESCRIPTIONS[config.kind],
        vocab or None,
        None if config.kind == CAUSAL_LM else hidden or None,
        made_for=(preset.id,) if preset is not None else (),
    )


def _title(model_id: str) -> str:
    """A folder by its own name, without the way to it."""
    folder = Path(model_id).expanduser()
    return folder.resolve().name if folder.is_dir() else model_id


def usual_strategy(target_id: str) -> str:
    """What decodes when no strategy is named: DDTree where a block drafter is made for the target, else retrieval."""
    return "ddtree" if usual_drafter(target_id, STRATEGIES["ddtree"]) is not None else "recycle"


def usual_drafter(target_id: str, strategy: type[Strategy[Settings]]) -> str | None:
    """What the strategy drafts with for this target when none is named; None where it uses none or none fits."""
    target, preset = target_info(target_id), find_preset(target_id)
    published = (
        *(s.id for s in SHIPPED if s.target == target.id and s.kind in _STEPS),
        *(preset.drafters if preset else ()),
    )
    for name in strategy.usual_drafters if strategy.needs else ():
        for candidate in published if name == PUBLISHED else (name,):
            if misfit(target, drafter_info(candidate), strategy) is None:
                return candidate
    return None

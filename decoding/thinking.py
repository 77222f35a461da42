"""Thinking mode: whether a target's chat template can turn it off, and whether its drafter was trained for that."""

from enum import Enum
from typing import Any

from decoding.fit import DrafterInfo
from decoding.presets import PRESETS

OPEN, CLOSE = "<think>", "</think>"


class Thinking(Enum):
    """What becomes of thinking in a prompt as `encode_prompt` writes it."""

    NONE = "none"
    """The template knows of no thinking, or there is no template."""
    TURNED_OFF = "turned off"
    ALWAYS = "always"
    """The prompt ends in thoughts that have begun, whatever the template is asked."""


def thinking_of(tokenizer: Any) -> Thinking:
    """What a tokenizer's chat template does about thinking, found by writing one prompt both ways."""
    if not getattr(tokenizer, "chat_template", None):
        return Thinking.NONE
    off, on = (
        tokenizer.apply_chat_template(
            [{"role": "user", "content": "Hello"}], tokenize=False, add_generation_prompt=True, enable_thinking=wanted
        )
        for wanted in (False, True)
    )
    if off.rfind(OPEN) > off.rfind(CLOSE):
        return Thinking.ALWAYS
    return Thinking.NONE if off == on else Thinking.TURNED_OFF


def thinking_warning(tokenizer: Any, target: str, drafter: DrafterInfo | None) -> str:
    """One sentence where target and drafter were made for different modes, so that little will be accepted; else empty.

    Only drafters that were trained on what a target writes can be of the wrong mode: those with `made_for`.
    """
    if drafter is None or not drafter.made_for:
        return ""
    mode = thinking_of(tokenizer)
    without = any(drafter.id in preset.non_thinking for preset in PRESETS)
    if mode is Thinking.ALWAYS and without:
        return (
            f"Warning: {target} always thinks first and {drafter.title} was trained on text without thinking: "
            "little of it will be accepted. Choose a target whose template can turn thinking off."
        )
    if mode is Thinking.TURNED_OFF and not without:
        return (
            f"Warning: {target} is asked not to think, and nothing says that {drafter.title} was trained on text "
            "without thinking: less of it may be accepted than was published."
        )
    return ""

"""Controls of the page, drawn from the options of a settings class."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from decoding.settings import Option, Value

WIDEST_SLIDER = 100_000


def explained(option: Option) -> str:
    """Help, range and default in one line."""
    if isinstance(option.default, bool):
        return f"{option.help} · default {'on' if option.default else 'off'}"
    if isinstance(option.default, str):
        return f"{option.help} · default {option.default}"
    return f"{option.help} · {_plain(option.low)} to {_plain(option.high)} · default {_plain(option.default)}"


def _plain(number: float | None) -> str:
    """1, 2,147,483,647, 0.05: no exponent, and no decimals that say nothing."""
    return f"{number:,.6f}".rstrip("0").rstrip(".")


def control(option: Option, elem_id: str) -> Any:
    """A checkbox, a dropdown, a slider or a number box, by the option's type and bounds."""
    shown = {
        "label": option.name.replace("_", " ").capitalize(),
        "info": explained(option),
        "value": option.default,
        "elem_id": elem_id,
    }
    if isinstance(option.default, bool):
        return gr.Checkbox(**shown)
    if option.choices:
        return gr.Dropdown(choices=list(option.choices), **shown)
    if isinstance(option.default, str):
        return gr.Textbox(**shown)
    low, high = option.low or 0, option.high or 0
    step = 1 if isinstance(option.default, int) else 0.01
    if high - low > WIDEST_SLIDER:
        return gr.Number(minimum=low, maximum=high, precision=0, **shown)
    return gr.Slider(minimum=low, maximum=high, step=step, buttons=["reset"], **shown)


@dataclass(frozen=True)
class ControlGroup:
    """The controls of one settings class, in the order of declaration."""

    options: Mapping[str, Option]
    controls: Mapping[str, Any]

    @property
    def inputs(self) -> list[Any]:
        return list(self.controls.values())

    def values(self, given: Mapping[Any, object]) -> dict[str, object]:
        """Name to value, out of everything the page has sent."""
        return {name: given[item] for name, item in self.controls.items()}

    def defaults(self) -> dict[str, Value]:
        """The default of each control by its id on the page, for static/settings.js, which marks what was changed."""
        return {item.elem_id: self.options[name].default for name, item in self.controls.items()}


def control_group(
    name: str, options: Mapping[str, Option], in_front: str = "budget", folded: str = "More settings"
) -> ControlGroup:
    """Draws the controls: the one named `in_front` stands open, the others are folded away, with a reset for all.

    `name` tells groups apart in the controls' ids.
    """
    controls: dict[str, Any] = {}

    def draw(option: Option) -> None:
        controls[option.name] = control(option, f"cy-set-{name}-{option.name}".replace("_", "-"))

    if in_front in options:
        draw(options[in_front])
    rest = [option for option in options.values() if option.name not in controls]
    if not rest:
        return ControlGroup(options, controls)
    with gr.Accordion(folded, open=False, elem_classes="cy-fold"):
        for option in rest:
            draw(option)
        reset = gr.Button("Reset to defaults", size="sm", elem_classes="cy-reset")
    group = ControlGroup(options, {name: controls[name] for name in options})
    defaults = json.dumps([option.default for option in options.values()])
    reset.click(None, None, group.inputs, js=f"() => {defaults}", api_visibility="private")
    return group

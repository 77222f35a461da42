"""Controls of the page, drawn from the options of a settings class."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from decoding.settings import Option, Value

WIDEST_SLIDER = 100_000


def control(option: Option) -> Any:
    """A checkbox, a dropdown, a slider or a number box, by the option's type and bounds."""
    shown = {"label": option.name.replace("_", " ").capitalize(), "info": option.help, "value": option.default}
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
    return gr.Slider(minimum=low, maximum=high, step=step, buttons=[], **shown)


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

    def defaults(self) -> list[Value]:
        return [option.default for option in self.options.values()]


def control_group(
    options: Mapping[str, Option], in_front: str = "budget", folded: str = "More settings"
) -> ControlGroup:
    """Draws the controls: the one named `in_front` stands open, the others are folded away, with a reset."""
    controls: dict[str, Any] = {}
    if in_front in options:
        controls[in_front] = control(options[in_front])
    rest = {name: option for name, option in options.items() if name not in controls}
    reset = None
    if rest:
        with gr.Accordion(folded, open=False):
            controls |= {name: control(option) for name, option in rest.items()}
            reset = gr.Button("Reset to defaults", size="sm", elem_classes="cy-reset")
    group = ControlGroup(options, {name: controls[name] for name in options})
    if reset is not None:
        defaults = group.defaults()
        reset.click(
            lambda: defaults if len(defaults) > 1 else defaults[0],
            None,
            group.inputs,
            queue=False,
            show_progress="hidden",
            api_visibility="private",
        )
    return group

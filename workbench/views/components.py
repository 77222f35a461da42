"""The page's own components: `gr.HTML` with a constant template. Values reach them as JSON strings, never as HTML."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gradio as gr

from workbench.boundary import answered

STATIC = Path(__file__).parents[2] / "static"
INCLUDE = re.compile(r"<!-- include (\w+\.html) -->")
"""Where a template holds another of the static files: a pane that stands inside a view."""


def _static(name: str) -> str:
    text = (STATIC / name).read_text(encoding="utf-8").strip()
    return INCLUDE.sub(lambda found: _static(found[1]), text)


def top_bar() -> gr.HTML:
    """Name, device, theme and keys."""
    return gr.HTML("", html_template=_static("top.html"), js_on_load=None, apply_default_css=False, elem_id="cy-top")


def run_status() -> gr.HTML:
    """The line under the buttons that says what the run is doing."""
    return gr.HTML("", html_template=_static("status.html"), js_on_load=None, apply_default_css=False)


def tree_view(
    one_more: Callable[[Any], None],
    go_on: Callable[[Any], None],
    defaults: Mapping[str, object],
) -> gr.HTML:
    """The draft tree with its rounds, numbers and text. Its value is a message of `views.messages`.

    `one_more` and `go_on` take the number of a run that goes step by step; `defaults` are those of the setup's controls
    by their id, so that the page can mark what was changed.
    """

    def step(payload: Any) -> Any:  # plain functions, because Gradio marks what it serves
        return answered(one_more, payload)

    def proceed(payload: Any) -> Any:
        return answered(go_on, payload)

    return mounted("explore.html", step, proceed, defaults=json.dumps(defaults))


def mounted(template: str, *served: Callable[[Any], Any], **props: str) -> gr.HTML:
    """A component that static/page.js brings to life: the template names its class in `data-cy-view`.

    `served` are plain functions that anyone may call over HTTP with any payload: each checks what it gets, and gives
    what `answered` makes of it. `props` are JSON strings that the class gets in its `props`.
    """
    return gr.HTML(
        "",
        html_template=_static(template),
        js_on_load=_static("mount.js"),
        server_functions=list(served),
        apply_default_css=False,
        **props,
    )

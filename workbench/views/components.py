"""The page's own components: `gr.HTML` with a constant template. Values reach them as JSON strings, never as HTML."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

STATIC = Path(__file__).parents[2] / "static"


def _static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8").strip()


def top_bar() -> gr.HTML:
    """Name, device, theme and keys."""
    return gr.HTML("", html_template=_static("top.html"), js_on_load=None, apply_default_css=False, elem_id="cy-top")


def run_status() -> gr.HTML:
    """The line under the buttons that says what the run is doing."""
    return gr.HTML("", html_template=_static("status.html"), js_on_load=None, apply_default_css=False)


def tree_view(missed: Callable[[Any], str]) -> gr.HTML:
    """The draft tree with its rounds, numbers and text. Its value is a message of `views.messages`.

    `missed` gives a message with the events that the browser has missed.
    """

    def events_from(payload: Any) -> str:  # a plain function, because Gradio marks what it serves
        return missed(payload)

    return gr.HTML(
        "",
        html_template=_static("explore.html"),
        js_on_load=_static("mount.js"),
        server_functions=[events_from],
        apply_default_css=False,
        elem_id="cy-instrument",
    )

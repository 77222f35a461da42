"""The whole page: the panels, and the arguments with which it is served."""

from pathlib import Path
from typing import Any

import gradio as gr
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from workbench.panels.explore import ExplorePanel
from workbench.services import Services
from workbench.views.components import STATIC

SANS = ["ui-sans-serif", "system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "sans-serif"]
MONO = ["ui-monospace", "SF Mono", "Menlo", "Consolas", "DejaVu Sans Mono", "Liberation Mono", "monospace"]


class FreshStatic(StaticFiles):
    """Static files that the browser asks about each time, so that an update is seen at once."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def build_page(services: Services) -> gr.Blocks:
    """The page over its services."""
    with gr.Blocks(title="Canopy", analytics_enabled=False, fill_width=True) as page:
        ExplorePanel(services)
    page.queue(max_size=32)
    return page


def launch_arguments(static: Path = STATIC) -> dict[str, Any]:
    """How the page is launched: own style, own files only, nothing shared or sent."""
    return {
        "theme": gr.themes.Base(font=SANS, font_mono=MONO),
        "head_paths": [static / "head.html"],
        "app_kwargs": {"routes": [Mount("/canopy", FreshStatic(directory=static), name="canopy")]},
        "footer_links": [],
        "run_history": False,
        "show_error": False,
        "allowed_paths": [],
        "max_file_size": "1mb",
        "ssr_mode": False,
        "share": False,
        "mcp_server": False,
        "quiet": True,
    }

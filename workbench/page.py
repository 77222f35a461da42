"""The whole page: the panels, and the arguments with which it is served."""

from pathlib import Path
from typing import Any

import gradio as gr
from gradio.routes import BUILD_PATH_LIB
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from workbench.api import Api
from workbench.doors import Doors
from workbench.early_head import early_head
from workbench.front_page import FrontPage
from workbench.health_routes import health_routes
from workbench.last_resort import LastResort
from workbench.light_sessions import lighten_sessions
from workbench.panels.compare import ComparePanel
from workbench.panels.explore import ExplorePanel
from workbench.panels.learn import LearnPanel
from workbench.panels.models import ModelsPanel
from workbench.panels.sessions import SessionsPanel
from workbench.private_log import keep_gradio_private
from workbench.ready_files import ALWAYS_ASK, NEVER_ASK, Folder, ReadyFiles
from workbench.run_routes import run_routes
from workbench.safe_headers import SafeHeaders
from workbench.services import Services
from workbench.views.components import STATIC, top_bar

SANS = ["ui-sans-serif", "system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "sans-serif"]
MONO = ["ui-monospace", "SF Mono", "Menlo", "Consolas", "DejaVu Sans Mono", "Liberation Mono", "monospace"]
PANELS = {
    "Explore": ExplorePanel,
    "Compare": ComparePanel,
    "Learn": LearnPanel,
    "Sessions": SessionsPanel,
    "Models": ModelsPanel,
}
"""Tabs in their order; each panel wires itself over the services and knows no other."""


def build_page(services: Services) -> gr.Blocks:
    """The page over its services."""
    with gr.Blocks(title="Canopy", analytics_enabled=False, fill_width=True) as page:
        top_bar()
        with gr.Tabs(elem_id="cy-tabs", overflow_behavior="wrap"):
            for name, panel in PANELS.items():
                with gr.Tab(name, id=name.lower(), elem_id=f"cy-tab-{name.lower()}"):
                    panel(services)
        Api(services)
    page.queue(max_size=64)
    _calm(page)
    return page


def _calm(page: gr.Blocks) -> None:
    """Has Gradio's queue look for work 20 times a second, as it does on Windows, not a thousand times.

    Each look takes the interpreter from the thread that decodes, and a core from what works with it.
    """
    queue = page._queue
    queue.sleep_when_free, queue.progress_update_sleep_when_free = 0.05, 0.1


def launch_arguments(services: Services, static: Path = STATIC) -> dict[str, Any]:
    """How the page is launched: own style, own files only, nothing shared or sent."""
    keep_gradio_private()
    lighten_sessions()
    folders = {"/canopy/": Folder(static, ALWAYS_ASK), "/assets/": Folder(Path(BUILD_PATH_LIB), NEVER_ASK)}
    routes = [
        *health_routes(services, static),
        *run_routes(services),
        Mount("/canopy", StaticFiles(directory=static), name="canopy"),
    ]
    return {
        "theme": gr.themes.Base(font=SANS, font_mono=MONO),
        "head_paths": [static / "head.html"],
        "app_kwargs": {
            "routes": routes,
            "middleware": [
                Middleware(ProxyHeadersMiddleware, trusted_hosts=list(services.policy.proxies)),
                Middleware(SafeHeaders),
                Middleware(ReadyFiles, folders=folders),
                Middleware(LastResort),
                Middleware(Doors),
                Middleware(FrontPage, links=early_head(static)),
            ],
        },
        "footer_links": [],
        "run_history": False,
        "show_error": False,
        "allowed_paths": [],
        "max_file_size": "1mb",
        "ssr_mode": False,
        "share": False,
        "mcp_server": False,
        "max_threads": 160,  # a run that waits for its turn or for a step keeps one
        "quiet": True,
    }

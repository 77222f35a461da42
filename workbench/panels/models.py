"""The Models panel: what is loaded and what it takes, another pair to load, and what fits it."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from workbench.boundary import answered, as_api_error, visible
from workbench.menu import NO_DRAFTER
from workbench.run_request import checked_ticket
from workbench.services import Services
from workbench.views.components import mounted
from workbench.views.messages import json_message, run_message
from workbench.visitor import Visitor

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
RAW = {"preprocess": False}
# Glue to static/models.js.
LOOK_JS = "(...values) => (canopy.models.looking(), values)"
BEGIN_JS = "(...values) => [canopy.models.begin(), ...values.slice(1)]"
STOP_JS = "() => [canopy.models.stopping()]"
ENDED_JS = "() => { canopy.models.ended(); }"
NAMES = "a name from the list, a Hub id (owner/name), or a folder on this machine; weights in safetensors"


class ModelsPanel:
    """Layout and wiring. Built inside a `gr.Blocks`."""

    def __init__(self, services: Services) -> None:
        self.services = services
        with gr.Row(elem_id="cy-models"):
            with gr.Column(elem_id="cy-models-setup", min_width=240, scale=0):
                self._build_setup()
            with gr.Column(elem_id="cy-models-sight", min_width=300, scale=1):
                self.view = self._build_view()
        self._wire()

    def _build_setup(self) -> None:
        services, may = self.services, self.services.policy.allow_loading
        drafter = services.engine.usual_drafter(services.engine.default_target, services.engine.default_strategy)
        self.ticket = gr.Textbox(visible="hidden", elem_id="cy-models-ticket")
        custom = {"allow_custom_value": may, "interactive": may}
        self.target = gr.Dropdown(
            services.targets(), value=services.engine.default_target, label="Target", info=NAMES, **custom
        )
        self.drafter = gr.Dropdown(
            [*services.drafters(), NO_DRAFTER], value=drafter, label="Drafter", info="likewise, or None", **custom
        )
        with gr.Row(elem_id="cy-models-buttons"):
            self.load = gr.Button("Load", variant="primary", elem_id="cy-models-load", interactive=may)
            self.look = gr.Button("Look first", elem_id="cy-models-look", interactive=may)
            self.stop = gr.Button("Stop", variant="stop", elem_id="cy-models-stop", interactive=may)
        if not may:
            gr.Markdown(" ".join(services.policy.sentences()), elem_id="cy-models-limits")

    def _build_view(self) -> gr.HTML:
        def state(payload: Any) -> Any:  # plain functions, because Gradio marks what it serves
            return answered(self._state, payload)

        def unload(payload: Any) -> Any:
            return answered(self._unload, payload)

        return mounted("models.html", state, unload)

    def _wire(self) -> None:
        names = [self.target, self.drafter]
        self.look.click(self._look, names, self.view, js=LOOK_JS, concurrency_limit=4, **RAW, **QUIET)
        loading = self.load.click(
            self._load, [self.ticket, *names], self.view, js=BEGIN_JS, concurrency_limit=None, **RAW, **QUIET
        )
        loading.then(None, None, None, js=ENDED_JS, api_visibility="private")
        self.stop.click(self._stop, self.ticket, None, js=STOP_JS, queue=False, **QUIET)

    def _look(self, target: Any, drafter: Any) -> str:
        def survey(_: Any) -> dict[str, Any]:
            return self.services.survey(target, drafter)

        return json_message({"survey": answered(survey, None)})

    def _load(self, ticket: Any, target: Any, drafter: Any, caller: gr.Request) -> Iterator[str]:
        with as_api_error():
            number = checked_ticket(ticket)
            for first, lines in self.services.load(number, target, drafter, Visitor.of(caller)):
                yield run_message(number, first, lines)

    @visible
    def _stop(self, ticket: str) -> None:
        if ticket:
            self.services.stop(checked_ticket(ticket))

    def _state(self, _: Any) -> str:
        return json_message({"state": self.services.status()})

    def _unload(self, name: Any) -> str:
        self.services.unload(name)
        return self._state(None)

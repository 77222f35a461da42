"""The Compare panel: several ways on one prompt, one after another on the same model, side by side."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import gradio as gr

from decoding.errors import BadRequest
from decoding.settings import Option
from workbench.boundary import answered, as_api_error
from workbench.panels.prompts import EXAMPLES
from workbench.run_request import MAX_PROMPT, MAX_WAYS, CompareRequest, checked_ticket
from workbench.services import Services
from workbench.views.components import mounted
from workbench.views.messages import json_message, run_message
from workbench.visitor import Visitor

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
MAX_REQUEST = 2 * MAX_PROMPT + 20_000
# Glue to static/compare.js, which holds the choosers: a way more or less is no matter of the server.
BEGIN_JS = "() => [canopy.compare.begin()]"
ENDED_JS = "() => { canopy.compare.ended(); }"


class ComparePanel:
    """Layout and wiring. Built inside a `gr.Blocks`."""

    def __init__(self, services: Services) -> None:
        self.services = services
        with gr.Column(elem_id="cy-compare-panel"):
            self.view = self._build_view()
            asked = gr.Textbox(visible="hidden")
            run = gr.Button("Compare", visible="hidden", elem_id="cy-compare-run")
        # Services keep the line for the device. What is sent is checked here, not by Gradio's own text box.
        running = run.click(self._run, asked, self.view, js=BEGIN_JS, concurrency_limit=None, preprocess=False, **QUIET)
        running.then(None, None, None, js=ENDED_JS, api_visibility="private")

    def _build_view(self) -> gr.HTML:
        def choices(payload: Any) -> Any:  # plain functions, because Gradio marks what it serves
            return answered(self._choices, payload)

        def fits(payload: Any) -> Any:
            return answered(self._fits, payload)

        def stop(payload: Any) -> Any:
            return answered(self._stop, payload)

        return mounted("compare.html", choices, fits, stop)

    def _choices(self, _: Any) -> str:
        """All that there is to choose from, in titles and options."""
        services, engine = self.services, self.services.engine
        return json_message(
            {
                "targets": services.targets(),
                "target": engine.default_target,
                "strategy": engine.default_strategy,
                "drafter": engine.usual_drafter(engine.default_target, engine.default_strategy),
                "options": {name: _options(services.options(name)) for _, name in engine.strategies()},
                "text": _options(services.text_options()),
                "examples": EXAMPLES,
                "most": MAX_WAYS,
            }
        )

    def _fits(self, payload: Any) -> str:
        """What fits a way of `[target, drafter, strategy]`, as in Explore."""
        if not isinstance(payload, list) or len(payload) != 3:
            raise BadRequest("Ask for [target, drafter, strategy].", "Load the page again.")
        return json_message(asdict(self.services.offer(*payload)))

    def _stop(self, ticket: Any) -> None:
        self.services.stop(checked_ticket(ticket))

    def _run(self, text: Any, caller: gr.Request) -> Iterator[str]:
        with as_api_error():
            asked = _asked(text)
            ticket = checked_ticket(asked.get("ticket"))

        def build() -> CompareRequest:
            return CompareRequest.parse(*(asked.get(name) for name in ("prompt", "target", "ways", "text")))

        for first, lines in self.services.ticks(ticket, build, visitor=Visitor.of(caller)):
            yield run_message(ticket, first, lines)


def _asked(text: Any) -> dict[str, Any]:
    """What the browser asks for: a JSON object."""
    if not isinstance(text, str) or len(text) > MAX_REQUEST:
        raise BadRequest("The request is too long.", f"A prompt has {MAX_PROMPT:,} characters at most: shorten it.")
    try:
        asked = json.loads(text)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise BadRequest("The request cannot be read.", "Load the page again.")
    return asked


def _options(options: dict[str, Option]) -> list[dict[str, Any]]:
    # JSON does not tell 1.0 from 1.
    return [asdict(item) | {"whole": type(item.default) is int} for item in options.values()]

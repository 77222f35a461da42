"""The Explore panel: set a run up, watch it round by round."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import gradio as gr

from decoding.errors import BadRequest
from decoding.settings import options_of
from workbench.boundary import as_api_error, visible
from workbench.controls import ControlGroup, control_group
from workbench.panels.prompts import EXAMPLES
from workbench.run_request import RunRequest, TextSettings, checked_ticket
from workbench.services import Offer, Services
from workbench.views.components import run_status, top_bar, tree_view
from workbench.views.messages import reasons_text, run_message

DEVICE = {"concurrency_id": "device", "concurrency_limit": 1}
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
# Glue to static/page.js: the browser numbers its runs, so that it can stop one that still waits its turn.
BEGIN_JS = "(...values) => [canopy.begin(), ...values.slice(1)]"
STOP_JS = "() => [canopy.stopping()]"
ENDED_JS = "() => { canopy.ended(); }"


class ExplorePanel:
    """Layout and wiring. Built inside a `gr.Blocks`."""

    def __init__(self, services: Services) -> None:
        self.services = services
        engine = services.engine
        drafter = engine.usual_drafter(engine.default_target, engine.default_strategy)
        offer = services.offer(engine.default_target, drafter, engine.default_strategy)
        top_bar()
        with gr.Row(elem_id="cy-main"):
            with gr.Column(elem_id="cy-setup", min_width=240, scale=0):
                self._build_setup(offer)
            with gr.Column(elem_id="cy-sight", min_width=300, scale=1):
                self.view = tree_view(self._events_from)
        self._wire()

    def _build_setup(self, offer: Offer) -> None:
        engine = self.services.engine
        self.ticket = gr.Textbox(visible="hidden", elem_id="cy-ticket")
        self.target = gr.Dropdown(engine.targets(), value=engine.default_target, label="Target", filterable=False)
        self.drafter = gr.Dropdown(offer.drafters, value=offer.drafter, label="Drafter", filterable=False)
        self.strategy = gr.Dropdown(offer.strategies, value=offer.strategy, label="Strategy", filterable=False)
        with gr.Accordion("Why not the others?", open=False, elem_classes="cy-fold"):
            self.reasons = gr.Markdown(reasons_text(offer.reasons))
        self.settings: dict[str, ControlGroup] = {}
        self.boxes: dict[str, gr.Column] = {}
        for _, name in engine.strategies():
            options = engine.options(name)
            with gr.Column(visible=name == offer.strategy and bool(options), elem_classes="cy-settings") as box:
                self.settings[name] = control_group(options)
            self.boxes[name] = box
        self.prompt = gr.Textbox(
            EXAMPLES[0][1], label="Prompt", lines=4, max_lines=10, max_length=20_000, elem_id="cy-prompt"
        )
        self.examples = gr.Dropdown(EXAMPLES, value=EXAMPLES[0][1], label="Examples", filterable=False)
        self.text = control_group(options_of(TextSettings), in_front="", folded="Text and sampling")
        self.compare = gr.Checkbox(False, label="Compare with plain decoding", elem_id="cy-compare")
        with gr.Row(elem_id="cy-buttons"):
            self.run = gr.Button("Run", variant="primary", elem_id="cy-run")
            self.stop = gr.Button("Stop", variant="stop", elem_id="cy-stop")
        run_status()

    def _wire(self) -> None:
        choosers = [self.target, self.drafter, self.strategy]
        outputs = [self.drafter, self.strategy, self.reasons, *self.boxes.values()]
        for chooser in choosers:
            chooser.input(self._refit, choosers, outputs, queue=False, **QUIET)
        self.examples.input(None, self.examples, self.prompt, js="(text) => text", **QUIET)

        groups = [*self.settings.values(), self.text]
        inputs = [self.ticket, self.prompt, *choosers, self.compare, *(i for group in groups for i in group.inputs)]
        self._order = inputs
        running = self.run.click(self._run, inputs, self.view, js=BEGIN_JS, **DEVICE, **QUIET)
        running.then(None, None, None, js=ENDED_JS, api_visibility="private")
        self.stop.click(self._stop, self.ticket, None, js=STOP_JS, queue=False, **QUIET)
        gr.api(self._api_run, api_name="run", api_visibility="public", **DEVICE)

    def _refit(self, target: str, drafter: str, strategy: str) -> list[Any]:
        with as_api_error():
            offer = self.services.offer(target, drafter, strategy)
        boxes = [gr.update(visible=name == offer.strategy and bool(self.settings[name].options)) for name in self.boxes]
        return [
            gr.update(choices=offer.drafters, value=offer.drafter),
            gr.update(choices=offer.strategies, value=offer.strategy),
            reasons_text(offer.reasons),
            *boxes,
        ]

    def _run(self, *values: Any) -> Iterator[str]:
        with as_api_error():
            ticket = checked_ticket(values[0])
        given = dict(zip(self._order, values, strict=True))
        for first, lines in self.services.stream(ticket, lambda: self._request(given)):
            yield run_message(ticket, first, lines)

    def _request(self, given: dict[Any, Any]) -> RunRequest:
        strategy = given[self.strategy]
        if strategy not in self.settings:
            raise BadRequest("This strategy is not known here.", "Choose one on the page.")
        return RunRequest(
            prompt=given[self.prompt],
            target=given[self.target],
            drafter=given[self.drafter],
            strategy=strategy,
            settings=self.settings[strategy].values(given),
            text=RunRequest.text_settings(self.text.values(given)),
            compare=bool(given[self.compare]),
        )

    @visible
    def _stop(self, ticket: str) -> None:
        if ticket:
            self.services.stop(checked_ticket(ticket))

    def _events_from(self, payload: Any) -> str:
        """The events that a browser has missed: `[ticket, first]`."""
        with as_api_error():
            if not isinstance(payload, list) or len(payload) != 2 or not isinstance(payload[1], int) or payload[1] < 0:
                raise BadRequest("Ask for [run, first event].", "Load the page again.")
            ticket, first = checked_ticket(payload[0]), payload[1]
            log = self.services.runs.find(ticket)
            return run_message(ticket, first, log.since(first)[0] if log else [])

    def _api_run(
        self,
        prompt: str,
        target: str = "",
        drafter: str = "",
        strategy: str = "",
        settings: dict | None = None,
        text: dict | None = None,
        compare: bool = False,
    ) -> Iterator[dict]:
        """Runs a prompt and streams the events of the trace: header, rounds, summary, and a comparison if asked for.

        Empty names take the defaults; `settings` are those of the strategy, `text` max_new_tokens, temperature, top_p,
        top_k and seed.
        """
        engine = self.services.engine
        with as_api_error():
            way = strategy or engine.default_strategy
            request = RunRequest(
                prompt,
                target or engine.default_target,
                drafter or None,
                way,
                settings or {},
                RunRequest.text_settings(text or {}),
                compare is True,
            )
            yield from self.services.events(request, uuid4().hex)

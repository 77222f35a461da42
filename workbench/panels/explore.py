"""The Explore panel: set a run up, watch it round by round."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from decoding.errors import BadRequest
from workbench.boundary import as_api_error, visible
from workbench.controls import ControlGroup, control_group
from workbench.menu import Offer
from workbench.panels.prompts import EXAMPLES
from workbench.run_request import RunRequest, checked_ticket
from workbench.services import Services
from workbench.views.components import run_status, tree_view
from workbench.views.messages import json_message, reasons_text, run_message
from workbench.visitor import Visitor

# Services keep the line for the device: Gradio's own would not tell anybody's place, nor let a stopped run out.
SIDE_BY_SIDE = {"concurrency_limit": None}
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
# Gradio's own check refuses a value that a chooser no longer offers, which a quick hand can send: ours explains.
RAW = {"preprocess": False}
# Glue to static/explore.js: the browser numbers its runs, so that it can stop one that still waits its turn.
BEGIN_JS = "(...values) => [canopy.explore.begin(), ...values.slice(1)]"
STOP_JS = "() => [canopy.explore.stopping()]"
CHOSEN_JS = "(...values) => canopy.explore.takeChosen(values)"
# Components that a function of the server has once written to are looked at again with every later message, of a run
# for example. So the server writes to one, and the browser deals it out.
DEAL_JS = "(updates) => JSON.parse(updates)"
ENDED_JS = "() => { canopy.explore.ended(); }"


class ExplorePanel:
    """Layout and wiring. Built inside a `gr.Blocks`."""

    def __init__(self, services: Services) -> None:
        self.services = services
        engine = services.engine
        drafter = engine.usual_drafter(engine.default_target, engine.default_strategy)
        offer = services.offer(engine.default_target, drafter, engine.default_strategy)
        with gr.Row(elem_id="cy-main"):
            with gr.Column(elem_id="cy-setup", min_width=240, scale=0):
                self._build_setup(offer)
            with gr.Column(elem_id="cy-sight", min_width=300, scale=1):
                groups = [*self.settings.values(), self.text]
                defaults = {name: value for group in groups for name, value in group.defaults().items()}
                self.view = tree_view(self._step, self._proceed, defaults)
        self._wire()

    def _build_setup(self, offer: Offer) -> None:
        engine = self.services.engine
        self._targets = self.services.targets()
        self.ticket = gr.Textbox(visible="hidden", elem_id="cy-ticket")
        self.refresh = gr.Button(visible="hidden", elem_id="cy-refresh")
        self.updates = gr.Textbox(visible="hidden")
        self.target = gr.Dropdown(self._targets, value=engine.default_target, label="Target", filterable=False)
        self.drafter = gr.Dropdown(offer.drafters, value=offer.drafter, label="Drafter", filterable=False)
        self.strategy = gr.Dropdown(offer.strategies, value=offer.strategy, label="Strategy", filterable=False)
        with gr.Accordion("Why not the others?", open=False, elem_classes="cy-fold"):
            self.reasons = gr.Markdown(reasons_text(offer.reasons))
        self.settings: dict[str, ControlGroup] = {}
        self.boxes: dict[str, gr.Column] = {}
        for _, name in engine.strategies():
            options = self.services.options(name)
            with gr.Column(visible=name == offer.strategy and bool(options), elem_classes="cy-settings") as box:
                self.settings[name] = control_group(name, options)
            self.boxes[name] = box
        self.prompt = gr.Textbox(
            EXAMPLES[0][1], label="Prompt", lines=4, max_lines=10, max_length=20_000, elem_id="cy-prompt"
        )
        self.examples = gr.Dropdown(EXAMPLES, value=EXAMPLES[0][1], label="Examples", filterable=False)
        self.text = control_group("text", self.services.text_options(), in_front="", folded="Text and sampling")
        self.compare = gr.Checkbox(False, label="Compare with plain decoding", elem_id="cy-compare")
        with gr.Row(elem_id="cy-buttons"):
            self.run = gr.Button("Run", variant="primary", elem_id="cy-run")
            refusal = self.services.device.no_steps()
            self.step = gr.Button("Step", elem_id="cy-step", interactive=refusal is None)
            self.stop = gr.Button("Stop", variant="stop", elem_id="cy-stop")
        run_status()
        if refusal is not None:
            gr.Markdown(f"{refusal.message} {refusal.hint}", elem_id="cy-no-steps")

    def _wire(self) -> None:
        choosers = [self.target, self.drafter, self.strategy]
        outputs = [self.drafter, self.strategy, self.reasons, *self.boxes.values()]
        for chooser in choosers:
            refitted = chooser.input(self._refit, choosers, self.updates, queue=False, **RAW, **QUIET)
            refitted.success(None, self.updates, outputs, js=DEAL_JS, **QUIET)
        self.examples.input(None, self.examples, self.prompt, js="(text) => text", **QUIET)

        groups = [*self.settings.values(), self.text]
        inputs = [self.ticket, self.prompt, *choosers, self.compare, *(i for group in groups for i in group.inputs)]
        self._order = inputs
        for button, stepping in ((self.run, False), (self.step, True)):
            start = self._stepping if stepping else self._running
            running = button.click(start, inputs, self.view, js=BEGIN_JS, **SIDE_BY_SIDE, **RAW, **QUIET)
            running.then(None, None, None, js=ENDED_JS, api_visibility="private")
        self.stop.click(self._stop, self.ticket, None, js=STOP_JS, queue=False, **QUIET)
        # Models may have been loaded since the page was built: by this visitor, who presses it, or by another.
        renew = gr.on(None, self._renew, None, self.updates, queue=False, **QUIET)
        choose = self.refresh.click(self._choose, choosers, self.updates, js=CHOSEN_JS, queue=False, **RAW, **QUIET)
        for renewed in (renew, choose):
            renewed.success(None, self.updates, [self.target, *outputs], js=DEAL_JS, **QUIET)

    def _refit(self, target: str, drafter: str, strategy: str) -> str:
        with as_api_error():
            return json_message(self._fitting(target, drafter, strategy))

    def _renew(self) -> str:
        """The choosers of a page that is opened after models have been loaded."""
        if self.services.targets() == self._targets:
            return json_message([gr.skip()] * (4 + len(self.boxes)))
        engine = self.services.engine
        drafter = engine.usual_drafter(engine.default_target, engine.default_strategy)
        return self._choose(engine.default_target, drafter, engine.default_strategy)

    def _choose(self, target: str, drafter: str, strategy: str) -> str:
        with as_api_error():
            choosers = gr.update(choices=self.services.targets(), value=target)
            return json_message([choosers, *self._fitting(target, drafter, strategy)])

    def _fitting(self, target: str, drafter: str, strategy: str) -> list[dict[str, Any]]:
        """Updates of drafter, strategy, reasons and the boxes of settings."""
        offer = self.services.offer(target, drafter, strategy)
        return [
            gr.update(choices=offer.drafters, value=offer.drafter),
            gr.update(choices=offer.strategies, value=offer.strategy),
            gr.update(value=reasons_text(offer.reasons)),
            *(gr.update(visible=name == offer.strategy and bool(self.settings[name].options)) for name in self.boxes),
        ]

    def _running(self, caller: gr.Request, *values: Any) -> Iterator[str]:
        yield from self._run(Visitor.of(caller), values, stepping=False)

    def _stepping(self, caller: gr.Request, *values: Any) -> Iterator[str]:
        yield from self._run(Visitor.of(caller), values, stepping=True)

    def _run(self, visitor: Visitor, values: tuple[Any, ...], stepping: bool) -> Iterator[str]:
        with as_api_error():
            ticket = checked_ticket(values[0])
            given = dict(zip(self._order, values, strict=True))
            for first, lines in self.services.ticks(ticket, lambda: self._request(given), stepping, visitor):
                yield run_message(ticket, first, lines)

    def _request(self, given: dict[Any, Any]) -> RunRequest:
        strategy = given[self.strategy]
        if not isinstance(strategy, str) or strategy not in self.settings:
            raise BadRequest("This strategy is not known here.", "Choose one on the page.")
        return RunRequest(
            prompt=given[self.prompt],
            target=given[self.target],
            drafter=given[self.drafter],
            strategy=strategy,
            settings=self.settings[strategy].values(given),
            text=RunRequest.text_settings(self.text.values(given)),
            compare=given[self.compare] is True,
        )

    @visible
    def _stop(self, ticket: str) -> None:
        if ticket:
            self.services.stop(checked_ticket(ticket))

    def _step(self, ticket: Any) -> None:
        self.services.step(checked_ticket(ticket))

    def _proceed(self, ticket: Any) -> None:
        self.services.proceed(checked_ticket(ticket))

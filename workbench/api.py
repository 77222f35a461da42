"""The named endpoints: the page's doings for programs. Every value is checked here, whatever a client sends."""

import builtins
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import gradio as gr

from decoding.errors import BadRequest
from decoding.settings import Option
from workbench.boundary import as_api_error
from workbench.menu import NO_DRAFTER
from workbench.run_request import CompareRequest, RunRequest, checked_ticket
from workbench.services import Services
from workbench.visitor import Visitor


class Api:
    """Built inside a `gr.Blocks`; each public method is an endpoint, its docstring the description."""

    def __init__(self, services: Services) -> None:
        self.services = services
        # Services keep the line for the device; whatever does not need it answers at once.
        gr.api(self.run, api_name="run", concurrency_limit=None)
        gr.api(self.compare, api_name="compare", concurrency_limit=None)
        for endpoint in (self.list, self.offer, self.stop, self.status, self.trace):
            gr.api(endpoint, api_name=endpoint.__name__, queue=True, concurrency_limit=None)

    def run(
        self,
        prompt: str,
        target: str = "",
        drafter: str = "",
        strategy: str = "",
        settings: dict | None = None,
        text: dict | None = None,
        compare: bool = False,
        verifier: str = "",
        ticket: str = "",
        caller: gr.Request | None = None,
    ) -> Iterator[dict]:
        """Decodes a prompt and streams events: status (what is being done, the place in the queue), header, rounds,
        summary, and a comparison with plain decoding if asked for.

        Args:
            prompt: what the target continues; its chat template is applied where it has one.
            target: id of a target (see /list); empty for the default.
            drafter: id of a drafter, "none" for none; empty for the strategy's usual one.
            strategy: id of a strategy; empty for the default.
            settings: settings of the strategy by name (see /list).
            text: max_new_tokens, temperature, top_p, top_k, seed.
            compare: whether plain decoding of the same prompt follows.
            verifier: id of a verifier; empty for the usual one.
            ticket: number of the run, made by the caller (a UUID), for /stop and /trace; empty for one of the server's,
                which the first event tells.
        """
        engine = self.services.engine
        with as_api_error():
            _require_texts(target=target, drafter=drafter, strategy=strategy, verifier=verifier)
            _require_objects(settings=settings, text=text)
            number = checked_ticket(ticket) if ticket else uuid4().hex
            request = RunRequest(
                prompt=prompt,
                target=target or engine.default_target,
                drafter=drafter or None,
                strategy=strategy or engine.default_strategy,
                settings=settings or {},
                text=RunRequest.text_settings(self._text_defaults() | (text or {})),
                compare=compare is True,
                verifier=verifier or None,
            )
            yield {"kind": "status", "text": "Accepted", "ticket": number}
            yield from self.services.events(request, number, Visitor.of(caller))

    def compare(
        self,
        prompt: str,
        ways: builtins.list[dict],
        target: str = "",
        text: dict | None = None,
        ticket: str = "",
        caller: gr.Request | None = None,
    ) -> Iterator[dict]:
        """Decodes a prompt in up to four ways, one after another on the same model, and streams the events of all.

        An event `lanes` names the lanes; those of a run then have their `lane`: 0 is plain decoding, which runs first,
        then the ways in their order. Each lane gives header, rounds and summary after an untimed warm-up, and each
        way its comparison with plain decoding: speedup, and whether the text is identical, or else where it parts and
        how close the target's two best tokens were. An error of one lane does not end the others.

        Args:
            prompt: what the target continues; its chat template is applied where it has one.
            ways: objects with strategy, and if wanted drafter (an id or "none") and settings.
            target: id of a target (see /list); empty for the default.
            text: max_new_tokens, temperature, top_p, top_k, seed.
            ticket: number of the comparison, made by the caller (a UUID), for /stop; with "-" and a lane's number, for
                /trace. Empty for one of the server's, which the first event tells.
        """
        with as_api_error():
            _require_texts(target=target)
            _require_objects(text=text)
            number = checked_ticket(ticket) if ticket else uuid4().hex
            target = target or self.services.engine.default_target
            request = CompareRequest.parse(prompt, target, ways, self._text_defaults() | (text or {}))
            yield {"kind": "status", "text": "Accepted", "ticket": number}
            yield from self.services.events(request, number, Visitor.of(caller))

    def list(self) -> dict:
        """Targets, drafters, strategies with their settings and ranges, verifiers, and which of them fit together."""
        with as_api_error():
            services, engine = self.services, self.services.engine
            targets, drafters = services.targets(), [*services.drafters(), NO_DRAFTER]
            strategies = engine.strategies()
            return {
                "targets": [{"id": name, "title": title} for title, name in targets],
                "drafters": [{"id": name, "title": title} for title, name in drafters],
                "strategies": [
                    {"id": name, "title": title, "settings": _described(services.options(name))}
                    for title, name in strategies
                ],
                "text": _described(services.text_options()),
                "verifiers": [{"id": name, "title": title} for title, name in engine.verifiers()],
                "fits": [
                    {"target": target, "drafter": drafter, "strategies": found}
                    for _, target in targets
                    for _, drafter in drafters
                    if (found := [way for _, way in strategies if engine.misfit(target, drafter, way) is None])
                ],
                "defaults": {"target": engine.default_target, "strategy": engine.default_strategy},
            }

    def offer(self, target: str, drafter: str = "none", strategy: str = "") -> dict:
        """What can be run with a target and with a drafter (the one asked for, or one that fits), why the rest cannot,
        and why the three asked for do not fit together (`misfit`, null where they do).

        Args:
            target: id of a target.
            drafter: id of a drafter, "none" for none.
            strategy: id of a strategy; empty for the default.
        """
        with as_api_error():
            _require_texts(target=target, drafter=drafter, strategy=strategy)
            way = strategy or self.services.engine.default_strategy
            found = self.services.offer(target, drafter, way)
            return {
                "misfit": self.services.misfit(target, drafter, way),
                "drafters": [name for _, name in found.drafters],
                "drafter": found.drafter,
                "strategies": [name for _, name in found.strategies],
                "reasons": [{"title": title, "reason": reason} for title, reason in found.reasons],
            }

    def stop(self, ticket: str) -> dict:
        """Ends a run after the round in hand, at once where it waits for its turn.

        Args:
            ticket: number of the run.
        """
        with as_api_error():
            self.services.stop(checked_ticket(ticket))
            return {"stopped": True}

    def status(self) -> dict:
        """The queue for the device, what is loaded with its memory, versions, and this server's limits."""
        with as_api_error():
            return self.services.status()

    def trace(self, ticket: str) -> str:
        """A run that has ended, as the text of a trace file (JSON Lines).

        Args:
            ticket: number of the run.
        """
        with as_api_error():
            return self.services.trace(checked_ticket(ticket))

    def _text_defaults(self) -> dict[str, Any]:
        return {name: option.default for name, option in self.services.text_options().items()}


def _require_texts(**values: object) -> None:
    for name, value in values.items():
        if not isinstance(value, str):
            raise BadRequest(f"{name} must be text.", "See /list for the names.")


def _require_objects(**values: object) -> None:
    for name, value in values.items():
        if value is not None and not isinstance(value, dict):
            raise BadRequest(f"{name} must be an object of names and values.", "See /list for the names.")


def _described(options: dict[str, Option]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "type": type(option.default).__name__,
            "default": option.default,
            "low": option.low,
            "high": option.high,
            "choices": list(option.choices),
            "help": option.help,
        }
        for name, option in options.items()
    ]

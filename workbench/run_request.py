"""What a run is asked with, checked before anything else happens: the browser and the API can send anything."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from decoding.errors import BadRequest
from decoding.settings import Settings, option, parse_settings

MAX_PROMPT = 20_000
MAX_WAYS = 4
MAX_NAME = 500
TICKET = re.compile(r"[0-9a-f-]{16,40}")


@dataclass(frozen=True)
class TextSettings(Settings):
    """How the text is drawn; the controls of the page are made from this."""

    max_new_tokens: int = option(128, "longest text, in new tokens", low=1, high=1024)
    temperature: float = option(0.0, "0 always takes the likeliest token", low=0, high=2)
    top_p: float = option(1.0, "least probability mass that is kept; 1 keeps all", low=0.05, high=1)
    top_k: int = option(0, "how many of the likeliest tokens are kept; 0 keeps all", low=0, high=200)
    seed: int = option(0, "same seed, same text", low=0, high=2**31 - 1)


@dataclass(frozen=True)
class RunRequest:
    """A run as the page asks for it."""

    prompt: str
    target: str
    drafter: str | None
    strategy: str
    settings: Mapping[str, object] = field(default_factory=dict)
    text: TextSettings = field(default_factory=TextSettings)
    compare: bool = False
    verifier: str | None = None
    """None takes the usual one for the temperature."""

    def __post_init__(self) -> None:
        for name in ("prompt", "target", "strategy"):
            if not isinstance(getattr(self, name), str):
                raise BadRequest(f"{name} must be text.", "Choose one on the page.")
        if not (self.verifier is None or isinstance(self.verifier, str)):
            raise BadRequest("verifier must be text.", "Leave it out for the usual one.")
        if not (self.drafter is None or isinstance(self.drafter, str)) or not isinstance(self.settings, Mapping):
            raise BadRequest("drafter must be text and settings a mapping.", "Choose them on the page.")
        try:
            json.dumps([self.prompt, self.settings], ensure_ascii=False, default=str).encode()
        except (ValueError, TypeError, RecursionError):
            raise BadRequest("The prompt or a setting is no text that can be written.", "Write it anew.") from None
        if not self.prompt.strip():
            raise BadRequest("The prompt is empty.", "Write one, or take one of the examples.")
        if len(self.prompt) > MAX_PROMPT:
            raise BadRequest(
                f"The prompt has {len(self.prompt):,} characters.", f"It can have {MAX_PROMPT:,}: shorten it."
            )

    @staticmethod
    def text_settings(given: Mapping[str, object]) -> TextSettings:
        """The text settings from what came in."""
        return parse_settings(TextSettings, given)


@dataclass(frozen=True)
class CompareRequest:
    """Several ways to run one prompt on one target: the same text settings, other drafters, strategies, settings."""

    ways: tuple[RunRequest, ...]

    @property
    def target(self) -> str:
        return self.ways[0].target

    def __post_init__(self) -> None:
        if not 1 <= len(self.ways) <= MAX_WAYS:
            raise BadRequest(f"{len(self.ways)} ways cannot be compared.", f"Choose from 1 to {MAX_WAYS}.")
        if len({(way.prompt, way.target, way.text) for way in self.ways}) > 1:
            raise BadRequest("The ways differ in prompt, target or text settings.", "Give all of them the same.")

    @classmethod
    def parse(cls, prompt: object, target: object, ways: object, text: object) -> Self:
        """From what came in: `ways` lists mappings with strategy, drafter (None: the usual one) and settings."""
        if not isinstance(ways, list) or not all(isinstance(way, Mapping) for way in ways):
            raise BadRequest("ways must list one mapping for each way.", "Choose them on the page.")
        for way in ways:
            if unknown := sorted(str(name)[:80] for name in way.keys() - {"strategy", "drafter", "settings"}):
                raise BadRequest(f"A way has no {unknown[0]!r}.", "It has strategy, drafter and settings.")
        if not isinstance(text, Mapping):
            raise BadRequest("The text settings must be a mapping.", "Load the page again.")
        checked = RunRequest.text_settings(text)
        return cls(
            tuple(
                RunRequest(
                    prompt,  # type: ignore[arg-type]  # checked at birth, as the others
                    target,  # type: ignore[arg-type]
                    way.get("drafter"),
                    way.get("strategy"),  # type: ignore[arg-type]
                    way.get("settings", {}),
                    checked,
                )
                for way in ways[: MAX_WAYS + 1]
            )
        )


Asked = RunRequest | CompareRequest


def checked_model(name: object, what: str) -> str:
    """The name of a model as somebody has written it: a short name, a Hub id or a folder."""
    if not isinstance(name, str) or not name.strip():
        raise BadRequest(f"The {what} has no name.", "Give a short name, a Hub id (owner/name) or a local folder.")
    if len(name) > MAX_NAME or not name.isprintable():
        raise BadRequest(
            f"The name of the {what} is too long or holds unprintable characters.", "Give a Hub id or a local folder."
        )
    return name.strip()


def checked_ticket(ticket: object) -> str:
    """The number of a run, made by the browser: nobody else can guess it, so nobody else can stop the run."""
    if not isinstance(ticket, str) or not TICKET.fullmatch(ticket):
        raise BadRequest("This run has no valid number.", "Load the page again.")
    return ticket

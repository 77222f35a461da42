"""What a run is asked with, checked before anything else happens: the browser and the API can send anything."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from decoding.errors import BadRequest
from decoding.settings import Settings, option, parse_settings

MAX_PROMPT = 20_000
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

    def __post_init__(self) -> None:
        for name in ("prompt", "target", "strategy"):
            if not isinstance(getattr(self, name), str):
                raise BadRequest(f"{name} must be text.", "Choose one on the page.")
        if not (self.drafter is None or isinstance(self.drafter, str)) or not isinstance(self.settings, Mapping):
            raise BadRequest("drafter must be text and settings a mapping.", "Choose them on the page.")
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


def checked_ticket(ticket: object) -> str:
    """The number of a run, made by the browser: nobody else can guess it, so nobody else can stop the run."""
    if not isinstance(ticket, str) or not TICKET.fullmatch(ticket):
        raise BadRequest("This run has no valid number.", "Load the page again.")
    return ticket

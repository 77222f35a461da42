"""What goes to the browser: one JSON string, `{run, first, events}`. Pure functions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def run_message(ticket: str, first: int, lines: Sequence[str]) -> str:
    """Events (already JSON text) number `first` onwards of a run. A string, because nested values are slow.

    `<` stands only inside JSON strings, where it can be escaped: so no markup is ever on the way to the page.
    """
    return _unmarked(f'{{"run":{json.dumps(ticket)},"first":{int(first)},"events":[{",".join(lines)}]}}')


def json_message(message: Mapping[str, Any] | Sequence[Any]) -> str:
    """Any message, likewise without markup."""
    return _unmarked(json.dumps(message, ensure_ascii=False, allow_nan=False))


def _unmarked(message: str) -> str:
    return message.replace("<", "\\u003c")


def reasons_text(reasons: Sequence[tuple[str, str]]) -> str:
    """Why something is not offered, as Markdown of our own titles and reasons."""
    if not reasons:
        return "Everything there is fits this target and drafter."
    return "\n".join(_reason(title, reason) for title, reason in reasons)


def _reason(title: str, reason: str) -> str:
    if reason.startswith(title + " "):
        return f"- **{_plain(title)}** {_plain(reason.removeprefix(title + ' '))}"
    return f"- **{_plain(title)}**: {_plain(reason)}"


def _plain(text: str) -> str:
    """Takes the markup out of a text: names can come from files."""
    return "".join("\\" + c if c in "\\`*_{}[]()<>#+!|$~" else " " if c in "\r\n" else c for c in text)

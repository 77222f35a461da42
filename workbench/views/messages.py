"""What goes to the browser: one JSON string, `{run, first, events}`. Pure functions."""

import json
from collections.abc import Sequence


def run_message(ticket: str, first: int, lines: Sequence[str]) -> str:
    """Events (already JSON text) number `first` onwards of a run. A string, because nested values are slow.

    `<` stands only inside JSON strings, where it can be escaped: so no markup is ever on the way to the page.
    """
    message = f'{{"run":{json.dumps(ticket)},"first":{int(first)},"events":[{",".join(lines)}]}}'
    return message.replace("<", "\\u003c")


def reasons_text(reasons: Sequence[tuple[str, str]]) -> str:
    """Why something is not offered, as Markdown of our own titles and reasons."""
    if not reasons:
        return "Everything there is fits this target and drafter."
    return "\n".join(f"- **{_plain(title)}**: {_plain(reason)}" for title, reason in reasons)


def _plain(text: str) -> str:
    """Takes the markup out of a text: names can come from files."""
    return "".join("\\" + c if c in "\\`*_{}[]()<>#+!|$~" else " " if c in "\r\n" else c for c in text)

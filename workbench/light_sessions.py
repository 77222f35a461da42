"""Gradio's sessions, without a copy of the whole page's settings in each.

Gradio writes them down for links that bring a page's state back, which this page does not use. For every new visitor it
takes some thirty milliseconds, with the interpreter that also decodes, and the memory stays for as long as the session.
"""

from types import SimpleNamespace
from typing import Any

import gradio
from gradio.state_holder import SessionState, StateHolder


class LightSessions(StateHolder):
    """Sessions that begin with no settings written down; Gradio adds those of a component when it changes it."""

    def __getitem__(self, session_id: str) -> SessionState:
        if session_id not in self.session_data:
            page: Any = SimpleNamespace(default_config=self.blocks.default_config, blocks={})
            self.session_data[session_id] = SessionState(page)
        return super().__getitem__(session_id)


def lighten_sessions() -> None:
    """Has Gradio's servers use them from now on."""
    gradio.routes.StateHolder = LightSessions  # type: ignore[attr-defined, misc]

"""Gradio's sessions hold settings of what has been used, not of the whole page."""

import httpx
from gradio.state_holder import StateHolder

from tests.workbench.browser import launched
from tests.workbench.forged import GOOD, called
from tests.workbench.replay_engine import ReplayEngine
from workbench.services import Services


def test_a_visitor_s_session_holds_little() -> None:
    with launched(Services(ReplayEngine())) as page:
        with httpx.Client(base_url=page.local_url) as http:
            assert "event: complete" in called(http, "/run", GOOD["/run"])
        sessions = page.app.state_holder.session_data
        assert sessions
        for session in sessions.values():
            assert session.blocks_config.blocks.keys() == page.default_config.blocks.keys()
            assert len(session.config_values) <= len(GOOD["/run"]) + 1, "the arguments and the answer"
        whole = StateHolder()
        whole.set_blocks(page)
        assert len(whole["as Gradio has it"].config_values) > 50, "not needed any more: Gradio has stopped copying"

"""Gradio's sessions hold settings of what has been used, not of the whole page."""

import httpx
from gradio.state_holder import StateHolder

from tests.workbench.browser import free_port
from tests.workbench.forged import GOOD, called
from tests.workbench.replay_engine import ReplayEngine
from workbench.page import build_page, launch_arguments
from workbench.services import Services


def test_a_visitor_s_session_holds_little() -> None:
    services = Services(ReplayEngine())
    page = build_page(services)
    app, address, _ = page.launch(
        server_name="127.0.0.1", server_port=free_port(), prevent_thread_lock=True, **launch_arguments(services)
    )
    try:
        with httpx.Client(base_url=address) as http:
            assert "event: complete" in called(http, "/run", GOOD["/run"])
        sessions = app.state_holder.session_data
        assert sessions
        for session in sessions.values():
            assert session.blocks_config.blocks.keys() == page.default_config.blocks.keys()
            assert len(session.config_values) <= len(GOOD["/run"]) + 1, "the arguments and the answer"
        whole = StateHolder()
        whole.set_blocks(page)
        assert len(whole["as Gradio has it"].config_values) > 50, "not needed any more: Gradio has stopped copying"
    finally:
        page.close()

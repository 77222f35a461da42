"""The Sessions panel: the runs at hand. They live in the browser; the server only keeps what a link needs."""

from workbench.services import Services
from workbench.views.components import mounted


class SessionsPanel:
    """Layout only: its browser part speaks to `workbench.run_routes`. Built inside a `gr.Blocks`."""

    def __init__(self, services: Services) -> None:
        self.view = mounted("sessions.html")

"""The Learn panel: lessons over recorded runs. All of it lives in the browser (static/learn.js)."""

from workbench.services import Services
from workbench.views.components import mounted


class LearnPanel:
    """Layout. Built inside a `gr.Blocks`; needs nothing of the services."""

    def __init__(self, services: Services) -> None:
        self.view = mounted("learn.html")

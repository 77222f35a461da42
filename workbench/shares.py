"""How much of the line for the device is one visitor's, so that nobody fills it alone."""

import threading
from collections import Counter

from workbench.policy import ON_YOUR_OWN, ServerPolicy
from workbench.turns import Busy
from workbench.visitor import Visitor


class Shares:
    """Counts the runs that wait or run, by address and by page at an address: a page's number that somebody else claims
    takes nothing from it."""

    def __init__(self, policy: ServerPolicy) -> None:
        self._of_page = policy.page_runs
        self._of_address = policy.address_runs
        self._runs: Counter[Visitor | str] = Counter()
        self._lock = threading.Lock()

    def take(self, visitor: Visitor) -> None:
        """One more run is the visitor's, until `give`. Raises Busy where page or address have as many as they may."""
        with self._lock:
            if self._of_page is not None and self._runs[visitor] >= self._of_page:
                raise Busy(
                    f"You have as many runs waiting or running as one may have ({self._of_page}).",
                    "Stop one, or wait until it has ended.",
                )
            if self._of_address is not None and self._runs[visitor.address] >= self._of_address:
                raise Busy(
                    f"From your network address as many runs wait or run as may at one time ({self._of_address}).",
                    f"Wait until one has ended. {ON_YOUR_OWN}",
                )
            self._runs.update((visitor, visitor.address))

    def give(self, visitor: Visitor) -> None:
        """A run of the visitor's has ended."""
        with self._lock:
            self._runs.subtract((visitor, visitor.address))
            self._runs += Counter()  # who has none left is forgotten

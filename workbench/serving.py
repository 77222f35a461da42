"""The services of a server, by what it runs on: this machine, a Space's own device, or ZeroGPU."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from decoding.menu import PLACED
from workbench.device import LentDevice
from workbench.policy import chosen_policy
from workbench.services import Services
from workbench.zero_gpu import zero_gpu

if TYPE_CHECKING:
    from workbench.engine import DecodingEngine

MENU = "CANOPY_MENU"
"""Short names of the targets that a GPU Space offers, with commas between."""


def build_services(
    public: bool, environment: Mapping[str, str], report: Callable[[str], None], engine: "DecodingEngine | None" = None
) -> Services:
    """The services; on ZeroGPU with the menu placed, so call it on the main thread and before the page is launched.

    Raises CanopyError where the menu names what there is not, or nothing of it can be loaded.
    """
    lend = zero_gpu(environment)  # first: it has to come before anything touches CUDA
    if engine is None:
        from workbench.engine import DecodingEngine

        engine = DecodingEngine()
    policy = chosen_policy(public, environment)
    wanted = tuple(name.strip() for name in environment.get(MENU, "").split(",") if name.strip())
    if lend is not None:
        policy = policy.serving(engine.place(wanted or PLACED, report), only=True)
        return Services(engine, policy, LentDevice(engine, lend, policy.max_seconds))
    return Services(engine, policy.serving(engine.menu(wanted)))

"""Plain autoregressive decoding: no draft, one target forward pass for each token. The baseline of every speedup."""

from dataclasses import dataclass

from decoding.drafters.base import Drafter
from decoding.settings import Settings
from decoding.strategies.base import Growth, Strategy
from decoding.types import Tree


@dataclass(frozen=True)
class ARSettings(Settings):
    """Nothing to set."""


class AR(Strategy[ARSettings]):
    """The root alone."""

    name = "ar"
    title = "Autoregressive"
    paper = "No draft: the baseline"
    needs = frozenset()
    settings_class = ARSettings
    max_nodes = 0

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        return Growth(Tree.root_only(root))

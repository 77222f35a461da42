"""What a strategy is: it asks the drafter and returns a tree, within a depth limit and its own budget."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

import torch

from decoding.drafters.base import Drafter, StepwiseDrafter
from decoding.draws import Drawn, Draws
from decoding.round_costs import RoundCosts
from decoding.sampling import Sampling
from decoding.settings import Settings
from decoding.types import Marginals, Tree, Verdict

SettingsT = TypeVar("SettingsT", bound=Settings)
DrafterKind = Literal["one-pass", "stepwise"]
PUBLISHED = "published"
"""Among `usual_drafters`: the drafter published for the target, where there is one."""


@dataclass(frozen=True, eq=False)
class Growth:
    """A tree and how it came about."""

    tree: Tree
    marginals: Marginals | None = None
    decision: dict[str, Any] = field(default_factory=dict)
    """What was decided and why; JSON values only."""
    draws: Draws | None = None
    """The draws behind a sampled tree; None where nothing was drawn."""


class Strategy(ABC, Generic[SettingsT]):
    """One way to grow a draft tree. Subclasses are a settings class and `grow`."""

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    """Paper, section, equation or algorithm."""
    needs: ClassVar[frozenset[DrafterKind]]
    """Kinds of drafter that it can work with; empty where it uses none."""
    needs_logprobs: ClassVar[bool] = False
    candidates: ClassVar[frozenset[Drawn]] = frozenset({Drawn.BEST})
    """How the candidates of its trees may be chosen; `drawn` says how they are with its settings."""
    usual_drafters: ClassVar[tuple[str, ...]] = (PUBLISHED,)
    """What it drafts with when none is named: the first that there is and that fits."""
    retrieval: ClassVar[str | None] = None
    """Id of the retrieval source that stands beside its drafter; None where it takes none."""
    thresholds: ClassVar[tuple[str, ...]] = ()
    """Settings that `decoding.calibration` fills in for the pair of target and drafter where they are below 0."""
    wants_costs: ClassVar[bool] = False
    """Whether it decides by what rounds cost on this machine: `costs` are then known before its first run."""
    settings_class: ClassVar[type[Settings]]

    def __init__(self, settings: SettingsT) -> None:
        self.settings = settings
        self.costs: RoundCosts | None = None

    @property
    def drawn(self) -> Drawn:
        """How the candidates of its trees are chosen: a verifier may rely on it."""
        return Drawn.BEST

    @property
    @abstractmethod
    def max_nodes(self) -> int:
        """The most drafted nodes a tree of these settings can have (the root not counted)."""

    @property
    def columns(self) -> int:
        """The most candidates of a position that it asks a one-pass drafter for."""
        return self.max_nodes

    def begin(self, prompt: Sequence[int], sampling: Sampling, rng: torch.Generator) -> None:
        """A new run: its prompt, for strategies that look at the text or forget the last run; how the target samples,
        and the run's generator, for strategies that draw."""

    @abstractmethod
    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        """A tree below the token `root`, no deeper than `max_depth` (which may be 0: the root alone)."""

    def grow_beside(
        self, drafter: Drafter | None, retrieval: StepwiseDrafter | None, root: int, max_depth: int
    ) -> Growth:
        """What the loop calls. A strategy that declares a `retrieval` source overrides it; to others it is `grow`."""
        return self.grow(drafter, root, max_depth)

    def observe(self, tree: Tree, verdict: Verdict) -> None:
        """Called after each round, for strategies that adapt to what was accepted."""

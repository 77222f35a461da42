"""Sampled trees: every node's candidates are drawn from the drafter's distribution (SpecInfer; Sequoia, section 3)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import torch

from decoding.drafters.base import Drafter
from decoding.draws import Drawn
from decoding.sampling import Sampling, UniformNumbers
from decoding.settings import Settings, option
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.draw_tree import draw_tree
from decoding.strategies.rank_acceptance import RankAcceptance
from decoding.template import Template, likeliest_template
from decoding.types import Tree, Verdict

RESHAPE_EVERY = 8
"""Rounds after which the shape is fitted anew to what was measured."""


@dataclass(frozen=True)
class SampledSettings(Settings):
    """Sequoia's tree by default: no replacement, the shape that is best for the measured acceptance."""

    budget: int = option(32, "draws in a tree; draws of one token below one node share a node", low=1, high=256)
    depth: int = option(8, "most levels below the root", low=1, high=32)
    width: int = option(4, "most draws below one node", low=1, high=16)
    replacement: bool = option(False, "draw with replacement (for multi-round), or each token once at most")
    temperature: float = option(0.0, "temperature of the draws; 0 takes the run's, or 1 where it is 0", low=0, high=10)
    acceptance: float = option(0.6, "guess of how often a first candidate is accepted", low=0.01, high=0.99)
    measured: bool = option(True, "fit the shape to the acceptance measured in this run")


class Sampled(Strategy[SampledSettings]):
    """The shape is Sequoia's optimal static tree (see `template.likeliest_template`), the tokens are drawn.

    A template's k-th child is the k-th draw below its parent. The draws follow the drafter's distribution at the
    run's temperature, top-p and top-k, so that it lies near the target's. Over a one-pass drafter every node of a
    depth draws, for itself, from that position's marginal: a node's candidates then follow a known q apart from all
    other draws, which is all that the verifiers rely on; that q does not look at the path only makes it worse.
    """

    name = "sampled"
    title = "Sampled tree"
    paper = "Sequoia (arXiv 2402.12374), section 3; with replacement: SpecInfer (arXiv 2305.09781)"
    needs = frozenset({"stepwise", "one-pass"})
    needs_logprobs = True
    candidates = frozenset({Drawn.INDEPENDENT, Drawn.DISTINCT})
    settings_class = SampledSettings

    def __init__(self, settings: SampledSettings) -> None:
        super().__init__(settings)
        self._run: _Run | None = None

    @property
    def drawn(self) -> Drawn:
        return Drawn.INDEPENDENT if self.settings.replacement else Drawn.DISTINCT

    @property
    def max_nodes(self) -> int:
        return self.settings.budget

    def begin(self, prompt: Sequence[int], sampling: Sampling, rng: torch.Generator) -> None:
        temperature = self.settings.temperature or sampling.temperature or 1.0
        acceptance = RankAcceptance(self.settings.acceptance, self.settings.width)
        self._run = _Run(
            replace(sampling, temperature=temperature), UniformNumbers(rng), acceptance, acceptance.vector()
        )

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        run, settings = self._started(), self.settings
        template = _template(tuple(run.shape), settings.budget, settings.depth).cut(max(max_depth, 0))
        run.below = []
        if drafter is None or len(template) == 1:
            return Growth(Tree.root_only(root))
        tree, draws, marginals = draw_tree(drafter, root, template, run.sampling, self.drawn, run.numbers)
        run.below = draws.below(tree) if draws is not None else []
        decision = {
            "draws": len(draws.node) if draws is not None else 0,
            "nodes": tree.drafted,
            "acceptance": [round(share, 3) for share in run.shape],
        }
        return Growth(tree, marginals, decision, draws)

    def observe(self, tree: Tree, verdict: Verdict) -> None:
        """Counts which candidate was accepted at every node of the path."""
        run, path = self._started(), verdict.path.tolist()
        if not self.settings.measured:
            return
        for node, follower in zip(path, [*path[1:], None], strict=True):
            if run.below and run.below[node]:
                run.acceptance.count(len(run.below[node]), run.below[node].index(follower) if follower else None)
        run.rounds += 1
        if run.rounds % RESHAPE_EVERY == 0:
            run.shape = run.acceptance.vector()

    def _started(self) -> "_Run":
        if self._run is None:
            raise RuntimeError("begin() comes first")
        return self._run


@dataclass
class _Run:
    """What the strategy carries from round to round."""

    sampling: Sampling
    numbers: UniformNumbers
    acceptance: RankAcceptance
    shape: list[float]
    """The acceptance that the current template is best for."""
    rounds: int = 0
    below: list[list[int]] = field(default_factory=list)
    """The draws below every node of the last tree."""


@lru_cache(maxsize=64)
def _template(acceptance: tuple[float, ...], budget: int, depth: int) -> Template:
    return likeliest_template(acceptance, budget, depth)

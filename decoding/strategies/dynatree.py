"""DynaTree (Chen, Liu and Li): breadth by confidence, depth by path probability, pruning, adaptation by history.

The two versions of the paper differ in one rule: to go deeper than D_0, a node needs p(u) >= rho_deep in version 1 and
p(u) > rho_deep in version 2 (section 3.3; Algorithm 1, line 23). The rest of what differs is wording, figures, and
D_max 9 for PG-19, which only version 2 states.

Where the paper is silent or contradicts itself:

- It roots its tree at the drafter's best token u_0. Here node 0 is the committed token and u_0 its only child, so that
  the paper's depth d is depth d + 1 of our trees, and the target's own choice after the text is never drafted anew.
- Section 3.3 and version 1's Figure 2 remove leaves below tau; Algorithm 1 and version 2's Figure 3 keep them and stop
  there. That is `pruning`. As rho_stop lies above tau at the defaults, `stop` changes no tree unless dynamic depth is
  off. With `remove` such nodes do not count against the budget, and u_0 always stays.
- A layer is drafted in one step, not node by node. The tree is the same: where the budget ends inside a layer, the
  first children in breadth-first order are kept, as in Algorithm 1.
- Section 3.3 calls the acceptance statistic the share of drafted tokens that were committed. A branching tree keeps
  that far below the authors' a* of .7, and D_0 would fall to 1 and stay there. Table 3 (up to 102%) and their code
  measure along one path instead. That is `acceptance`.
- With dynamic breadth off every node gets B_mid children; with dynamic depth off every node above D_0 is expanded.
"""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoding.drafters.base import Candidates, Drafter
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.beam import ROOT, Expansion, Nodes, require_scoring
from decoding.strategies.dynatree_control import AcceptanceHistory, Controls, Gains
from decoding.strategies.dynatree_rules import REMOVE, DynaTreeSettings, Fate, fates, widths
from decoding.tree import depths
from decoding.types import Tree, Verdict


class DynaTree(Strategy[DynaTreeSettings]):
    """DynaTree, Algorithm 1, drafted layer by layer: one drafter step for each depth."""

    name = "dynatree"
    title = "DynaTree"
    paper = "DynaTree, section 3.3 and Algorithm 1"
    needs = frozenset({"stepwise"})
    needs_logprobs = True
    settings_class = DynaTreeSettings

    def __init__(self, settings: DynaTreeSettings) -> None:
        super().__init__(settings)
        start = Controls(float(settings.base_depth), settings.high_confidence, settings.low_confidence)
        gains = Gains(settings.target_acceptance, settings.depth_step, settings.threshold_step)
        self.adaptation = AcceptanceHistory(start, gains, settings.max_depth, settings.window, settings.warm_up)

    @property
    def max_nodes(self) -> int:
        return self.settings.budget

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        """The decision tells the settings in force, after the adaptation, and what became of the frontier nodes."""
        drafting = _Drafting(Expansion(require_scoring(drafter, self.title), root), self.settings, self.adaptation)
        frontier = drafting.first() if max_depth > 0 else ROOT[:0]
        for depth in range(max_depth - 1):
            frontier = drafting.layer(frontier, depth)
            if not len(frontier):
                break
        expansion = drafting.expansion
        return Growth(expansion.tree(np.arange(1, len(expansion))), decision=drafting.decision())

    def observe(self, tree: Tree, verdict: Verdict) -> None:
        """Adapts to the round's acceptance statistic; a round without a draft says nothing."""
        if self.settings.history and tree.drafted:
            along_path = self.settings.acceptance == "path"
            drafted = int(depths(tree.parent).max()) if along_path else tree.drafted
            self.adaptation.observe(verdict.accepted / drafted)


class _Drafting:
    """DRAFTTREE of one round (Algorithm 1, lines 9 to 31), and the count of what it decided."""

    def __init__(self, expansion: Expansion, settings: DynaTreeSettings, adaptation: AcceptanceHistory) -> None:
        self.expansion = expansion
        self.settings = settings
        self.adaptation = adaptation
        self.fates: Counter[Fate] = Counter()
        self.widths: Counter[int] = Counter()

    def first(self) -> Nodes:
        """The tokens right after the root: u_0, or more where `root_width` says so."""
        chosen = self.settings
        candidates = self.expansion.ask(ROOT, chosen.root_width or chosen.widest)
        if chosen.root_width:
            width = np.array([chosen.root_width])
            self.widths.update(width.tolist())
        else:
            width = self._widths(candidates)
        return self._add(ROOT, candidates, _ranks_below(width, candidates))

    def layer(self, frontier: Nodes, depth: int) -> Nodes:
        """The children of those nodes of the `frontier`, of the paper's `depth`, that are to be expanded."""
        if not self._room:
            return ROOT[:0]
        probability = np.exp(self.expansion.score[frontier])
        fate = fates(probability, depth, self.settings, self.adaptation.controls)
        self.fates.update(Fate(each) for each in fate.tolist())
        parents: Nodes = frontier[fate == Fate.EXPANDED]
        if not len(parents):
            return parents
        candidates = self.expansion.ask(parents, self.settings.widest)
        wanted = _ranks_below(self._widths(candidates), candidates)
        if self.settings.pruning == REMOVE:
            unlikely = np.exp(self.expansion.scores(parents, candidates)) < self.settings.prune_below
            self.fates[Fate.PRUNED] += int(np.count_nonzero(wanted & unlikely))
            wanted &= ~unlikely
        return self._add(parents, candidates, wanted)

    @property
    def _room(self) -> int:
        """Nodes that the budget still allows."""
        return self.settings.budget + 1 - len(self.expansion)

    def _widths(self, candidates: Candidates) -> NDArray[np.int64]:
        chosen = widths(candidates.logprob[:, 0], self.settings, self.adaptation.controls)
        self.widths.update(chosen.tolist())
        return chosen

    def _add(self, parents: Nodes, candidates: Candidates, wanted: NDArray[np.bool_]) -> Nodes:
        """Adds the wanted candidates in breadth-first order, as long as there is room."""
        inside = np.cumsum(wanted).reshape(wanted.shape) <= self._room
        return self.expansion.add(parents, candidates, wanted & inside)

    def decision(self) -> dict[str, Any]:
        controls = self.adaptation.controls
        return {
            "base_depth": controls.base_depth,
            "high_confidence": controls.high_confidence,
            "low_confidence": controls.low_confidence,
            "mean_acceptance": self.adaptation.mean,
            "drafter_steps": self.expansion.steps,
            "nodes_by_width": {str(width): count for width, count in sorted(self.widths.items())},
            **{fate.name.lower(): self.fates[fate] for fate in Fate},
        }


def _ranks_below(width: NDArray[np.int64], candidates: Candidates) -> NDArray[np.bool_]:
    """Which candidates `[nodes, k]` there are among the first `width` `[nodes]` of each node."""
    ranks = np.arange(candidates.token.shape[1])
    return (ranks < width[:, None]) & (candidates.token >= 0)

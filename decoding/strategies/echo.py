"""ECHO (Hu et al., arXiv 2604.09603): EAGLE-3's tree, cut where the drafter's best path is unlikely at a sparse gate.

At a few calibrated depths d the confidence c_d = exp(max over the nodes of S_d), S_d the cumulative log-probability of
a path, is compared with a threshold tau_d, and the tree grows deeper only where c_d > tau_d. This is the rule as
Graft's text gives it (section 3.1, Equations 5 to 7; ECHO's own Equations 5 to 7).

Left out: ECHO's budget is shared by the requests of a batch, and what a cut tree leaves goes to other requests or to
more width. There is one request here, and Graft compares with ECHO as a pruning method, whose trees are subtrees of
the dense one. A gate d is asked after drafter step d + 1, as in Graft's Algorithm 2, where d_0 is the root's step; at
equality it is closed, as in the equations and not as in that algorithm.
"""

from dataclasses import dataclass

import numpy as np

from decoding.drafters.base import Drafter
from decoding.settings import Settings, option
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.beam import Scores, grow_beams, require_scoring
from decoding.types import Tree


@dataclass(frozen=True)
class EchoSettings(Settings):
    """The tree of Graft's Appendix C (depth 8, width 10, 60 nodes with the root), its gates of Table 11.

    Those were calibrated for Qwen3-8B with EAGLE-3, in ECHO's way; the values are means over its five benchmarks. ECHO
    calibrates them for each drafter, so another drafter wants others.
    """

    depth: int = option(8, "levels below the root at most", low=1, high=64)
    width: int = option(10, "beam width, and children drafted of each of its nodes", low=1, high=64)
    budget: int = option(59, "best candidates kept for the tree, the root not counted", low=1, high=1024)
    root_threshold: float = option(0.14, "tau_0: least confidence after the root's step; 0 opens it", low=0, high=1)
    shallow_gate: int = option(1, "depth d of the second gate", low=1, high=63)
    shallow_threshold: float = option(0.14, "its least confidence; 0 opens it", low=0, high=1)
    deep_gate: int = option(5, "depth d of the third gate", low=1, high=63)
    deep_threshold: float = option(0.49, "its least confidence; 0 opens it", low=0, high=1)


class Echo(Strategy[EchoSettings]):
    """ECHO's sparse confidence gates, for one request."""

    name = "echo"
    title = "ECHO"
    paper = "ECHO, section 3.2, as in Graft, section 3.1"
    needs = frozenset({"stepwise"})
    needs_logprobs = True
    settings_class = EchoSettings

    @property
    def max_nodes(self) -> int:
        return self.settings.budget

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        """The decision tells the confidence at every gate that was asked, and the gate that cut the tree, if any."""
        source = require_scoring(drafter, self.title)
        if max_depth < 1:
            return Growth(Tree.root_only(root))
        chosen, gates = self.settings, self.gates
        heard: dict[int, float] = {}

        def go_on(depth: int, beam: Scores) -> bool:
            gate = depth - 1
            if gate not in gates:
                return True
            heard[gate] = float(np.exp(beam.max()))
            return heard[gate] > gates[gate]

        expansion = grow_beams(source, root, min(chosen.depth, max_depth), chosen.width, go_on)
        closed = [gate for gate, confidence in heard.items() if confidence <= gates[gate]]
        decision = {
            "confidence": {str(gate): confidence for gate, confidence in heard.items()},
            "cut_at_gate": closed[0] if closed else None,
            "drafter_steps": expansion.steps,
        }
        return Growth(expansion.tree(expansion.best(chosen.budget)), decision=decision)

    @property
    def gates(self) -> dict[int, float]:
        """tau_d by depth d; where two stand at one depth, the stricter holds."""
        chosen = self.settings
        later = (chosen.shallow_gate, chosen.shallow_threshold), (chosen.deep_gate, chosen.deep_threshold)
        gates = {0: chosen.root_threshold}
        for depth, threshold in later:
            gates[depth] = max(threshold, gates.get(depth, 0.0))
        return gates

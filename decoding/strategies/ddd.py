"""Dynamic Depth Decoding (Brown et al., arXiv 2409.00142): EAGLE-2's tree, as deep as the drafter is confident.

After the steps S of the beam search, H = log(sum over the beam of exp(logprobsum)) is compared with a threshold x, and
drafting ends where H < x (Equation 1, Algorithm 1). The paper checks at a few depths only, since a check makes the
host wait for the device; here every depth comes to the host anyway, so a check at every depth costs nothing more.

The paper leaves the size of the tree to EAGLE-2: its best nodes over all candidates, 60 with the root.
"""

from dataclasses import dataclass

import numpy as np

from decoding.drafters.base import Drafter
from decoding.settings import Settings, option
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.beam import Scores, grow_beams, require_scoring
from decoding.types import Tree


@dataclass(frozen=True)
class DDDSettings(Settings):
    """Defaults of section 3.2: n = 11, S = {5, 7, 9}, x = -0.3, w = 10. Section 3.4 checks at every depth."""

    depth: int = option(11, "n: drafter steps at most, one for each level", low=1, high=64)
    width: int = option(10, "w: beam width, and children drafted of each of its nodes", low=1, high=64)
    budget: int = option(59, "best candidates kept for the tree, the root not counted", low=1, high=1024)
    first_check: int = option(5, "depth of the first check", low=1, high=64)
    check_every: int = option(2, "depths from one check to the next", low=1, high=64)
    last_check: int = option(9, "no check below this depth", low=1, high=64)
    threshold: float = option(-0.3, "x: log of the beam's probability below which drafting ends", low=-20, high=0)


class DDD(Strategy[DDDSettings]):
    """Dynamic Depth Decoding, Algorithm 1."""

    name = "ddd"
    title = "Dynamic Depth Decoding"
    paper = "DDD, section 2, Equation 1 and Algorithm 1"
    needs = frozenset({"stepwise"})
    needs_logprobs = True
    settings_class = DDDSettings

    @property
    def max_nodes(self) -> int:
        return self.settings.budget

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        """The decision tells H at every depth that was checked, and the depth at which drafting was ended, if any."""
        source = require_scoring(drafter, self.title)
        if max_depth < 1:
            return Growth(Tree.root_only(root))
        chosen = self.settings
        checks = range(chosen.first_check, chosen.last_check + 1, chosen.check_every)
        heard: dict[int, float] = {}

        def go_on(depth: int, beam: Scores) -> bool:
            if depth not in checks:
                return True
            heard[depth] = beam_confidence(beam)
            return heard[depth] >= chosen.threshold

        expansion = grow_beams(source, root, min(chosen.depth, max_depth), chosen.width, go_on)
        stopped = [depth for depth, confidence in heard.items() if confidence < chosen.threshold]
        decision = {
            "beam_confidence": {str(depth): confidence for depth, confidence in heard.items()},
            "stopped_at": stopped[0] if stopped else None,
            "drafter_steps": expansion.steps,
        }
        return Growth(expansion.tree(expansion.best(chosen.budget)), decision=decision)


def beam_confidence(scores: Scores) -> float:
    """H of Equation 1: log of the summed probability of the paths of a beam, from their `scores` `[beam]` (nats).

    Example: paths of probability .5 and .3 give log .8.
    """
    return float(np.logaddexp.reduce(scores))

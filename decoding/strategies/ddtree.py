"""DDTree: the optimal tree for a drafter that gives one distribution per position."""

from dataclasses import dataclass

import numpy as np

from decoding.drafters.base import Drafter, OnePassDrafter
from decoding.errors import Incompatible
from decoding.settings import Settings, option
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.best_first import Prefixes, best_prefixes
from decoding.types import Marginals, Source, Tree


@dataclass(frozen=True)
class DDTreeSettings(Settings):
    """The paper's node budget B."""

    budget: int = option(32, "Drafted nodes in a tree, the root not counted.", low=1, high=1024)


class DDTree(Strategy[DDTreeSettings]):
    """DDTree, Algorithm 1: the `budget` most probable prefixes under the drafter's factorised distribution.

    The paper's B is `budget`, its L the number of positions, its sigma the score. The nodes stand in pop order, so
    that the root and the first b of them are the optimal tree for a budget of b (Proposition 2).
    """

    name = "ddtree"
    title = "DDTree"
    paper = "DDTree, section 4 and Algorithm 1"
    needs = frozenset({"one-pass"})
    needs_logprobs = True
    settings_class = DDTreeSettings

    @property
    def max_nodes(self) -> int:
        return self.settings.budget

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        """Asks for the marginals once and takes the best prefixes of at most `max_depth` tokens.

        The decision tells the `expected_accepted` drafted tokens: the paper's surrogate objective (Proposition 1).
        """
        if not isinstance(drafter, OnePassDrafter):
            raise Incompatible("DDTree needs a one-pass drafter.", "Choose a block-diffusion drafter.")
        marginals = drafter.marginals(root, k=self.settings.budget)
        prefixes = best_prefixes(marginals.logprob[: max(max_depth, 0)], self.settings.budget)
        decision = {
            "nodes": len(prefixes.score),
            "depth": int(prefixes.position.max(initial=-1)) + 1,
            "expected_accepted": float(np.exp(prefixes.score).sum()),
        }
        return Growth(tree_of(root, marginals, prefixes), marginals, decision)


def tree_of(root: int, marginals: Marginals, prefixes: Prefixes) -> Tree:
    """The tree `[1 + prefixes]` of the chosen prefixes below the token `root`, in their order."""
    count = len(prefixes.rank) + 1
    token, parent = np.empty(count, np.int32), np.empty(count, np.int32)
    logprob, source = np.empty(count, np.float32), np.full(count, Source.DRAFT, np.uint8)
    token[0], parent[0], logprob[0], source[0] = root, -1, 0.0, Source.ROOT
    cells = (prefixes.position, prefixes.rank)
    token[1:], logprob[1:] = marginals.token[cells], marginals.logprob[cells]
    np.add(prefixes.parent, 1, out=parent[1:])
    return Tree(token, parent, logprob, source)

"""How the candidates of a tree were chosen, and the draws behind a sampled tree."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from torch import Tensor

from decoding.sampling import over_vocabulary
from decoding.types import Ints, Tree, frozen_array


class Drawn(StrEnum):
    """How the children of a node were chosen. The values are how `list` and error messages call them."""

    BEST = "the drafter's best"
    """Fixed by the text so far: no chance in it."""
    INDEPENDENT = "drawn with replacement"
    """Independent draws from the drafter's distribution; one token may come several times."""
    DISTINCT = "drawn without replacement"
    """One after the other from what the earlier draws have left of the drafter's distribution, renormalised."""


@dataclass(frozen=True, eq=False)
class Draws:
    """What a verifier needs to know of a sampled tree, beside the tree itself.

    The dense distributions stay on the drafter's device and live for one round. Their memory has a bound:
    4 bytes * vocabulary * (nodes with draws below them) for a stepwise drafter, or * (positions) for a one-pass one, of
    which only the tokens count that it drafts with; 64 expanded nodes over 151,936 tokens are 39 MB.
    """

    drawn: Drawn
    """INDEPENDENT or DISTINCT."""
    node: Ints
    """`[draws]` the node that each draw gave, those of one parent in the order in which they were drawn. Independent
    draws of one token share a node, which then stands here several times."""
    probs: Tensor
    """`[rows, tokens]` float32, the distributions that were drawn from."""
    row: Ints
    """`[nodes]` the row of `probs` that a node's children were drawn from; -1 where nothing was drawn."""
    token: Ints | None = None
    """`[tokens]` the ids of those that `probs` speaks of; None where these are the whole vocabulary."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "node", frozen_array(self.node, np.int32))
        object.__setattr__(self, "row", frozen_array(self.row, np.int32))
        if self.drawn is Drawn.BEST:
            raise ValueError("the drafter's best tokens were not drawn")

    def weights(self, node: int, vocab: int) -> Tensor:
        """`[vocab]` float32: what the children of `node` were drawn from."""
        row = int(self.row[node])
        found = self.probs[row : row + 1]
        return (found if self.token is None else over_vocabulary(found, self.token, vocab, 0.0))[0]

    def below(self, tree: Tree) -> list[list[int]]:
        """For every node, the children that were drawn, in the order of the draws."""
        found: list[list[int]] = [[] for _ in range(len(tree))]
        for node in self.node.tolist():
            found[tree.parent[node]].append(node)
        return found

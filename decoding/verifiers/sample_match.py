"""Sample-and-match: draw from the target at every visited node, go on while the drawn token is a child."""

import torch
from torch import Tensor

from decoding.draws import Draws
from decoding.sampling import Sampling, draw, probabilities
from decoding.scores import TreeScores
from decoding.tree import child_with_token
from decoding.types import Tree, Verdict
from decoding.verifiers.base import Verifier

_BLOCK_BYTES = 64 << 20
"""Float32 logits drawn from together; sorting and cumulating them takes several times as much."""


class SampleMatch(Verifier):
    """DDTree, section 4.4, at temperature above 0; Medusa and SpecInfer call the idea naive sampling.

    Every emitted token is drawn from the target's own distribution after the tokens before it, and the tree only
    decides how many such draws one round can use. So the output follows the target for any tree, whatever grew it,
    as long as the tree was grown before the draws. At a node with children "a" and "b", drawing "b" accepts it and
    goes on below; drawing "c" ends the walk with "c" as the bonus.

    The draws come in one of two ways, equal in distribution but not in the tokens that a seed gives: `lazy` draws at
    the visited nodes alone (one row at a time, the host looks at each token), else at all nodes of a chunk at once,
    on the device, with one copy at the end. The default, None, is lazy on a CPU alone.
    """

    name = "sample-match"
    title = "Sample and match"
    lossless_for = "any tree"
    greedy = False

    def __init__(self, sampling: Sampling, lazy: bool | None = None) -> None:
        super().__init__(sampling)
        self.lazy = lazy

    def verify(self, tree: Tree, scores: TreeScores, rng: torch.Generator, draws: Draws | None = None) -> Verdict:
        lazy = scores.hidden.device.type == "cpu" if self.lazy is None else self.lazy
        return self._walk_along(tree, scores, rng) if lazy else self._draw_everywhere(tree, scores, rng)

    def _walk_along(self, tree: Tree, scores: TreeScores, rng: torch.Generator) -> Verdict:
        path, drawn = [0], list[int]()

        def visit(start: int, logits: Tensor) -> None:
            # Between chunks, drawn is one short of path: the last node waits for its own chunk.
            while len(drawn) < len(path) and path[-1] < start + len(logits):
                row = path[-1] - start
                drawn.append(int(self._draw(logits[row : row + 1], rng)))
                child = child_with_token(tree, path[-1], drawn[-1])
                if child is not None:
                    path.append(child)

        return scores.opinions(tree, visit).verdict(path, drawn)

    def _draw_everywhere(self, tree: Tree, scores: TreeScores, rng: torch.Generator) -> Verdict:
        draws: list[Tensor] = []

        def visit(start: int, logits: Tensor) -> None:  # noqa: ARG001
            rows = max(1, _BLOCK_BYTES // (4 * logits.shape[1]))
            draws.extend(self._draw(block, rng) for block in torch.split(logits, rows))

        opinions = scores.opinions(tree, visit)
        tokens = torch.cat(draws).tolist()
        path: list[int] = []
        node: int | None = 0
        while node is not None:
            path.append(node)
            node = child_with_token(tree, node, tokens[node])
        return opinions.verdict(path, [tokens[node] for node in path])

    def _draw(self, logits: Tensor, rng: torch.Generator) -> Tensor:
        return draw(probabilities(logits, self.sampling), rng)

"""The exact law of what the real code emits, by following every branch of chance instead of sampling.

Every place where a verifier or the tree sampler asks for a random number is answered in all possible ways, one run for
each, and the runs are weighted with their probabilities. Nothing of the rules is written a second time here.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoding.sampling import Sampling, probabilities
from decoding.scores import TreeScores, Visit
from decoding.strategies import draw_tree
from decoding.strategies.base import Growth
from decoding.types import Ints, Tree
from decoding.verifiers import Verifier, eagle, multi_round, top_down, traversal, without_replacement

T = TypeVar("T")
Text = tuple[int, ...]
ANY_RNG = torch.Generator()


class Branches:
    """Runs a function once for each way in which its chances can fall."""

    def outcomes(self, run: Callable[[], T]) -> Iterator[tuple[float, T]]:
        """Every outcome with the probability of its way; the same outcome may come several times."""
        self._pending: list[list[int]] = [[]]
        while self._pending:
            self._script, self._at, self._weight = self._pending.pop(), 0, 1.0
            result = run()
            yield self._weight, result

    def choose(self, probs: Sequence[float]) -> int:
        """The branch of this run; branches of probability 0 are never taken."""
        if self._at == len(self._script):
            first, *others = [place for place, prob in enumerate(probs) if prob > 0]
            self._pending += [[*self._script, other] for other in others]
            self._script = [*self._script, first]
        place = self._script[self._at]
        self._at += 1
        self._weight *= probs[place]
        return place

    def chance(self, probability: float, rng: object, device: object) -> bool:
        if probability != probability:  # only wrong combinations come here; no random number is below NaN
            return False
        return self.choose([min(probability, 1.0), max(1.0 - probability, 0.0)]) == 0

    def draw(self, probs: Tensor, rng: object) -> Tensor:
        return torch.tensor([self.choose((row / row.sum()).tolist()) for row in probs.double()])

    def draw_with_replacement(self, probs: Tensor, count: int, rng: object) -> Tensor:
        return torch.stack([self.draw(probs, rng) for _ in range(count)], dim=1)

    def draw_each(self, probs: Tensor, shapes: Ints, distinct: bool, rng: object, mass: object = None) -> Tensor:
        draw = self.draw_without_replacement if distinct else self.draw_with_replacement
        parts = zip(probs.split(1), shapes.tolist(), strict=False)
        return torch.cat([draw(row.expand(nodes, -1), count, rng).flatten() for row, (nodes, count) in parts])

    def draw_without_replacement(self, probs: Tensor, count: int, rng: object) -> Tensor:
        rows = []
        for row in probs.double().tolist():
            tokens: list[int] = []
            for _ in range(count):
                left = [0.0 if token in tokens else prob for token, prob in enumerate(row)]
                tokens.append(self.choose([prob / sum(left) for prob in left]) if sum(left) > 0 else -1)
            rows.append(tokens)
        return torch.tensor(rows)


@pytest.fixture
def branches(monkeypatch: pytest.MonkeyPatch) -> Branches:
    """Takes the place of the random numbers in the verifiers and in the tree sampler."""
    found = Branches()
    for module in (top_down, multi_round, without_replacement, eagle, traversal):
        monkeypatch.setattr(module, "draw", found.draw)
        if hasattr(module, "chance"):
            monkeypatch.setattr(module, "chance", found.chance)
    for name in ("draw_each", "draw_with_replacement", "draw_without_replacement"):
        monkeypatch.setattr(draw_tree, name, getattr(found, name))
    return found


class BareScores(TreeScores):
    """The logits without the other things that a round reports of them, which take most of the time."""

    def opinions(self, tree: Tree, visit: Visit | None = None) -> Any:
        if visit is not None:
            visit(0, self.logits(slice(0, len(tree))))
        return self

    def verdict(self, path: list[int], drawn: list[int]) -> tuple[list[int], list[int]]:
        return path, drawn


class Law:
    """What one round emits below a root, and what follows it."""

    def __init__(
        self,
        branches: Branches,
        target: Callable[[Text], Tensor],
        grow: Callable[[], Growth],
        verifier: Verifier,
        length: int,
    ) -> None:
        """`target` gives the logits `[vocab]` after the tokens below the root; texts are cut or grown to `length`."""
        self.target, self.verifier, self.length = target, verifier, length
        self.probs: dict[Text, float] = defaultdict(float)
        self.accepted = 0.0
        """Expected number of accepted tokens."""
        emissions: dict[Text, float] = defaultdict(float)
        for tree_weight, growth in list(branches.outcomes(grow)):
            for weight, emitted in branches.outcomes(lambda growth=growth: self._walk(growth)):
                emissions[emitted] += tree_weight * weight
        for emitted, weight in emissions.items():
            self.accepted += weight * (len(emitted) - 1)
            for text, prob in followed(target, verifier.sampling, emitted[:length], length):
                self.probs[text] += weight * prob

    def _walk(self, growth: Growth) -> Text:
        tree = growth.tree
        paths: list[Text] = [()]
        for node in range(1, len(tree)):
            paths.append((*paths[tree.parent[node]], int(tree.token[node])))
        scores = BareScores.from_logits(torch.stack([self.target(path) for path in paths]))
        path, emitted = self.verifier.verify(tree, scores, ANY_RNG, growth.draws)  # type: ignore[misc]
        assert emitted[:-1] == tree.token[path[1:]].tolist()
        return tuple(emitted)

    def distance(self) -> float:
        """Total variation between what is emitted and the target's own law."""
        wanted = dict(followed(self.target, self.verifier.sampling, (), self.length))
        return sum(abs(self.probs[text] - wanted.get(text, 0.0)) for text in {*self.probs, *wanted}) / 2


def followed(
    target: Callable[[Text], Tensor], sampling: Sampling, begun: Text, length: int
) -> Iterator[tuple[Text, float]]:
    """Every text of `length` tokens that goes on from `begun`, with its probability under the target."""
    if len(begun) == length:
        yield begun, 1.0
        return
    row: NDArray[np.float64] = probabilities(target(begun)[None], sampling)[0].double().numpy()
    for token in np.flatnonzero(row).tolist():
        for text, prob in followed(target, sampling, (*begun, token), length):
            yield text, prob * float(row[token] / row.sum())

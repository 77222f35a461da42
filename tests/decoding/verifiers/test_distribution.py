"""Sampled decoding follows the target's distribution: whole sequences, whole rounds, a stated error level.

Every test of this file that should pass does so with probability at least 1 - 1e-4 over all seeds together
(Bonferroni), and the seeds are fixed, so it never flakes. The same test must reject verifiers that are wrong.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from decoding.draws import Draws
from decoding.sampling import Sampling, draw, probabilities
from decoding.scores import TreeScores
from decoding.tree import child_with_token, children
from decoding.types import Tree, Verdict
from decoding.verifiers import SampleMatch
from tests.decoding.verifiers.enumerated import GROWERS, Grow, chain, mixed, p_value, sample, top_two

SAMPLINGS = {
    "plain": Sampling(1.0),
    "cold, top-k": Sampling(0.7, top_k=3),
    "hot, top-p": Sampling(1.4, top_p=0.8),
    "all three": Sampling(0.9, top_p=0.9, top_k=3),
}
FAMILY_LEVEL = 1e-4
QUICK = [("plain", True), ("plain", False), ("cold, top-k", True), ("hot, top-p", False), ("all three", True)]
THOROUGH = [(grower, name, lazy) for grower in GROWERS for name in ("plain", "all three") for lazy in (True, False)]
LEVEL = FAMILY_LEVEL / (len(QUICK) + len(THOROUGH))
COUNT = 400
"""Sequences in the quick tests, the ones that must reject included."""


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """On a busy machine torch's threads wait for each other even over tables of sixteen numbers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("name", "lazy"), QUICK)
def test_follows_the_target(name: str, lazy: bool) -> None:
    sampling = SAMPLINGS[name]
    texts = sample(SampleMatch(sampling, lazy), mixed, COUNT, length=3, seed=11)
    assert p_value(texts, sampling) > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize(("grower", "name", "lazy"), THOROUGH)
def test_follows_the_target_on_every_kind_of_tree(grower: str, name: str, lazy: bool) -> None:
    sampling = SAMPLINGS[name]
    texts = sample(SampleMatch(sampling, lazy), GROWERS[grower], 1000, length=4, seed=12)
    assert p_value(texts, sampling) > LEVEL


class RejectionTest(SampleMatch):
    """WRONG: the p/q test of speculative sampling, for candidates that were not drawn from q."""

    def verify(self, tree: Tree, scores: TreeScores, rng: torch.Generator, draws: Draws | None = None) -> Verdict:
        table = probabilities(scores.logits(slice(0, len(tree))), self.sampling)
        below, path, drawn = children(tree.parent), [0], list[int]()
        while True:
            left, accepted = table[path[-1]].clone(), None
            for child in below[path[-1]]:
                token, q = int(tree.token[child]), float(np.exp(tree.logprob[child]))
                if float(torch.rand(1, generator=rng)) < float(left[token]) / q:
                    accepted = child
                    break
                left[token] = max(float(left[token]) - q, 0.0)
                left = left / left.sum() if float(left.sum()) > 0 else table[path[-1]].clone()
            if accepted is None:
                drawn.append(int(draw(left[None], rng)))
                return scores.opinions(tree).verdict(path, drawn)
            drawn.append(int(tree.token[accepted]))
            path.append(accepted)


class BestIsGoodEnough(SampleMatch):
    """WRONG: accepts a child that is the target's most likely token, and samples only where the walk ends."""

    def verify(self, tree: Tree, scores: TreeScores, rng: torch.Generator, draws: Draws | None = None) -> Verdict:
        opinions = scores.opinions(tree)
        table = probabilities(scores.logits(slice(0, len(tree))), self.sampling)
        path = [0]
        while (child := child_with_token(tree, path[-1], int(opinions.choice[path[-1]]))) is not None:
            path.append(child)
        bonus = int(draw(table[path[-1]][None], rng))
        return opinions.verdict(path, [*tree.token[path[1:]].tolist(), bonus])


class FreshBonus(SampleMatch):
    """WRONG, and only slightly: throws the last draw away and draws the bonus anew, so that a child may come back."""

    def verify(self, tree: Tree, scores: TreeScores, rng: torch.Generator, draws: Draws | None = None) -> Verdict:
        right = super().verify(tree, scores, rng)
        last = int(right.path[-1])
        return replace(right, bonus=int(self._draw(scores.logits(slice(last, last + 1)), rng)))


@pytest.mark.parametrize(("wrong", "grow"), [(RejectionTest, top_two), (BestIsGoodEnough, mixed), (FreshBonus, chain)])
def test_a_wrong_verifier_is_rejected(wrong: type[SampleMatch], grow: Grow) -> None:
    """The power of the test: the same number of sequences, the same level."""
    sampling = SAMPLINGS["plain"]
    assert p_value(sample(wrong(sampling), grow, COUNT, length=3, seed=13), sampling) < LEVEL


def test_another_temperature_is_rejected() -> None:
    texts = sample(SampleMatch(Sampling(0.7)), mixed, COUNT, length=3, seed=14)
    assert p_value(texts, Sampling(1.0)) < LEVEL

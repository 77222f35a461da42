"""EAGLE's dynamic tree against the definition: every candidate listed, beams and rerank taken by plain sorting."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.strategies import make_strategy
from decoding.tree import cumulative_logprob, depths
from decoding.types import Ints
from tests.decoding.strategies.test_stepwise_strategies import VOCAB, Path, Toy, check, paths_of


class Tied(Toy):
    """Log-probabilities of whole numbers, 0 among them: a child is often exactly as likely as its parent."""

    def row(self, path: Path, k: int) -> tuple[Ints, Any]:
        token, logprob = super().row(path, k)
        return token, np.ceil(logprob / 2)


def candidate_set(drafter: Toy, top_k: int, depth: int) -> dict[Path, float]:
    """Score of everything that is proposed: the root's best, then `depth` times the best of every beam."""
    scores: dict[Path, float] = {}
    beams: dict[Path, float] = {(): 0.0}
    for _ in range(depth + 1):
        layer: dict[Path, float] = {}
        for path, score in beams.items():
            token, logprob = drafter.row(path, top_k)
            layer |= {(*path, t): score + float(p) for t, p in zip(token.tolist(), logprob, strict=True) if t >= 0}
        scores |= layer
        beams = dict(sorted(layer.items(), key=lambda item: -item[1])[:top_k])
    return scores


sizes = {"top_k": st.integers(1, 4), "depth": st.integers(0, 4), "budget": st.integers(1, 60)}


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.fixed_dictionaries(sizes))
def test_the_rerank_keeps_the_best_of_all_candidates(seed: int, holes: bool, chosen: dict[str, int]) -> None:
    drafter = Toy(seed, holes=holes)
    growth = make_strategy("eagle", chosen).grow(drafter, 5, 99)
    scores = candidate_set(drafter, chosen["top_k"], chosen["depth"])
    best = sorted(scores.values(), reverse=True)[: chosen["budget"]]
    found = sorted((scores[path] for path in paths_of(growth.tree) if path), reverse=True)
    np.testing.assert_allclose(found, best, rtol=1e-5)
    np.testing.assert_allclose(np.sort(cumulative_logprob(growth.tree)[1:])[::-1], best, rtol=1e-4)
    assert growth.decision["evaluated"] <= 1 + chosen["depth"] * chosen["top_k"]
    assert drafter.calls <= chosen["depth"] + 1


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.fixed_dictionaries(sizes), st.integers(0, 6))
def test_ties_keep_parents(seed: int, chosen: dict[str, int], max_depth: int) -> None:
    """A tree without its parents could not be built at all; among equals the shallower are kept."""
    drafter = Tied(seed)
    strategy = make_strategy("eagle", chosen)
    tree = strategy.grow(drafter, 5, max_depth).tree
    check(tree, drafter, strategy.max_nodes, max_depth)
    if max_depth == 0:
        return
    scores = candidate_set(drafter, chosen["top_k"], min(chosen["depth"], max_depth - 1))
    best = sorted(scores.values(), reverse=True)[: chosen["budget"]]
    assert tree.drafted == len(best)
    assert sorted(cumulative_logprob(tree)[1:].tolist(), reverse=True) == best


def test_ties_are_there_to_be_kept() -> None:
    edges = [Tied(seed).row((1,), VOCAB)[1] for seed in range(20)]
    assert sum(int((edge == 0).sum()) for edge in edges) > 5


@settings(deadline=None)
@given(st.integers(0, 999), st.integers(0, 7), st.integers(1, 20), st.integers(0, 12))
def test_one_beam_is_the_greedy_chain(seed: int, depth: int, budget: int, max_depth: int) -> None:
    tree = make_strategy("eagle", {"top_k": 1, "depth": depth, "budget": budget}).grow(Toy(seed), 5, max_depth).tree
    chain = make_strategy("linear", {"budget": min(depth + 1, budget)}).grow(Toy(seed), 5, max_depth).tree
    assert tree.token.tolist() == chain.token.tolist()
    assert tree.parent.tolist() == chain.parent.tolist()


class Even(Toy):
    """Every child of every node is equally likely, so nothing ever falls out of the beams or the budget."""

    def row(self, path: Path, k: int) -> tuple[Ints, Any]:
        return np.arange(k, dtype=np.int32), np.full(k, -0.001, np.float32)


def test_the_size_of_the_published_search() -> None:
    """The root's ten, then seven times ten children of each of ten beams: 710 candidates, eight levels."""
    strategy = make_strategy("eagle", {"budget": 1024})
    growth = strategy.grow(Even(0), 5, 99)
    assert strategy.max_nodes == growth.tree.drafted == 710
    assert growth.decision == {"evaluated": 71, "considered": 711}
    assert np.bincount(depths(growth.tree.parent)).tolist() == [1, 10, *[100] * 7]
    assert make_strategy("eagle", {}).grow(Even(0), 5, 99).tree.drafted == 60


@pytest.mark.parametrize("budget", [1, 2, 5])
def test_what_cannot_be_kept_is_not_evaluated(budget: int) -> None:
    growth = make_strategy("eagle", {"budget": budget}).grow(Even(0), 5, 99)
    assert growth.decision["evaluated"] <= 1 + budget

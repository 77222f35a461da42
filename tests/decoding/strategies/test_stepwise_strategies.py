"""Strategies over stand-in drafters: trees valid, within budget and depth, and the ones that were asked for."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from decoding.drafters.base import Candidates, Drafter, Observation, OnePassDrafter, StepwiseDrafter
from decoding.draws import Drawn
from decoding.errors import BadRequest, UnknownName
from decoding.settings import options_of
from decoding.strategies import STRATEGIES, make_strategy
from decoding.template import RECYCLE_WIDTHS, rank_logprob
from decoding.tree import cumulative_logprob, depths, path_to
from decoding.types import Ints, Marginals, Source, Tree

VOCAB = 12
Path = tuple[int, ...]


class Toy(StepwiseDrafter):
    """Random distributions by path, reproducible; some nodes have fewer candidates where `holes` are asked for."""

    name = "toy"
    vocab_size = VOCAB

    def __init__(self, seed: int, with_logprobs: bool = True, holes: bool = False) -> None:
        self.seed, self.with_logprobs, self.holes = seed, with_logprobs, holes
        self.gives_logprobs = with_logprobs  # type: ignore[misc]
        self.source = Source.DRAFT if with_logprobs else Source.RETRIEVAL  # type: ignore[misc]
        self.calls = 0

    def begin(self, capacity: int) -> None: ...

    def observe(self, observation: Observation) -> None: ...

    def row(self, path: Path, k: int) -> tuple[Ints, Any]:
        """The candidates after `path`, `[k]` each; NaN log-probabilities where there are none."""
        rng = np.random.default_rng([self.seed, *path])
        probs = np.sort(rng.dirichlet(np.full(VOCAB, 0.3)))[::-1]
        tokens = rng.permutation(VOCAB)
        count = int(rng.integers(0, VOCAB)) if self.holes else VOCAB
        token, logprob = np.full(k, -1, np.int32), np.full(k, np.nan, np.float32)
        kept = min(k, count)
        token[:kept] = tokens[:kept]
        if self.with_logprobs:
            logprob[:kept] = np.log(np.maximum(probs[:kept], 1e-30))
        return token, logprob

    def _ask(self, paths: list[Path], k: int) -> Candidates:
        self.calls += 1
        rows = [self.row(path, k) for path in paths]
        return Candidates(np.array([token for token, _ in rows]), np.array([logprob for _, logprob in rows]))

    def start(self, root: int, k: int) -> Candidates:
        self.paths: list[Path] = [()]
        return self._ask(self.paths, k)

    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        assert len(tokens)
        assert (parents >= 0).all()
        new = [(*self.paths[parent], token) for token, parent in zip(tokens.tolist(), parents.tolist(), strict=True)]
        self.paths += new
        return self._ask(new, k)


class ToyOnePass(OnePassDrafter):
    name = "toy-one-pass"
    vocab_size = VOCAB
    positions = 7

    def begin(self, capacity: int) -> None: ...

    def observe(self, observation: Observation) -> None: ...

    def marginals(self, root: int, k: int) -> Marginals:
        tokens = np.arange(self.positions * VOCAB).reshape(self.positions, VOCAB) % VOCAB
        return Marginals(tokens[:, :k], np.tile(-np.arange(k, dtype=np.float32), (self.positions, 1)))


def paths_of(tree: Tree) -> set[Path]:
    return {tuple(tree.token[path_to(tree.parent, node)[1:]].tolist()) for node in range(len(tree))}


def check(tree: Tree, drafter: Toy, budget: int, max_depth: int) -> None:
    """What holds of every tree; that siblings differ and parents come first, `Tree` checks itself."""
    assert tree.token[0] == 5
    assert tree.drafted <= budget
    assert depths(tree.parent).max() <= max_depth
    assert (tree.source[1:] == drafter.source).all()
    assert (np.isnan(tree.logprob[1:]) != drafter.with_logprobs).all()
    for node in range(1, len(tree)):
        path = tuple(tree.token[path_to(tree.parent, node)[1:]].tolist())
        token, logprob = drafter.row(path[:-1], VOCAB)
        place = token.tolist().index(path[-1])
        np.testing.assert_equal(tree.logprob[node], logprob[place])


STEPWISE = [
    name
    for name, kind in STRATEGIES.items()
    if not kind.needs or ("stepwise" in kind.needs and not kind.retrieval and Drawn.BEST in kind.candidates)
]
toys = st.builds(Toy, st.integers(0, 10_000), st.booleans(), st.booleans())


@given(toys, st.sampled_from(STEPWISE), st.integers(0, 8), st.data())
def test_every_tree_is_valid(drafter: Toy, name: str, max_depth: int, data: st.DataObject):
    assume(drafter.with_logprobs or not STRATEGIES[name].needs_logprobs)
    small = {"depth": 4, "budget": 40, "branching": 4}
    given_settings = {
        key: data.draw(st.integers(1, small[key]))
        for key in options_of(STRATEGIES[name].settings_class)
        if key in small
    }
    strategy = make_strategy(name, given_settings)
    growth = strategy.grow(drafter, 5, max_depth)
    check(growth.tree, drafter, strategy.max_nodes, max_depth)
    assert drafter.calls <= max_depth  # one step for each depth, and none below the last
    if max_depth == 0:
        assert len(growth.tree) == 1


def full_tree(drafter: Toy, depth: int, branching: int, threshold: float) -> dict[Path, float]:
    """Score of every node of the fixed tree without a budget."""
    scores: dict[Path, float] = {(): 0.0}
    for level in range(depth):
        for path in [path for path in scores if len(path) == level]:
            token, logprob = drafter.row(path, branching)
            for rank, (t, lp) in enumerate(zip(token.tolist(), logprob.tolist(), strict=True)):
                score = scores[path] + (lp if drafter.with_logprobs else rank_logprob(rank))
                if t >= 0 and (not drafter.with_logprobs or threshold == 0 or score >= np.log(threshold)):
                    scores[(*path, t)] = score
    return scores


@settings(max_examples=60)
@given(toys, st.integers(1, 4), st.integers(1, 3), st.sampled_from([0.0, 0.02, 0.2]), st.integers(1, 60))
def test_fixed_keeps_the_best_of_the_full_tree(drafter: Toy, depth: int, branching: int, threshold: float, budget: int):
    chosen = {"depth": depth, "branching": branching, "threshold": threshold, "budget": budget}
    tree = make_strategy("fixed", chosen).grow(drafter, 5, 99).tree
    scores = full_tree(drafter, depth, branching, threshold)
    best = sorted((score for path, score in scores.items() if path), reverse=True)[:budget]
    found = sorted((scores[path] for path in paths_of(tree) if path), reverse=True)
    np.testing.assert_allclose(found, best, rtol=1e-5)
    if drafter.with_logprobs:
        np.testing.assert_allclose(np.sort(cumulative_logprob(tree)[1:])[::-1], best, rtol=1e-4)


def test_fixed_over_ranks_takes_the_greedy_chain_first():
    tree = make_strategy("fixed", {"depth": 3, "branching": 3, "budget": 5}).grow(Toy(1, False), 5, 99).tree
    # 1, 1-1, 2, 1-1-1 weigh 1/1.5, 1/2.25, 1/3, 1/3.4; then 1-2, 2-1 and 3 stand equal and the shallowest is first.
    assert sorted(depths(tree.parent)) == [0, 1, 1, 1, 2, 3]


@given(toys, st.integers(1, 20), st.integers(0, 20))
def test_linear_is_the_greedy_chain(drafter: Toy, length: int, max_depth: int):
    tree = make_strategy("linear", {"budget": length}).grow(drafter, 5, max_depth).tree
    expected: Path = ()
    while len(expected) < min(length, max_depth) and (token := int(drafter.row(expected, 1)[0][0])) >= 0:
        expected = (*expected, token)
    assert tree.token[1:].tolist() == list(expected)
    assert tree.parent.tolist() == list(range(-1, len(expected)))


@pytest.mark.parametrize(("length", "max_depth"), [(5, 99), (64, 99), (5, 3), (5, 0)])
def test_linear_over_one_pass(length: int, max_depth: int):
    drafter: Drafter = ToyOnePass()
    growth = make_strategy("linear", {"budget": length}).grow(drafter, 5, max_depth)
    count = min(length, max_depth, 7)
    assert growth.tree.token[1:].tolist() == [0] * count
    assert growth.tree.parent.tolist() == list(range(-1, count))
    assert (growth.marginals is None) == (max_depth == 0)


def test_recycle_takes_the_paper_template():
    tree = make_strategy("recycle", {}).grow(Toy(3, False), 5, 99).tree
    assert np.bincount(depths(tree.parent)).tolist() == [1, *RECYCLE_WIDTHS]
    assert make_strategy("recycle", {}).grow(Toy(3), 5, 2).tree.drafted == 29


@settings(max_examples=30)
@given(st.integers(0, 999), st.integers(1, 120))
def test_recycle_leaves_out_what_is_missing(seed: int, budget: int):
    full = make_strategy("recycle", {"budget": budget}).grow(Toy(seed, False), 5, 99).tree
    holes = make_strategy("recycle", {"budget": budget}).grow(Toy(seed, False, holes=True), 5, 99).tree
    assert full.drafted == budget
    toy = Toy(seed, False, holes=True)
    there = {path for path in paths_of(full) if all(path[i] in toy.row(path[:i], VOCAB)[0] for i in range(len(path)))}
    assert paths_of(holes) == there


def test_table_and_names():
    assert {"ar", "linear", "fixed", "recycle"} <= set(STRATEGIES)
    for name, strategy in STRATEGIES.items():
        assert strategy.name == name
        assert make_strategy(name, {}).max_nodes >= 0
    with pytest.raises(UnknownName, match="recycle"):
        make_strategy("recycled", {})
    with pytest.raises(BadRequest, match="budget"):
        make_strategy("fixed", {"budget": 0})
    with pytest.raises(BadRequest, match="no settings"):
        make_strategy("ar", {"budget": 3})


@pytest.mark.parametrize(("depth", "branching", "most"), [(2, 3, 12), (1, 2, 2), (8, 3, 256)])
def test_fixed_max_nodes(depth: int, branching: int, most: int):
    assert make_strategy("fixed", {"depth": depth, "branching": branching, "threshold": 0}).max_nodes == most

"""Graft against Table 7, hand-made drafters, and the matrix as it stood when the tree was drafted."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.drafters.base import Candidates, Observation, OnePassDrafter, StepwiseDrafter
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.errors import Incompatible
from decoding.strategies import make_strategy
from decoding.strategies.base import Growth
from decoding.strategies.graft_stages import (
    FULL_ENVELOPE,
    STAGES,
    envelope,
    places_in_envelope,
    retrieval_template,
    split,
)
from decoding.strategies.grafting import tails
from decoding.template import CHOICES, rank_logprob, template_of_widths
from decoding.tree import cumulative_logprob, depths, path_to
from decoding.types import Ints, Marginals, Source, Tree
from tests.decoding.strategies.test_stepwise_strategies import VOCAB, Toy

ROOT = 5
TABLE_7 = {
    "d0": (8, 52, (8, 10, 8, 6, 5, 4, 4, 4, 3)),
    "d1": (24, 36, (6, 7, 5, 4, 4, 3, 3, 2, 2)),
    "d5": (40, 20, (4, 3, 3, 2, 2, 2, 2, 1, 1)),
}


def widths(parent: Ints) -> tuple[int, ...]:
    return tuple(np.bincount(depths(parent))[1:].tolist())


def rank_paths(template: Any) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = [()]
    for parent, rank in zip(template.parent[1:].tolist(), template.rank[1:].tolist(), strict=True):
        paths.append((*paths[parent], rank))
    return paths


def test_splits_and_templates_are_those_of_table_7():
    assert {stage.name for stage in STAGES} == set(TABLE_7)
    for stage in STAGES:
        drafted, retrieved, distribution = TABLE_7[stage.name]
        assert split(60, stage) == (drafted, retrieved)
        assert widths(retrieval_template(60, stage, 9).parent) == distribution
    assert sum(FULL_ENVELOPE) == 80
    assert widths(template_of_widths(FULL_ENVELOPE).parent) == FULL_ENVELOPE
    assert set(rank_paths(envelope(60, 9))) <= set(rank_paths(template_of_widths(FULL_ENVELOPE)))


@pytest.mark.parametrize(
    ("budget", "expected"), [(30, (4, 12, 20)), (120, (16, 48, 80)), (16, (2, 6, 11)), (1, (1, 1, 1))]
)
def test_other_budgets_are_split_in_the_same_proportion(budget: int, expected: tuple[int, ...]):
    assert tuple(split(budget, stage).draft for stage in STAGES) == expected


@settings(deadline=None)  # the first call of a shape makes its templates
@given(st.integers(1, 300), st.integers(0, 9))
def test_every_budget_has_templates_and_the_envelope_holds_them(budget: int, max_depth: int):
    whole = rank_paths(envelope(budget, max_depth))
    for stage in STAGES:
        share, template = split(budget, stage), retrieval_template(budget, stage, max_depth)
        assert share.draft + share.retrieval == budget
        assert len(template) - 1 <= share.retrieval
        assert len(retrieval_template(budget, stage, 9)) - 1 == share.retrieval
        places = places_in_envelope(budget, stage, max_depth)
        assert [whole[place] for place in places] == rank_paths(template)
        # A run's rounds have ever smaller depth limits: what they share must be made once.
        assert max_depth < 9 or retrieval_template(budget, stage, max_depth + 50) is template


class Steps(StepwiseDrafter):
    """Gives every child of depth d the probabilities of row d - 1."""

    name = "steps"
    vocab_size = 50

    def __init__(self, rows: list[list[float]]) -> None:
        self.rows, self.depth, self.calls = rows, [0], 0

    def begin(self, capacity: int) -> None: ...

    def observe(self, observation: Observation) -> None: ...

    def _give(self, count: int, depth: int, k: int) -> Candidates:
        self.calls += 1
        row = self.rows[depth][:k]
        token, logprob = np.full((count, k), -1, np.int32), np.full((count, k), np.nan, np.float32)
        token[:, : len(row)] = 10 * depth + np.arange(len(row))
        logprob[:, : len(row)] = np.log(row)
        return Candidates(token, logprob)

    def start(self, root: int, k: int) -> Candidates:
        self.depth = [0]
        return self._give(1, 0, k)

    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        depth = self.depth[parents[0]] + 1
        self.depth += [depth] * len(tokens)
        return self._give(len(tokens), depth, k)


def taught(seed: int, vocab: int, rows: float = 1.0) -> TransitionMatrix:
    """A matrix in which a share `rows` of the tokens have successors."""
    rng = np.random.default_rng(seed)
    matrix = TransitionMatrix(vocab)
    seen = np.flatnonzero(rng.random(vocab) < rows).astype(np.int32)
    following = np.array([rng.permutation(vocab)[:CHOICES] for _ in seen], np.int32).reshape(len(seen), CHOICES)
    matrix.observe(Observation(seen[:1], None, seen, following))
    return matrix


def grow(
    drafter: Any, matrix: TransitionMatrix | None, max_depth: int = 99, name: str = "graft", **given: Any
) -> Growth:
    return make_strategy(name, given).grow_beside(drafter, matrix, ROOT, max_depth)


ROWS = [[0.5, 0.3, 0.1]] * 8
"""c_0 = .5, c_1 = .25, ... c_5 = .015625."""


@pytest.mark.parametrize(
    ("thresholds", "stage", "steps", "drafted"),
    [
        ({"tau_d0": 0.5}, "d0", 1, 3),  # g = 1[c > tau]: a confidence equal to the threshold is pruned
        ({"tau_d0": 0.49, "tau_d1": 0.25}, "d1", 2, 3 + 9),
        ({"tau_d0": 0.49, "tau_d1": 0.24, "tau_d5": 0.1}, "d5", 6, 40),
        ({"tau_d0": 0.49, "tau_d1": 0.24, "tau_d5": 0.01}, None, 8, 60),
        ({}, "d5", 6, 40),  # the paper's .14, .14 and .49
    ],
)  # fmt: skip
def test_gates(thresholds: dict[str, float], stage: str | None, steps: int, drafted: int):
    drafter = Steps(ROWS)
    growth = grow(drafter, taught(0, 50), **thresholds)
    assert growth.decision["stage"] == stage
    assert drafter.calls == steps, "the drafter was asked below a closed gate"
    np.testing.assert_allclose(growth.decision["confidence"], [0.5**d for d in range(1, steps + 1)], rtol=1e-5)
    assert (growth.tree.source == Source.DRAFT).sum() == drafted
    retrieved = 0 if stage is None else TABLE_7[stage][1]
    assert growth.decision["retrieval_budget"] == retrieved
    grafts = growth.decision["grafts"]["node"]
    # 50 tokens and full rows: nothing is missing, so what is not merged is there
    assert len(grafts) + len(growth.decision["merged"]) == retrieved
    assert growth.tree.drafted <= 60


def test_the_retained_draft_is_the_best_of_what_was_drafted():
    growth = grow(Steps([[0.5, 0.3, 0.1]] * 8), taught(0, 50), tau_d0=0, tau_d1=1, budget=10)
    assert growth.decision["draft_budget"] == 4
    drafted = np.flatnonzero(growth.tree.source == Source.DRAFT)
    # .5, .3, .25 = .5 * .5, then .15 twice, of which the earlier: .5 * .3
    np.testing.assert_allclose(
        np.sort(np.exp(cumulative_logprob(growth.tree)[drafted])), [0.15, 0.25, 0.3, 0.5], rtol=1e-5
    )


def check_provenance(growth: Growth, matrix: TransitionMatrix) -> None:
    """Every retrieved node says which entry of the matrix it is, and no other node does."""
    tree, grafts = growth.tree, growth.decision["grafts"]
    rows = matrix.matrix.numpy()
    assert grafts["node"] == np.flatnonzero(tree.source == Source.RETRIEVAL).tolist()
    for node, row, rank in zip(grafts["node"], grafts["row"], grafts["rank"], strict=True):
        assert tree.token[tree.parent[node]] == row
        assert rows[row, rank] == tree.token[node]
        assert math.isnan(tree.logprob[node])
    for node in growth.decision["merged"]:
        assert tree.source[node] == Source.DRAFT
        assert tree.token[node] in rows[tree.token[tree.parent[node]]]


variants = st.fixed_dictionaries(
    {
        "prune": st.booleans(),
        "retrieve": st.booleans(),
        "attach": st.sampled_from(["root", "tail"]),
        "budget": st.integers(1, 80),
        "depth": st.integers(1, 8),
        "width": st.integers(1, 6),
        "tau_d0": st.sampled_from([-1, 0, 0.3, 1]),
        "tau_d1": st.sampled_from([-1, 0, 0.2, 1]),
    }
)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 999), st.booleans(), st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 12), variants)
def test_every_variant_gives_a_valid_tree_that_knows_where_it_came_from(
    seed: int, holes: bool, rows: float, max_depth: int, given_settings: dict[str, Any]
):
    matrix = taught(seed, VOCAB, rows)
    drafter = Toy(seed, holes=holes)
    growth = grow(drafter, matrix, max_depth, **given_settings)
    tree = growth.tree
    assert tree.drafted <= given_settings["budget"]
    assert depths(tree.parent).max() <= max_depth
    if max_depth == 0:
        assert len(tree) == 1
        return
    check_provenance(growth, matrix)
    if not given_settings["retrieve"]:
        assert (tree.source[1:] == Source.DRAFT).all()
    if not given_settings["prune"]:
        assert growth.decision["stage"] is None
    for node in np.flatnonzero(tree.source == Source.DRAFT).tolist():
        path = tuple(tree.token[path_to(tree.parent, node)[1:]].tolist())
        token, logprob = drafter.row(path[:-1], VOCAB)
        np.testing.assert_equal(tree.logprob[node], logprob[token.tolist().index(path[-1])])


def test_what_is_drafted_and_retrieved_is_one_node():
    drafter = Toy(3)
    best = drafter.row((), 10)[0]
    matrix = TransitionMatrix(VOCAB)
    unseen = [token for token in range(VOCAB) if token not in best.tolist()]
    following = np.array([[best[1], best[0], *unseen, *best[2:]][:CHOICES]], np.int32)
    seen = np.array([ROOT], np.int32)
    matrix.observe(Observation(seen, None, seen, following))
    growth = grow(drafter, matrix, tau_d0=1)
    tree = growth.tree
    assert tree.token[1:9].tolist() == best[:8].tolist()
    assert set(growth.decision["merged"]) == {
        node for node in range(1, 9) if tree.token[node] in following and tree.source[node] == Source.DRAFT
    }
    assert {1, 2} <= set(growth.decision["merged"])
    assert set(tree.token[1:].tolist()) == set(best[:8].tolist()) | set(following[0].tolist())
    check_provenance(growth, matrix)


def test_the_same_tree_whether_the_look_up_began_early_or_late():
    """What a device overlaps must not change what is grafted."""

    class Late(TransitionMatrix):
        def look_up_soon(self, given: Ints, template: Any) -> Any:
            begun = self.look_up(given, template)
            return lambda: begun

    early, late = taught(1, VOCAB), Late(VOCAB)
    late.matrix.copy_(early.matrix)
    one, other = (grow(Toy(1), matrix, tau_d0=0, tau_d1=1).tree for matrix in (early, late))
    assert one.token.tolist() == other.token.tolist()
    assert one.parent.tolist() == other.parent.tolist()


def brute_tails(tree: Tree, count: int, max_depth: int, choices: int) -> list[float]:
    """Weights of the best places below the leaves, by listing all that are shallow enough."""
    score = np.nan_to_num(cumulative_logprob(tree))
    level = depths(tree.parent)
    weights = []
    for leaf in set(range(len(tree))) - set(tree.parent[1:].tolist()):
        layer = [float(score[leaf])]
        for _ in range(int(level[leaf]), max_depth):
            layer = [weight + rank_logprob(rank) for weight in layer for rank in range(choices)]
            weights += layer
    return sorted(weights, reverse=True)[:count]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 999), st.integers(0, 12), st.integers(0, 12), st.integers(0, 4), st.integers(1, 3))
def test_tails_take_the_heaviest_places_below_the_leaves(
    seed: int, drafted: int, count: int, max_depth: int, choices: int
):
    drafted_tree = make_strategy("fixed", {"depth": 3, "branching": 2, "threshold": 0, "budget": max(drafted, 1)})
    tree = drafted_tree.grow(Toy(seed), ROOT, min(3, max_depth)).tree
    template, known = tails(tree, count, max_depth, choices)
    level = depths(template.parent)
    assert (known >= 0).sum() == len(tree)
    assert level.max() <= max(max_depth, depths(tree.parent).max())
    inner = set(tree.parent[1:].tolist())
    drafted_at = {}
    for node in range(len(template)):
        if known[node] >= 0:
            above = drafted_at.get(int(template.parent[node]), -1)
            drafted_at[node] = next(
                n for n in range(len(tree)) if tree.parent[n] == above and tree.token[n] == known[node]
            )
    score, found = np.nan_to_num(cumulative_logprob(tree)), []
    for node in np.flatnonzero(known < 0).tolist():
        path = path_to(template.parent, node)
        leaf = max(place for place in path if known[place] >= 0)
        assert drafted_at[leaf] not in inner, "a retrieved node grows from inside the draft"
        ranks = [int(template.rank[place]) for place in path if known[place] < 0]
        found.append(float(score[drafted_at[leaf]]) + sum(rank_logprob(rank) for rank in ranks))
    np.testing.assert_allclose(sorted(found, reverse=True), brute_tails(tree, count, max_depth, choices), rtol=1e-5)


def test_the_tails_of_the_docstring():
    tree = Tree(np.array([ROOT, 1, 2]), np.array([-1, 0, 0]), np.log([1, 0.6, 0.1]), np.array([0, 1, 1]))
    template, known = tails(tree, 3, 9)
    assert known.tolist() == [ROOT, 1, 2, -1, -1, -1]
    assert template.parent.tolist() == [-1, 0, 0, 1, 1, 3]
    assert template.rank[3:].tolist() == [0, 1, 0]


def test_a_missing_source_is_told():
    with pytest.raises(Incompatible, match="retrieval source"):
        make_strategy("graft", {}).grow(Toy(0), ROOT, 9)
    with pytest.raises(Incompatible, match="retrieval source"):
        make_strategy("graft-block", {}).grow(Block([0.5]), ROOT, 9)
    assert make_strategy("graft", {"retrieve": False}).grow(Toy(0), ROOT, 9).tree.drafted > 0


class Block(OnePassDrafter):
    """Best tokens 20, 21, ... with the given probabilities."""

    name = "block"
    vocab_size = 50

    def __init__(self, probability: list[float]) -> None:
        self.positions, self.probability = len(probability), probability

    def begin(self, capacity: int) -> None: ...

    def observe(self, observation: Observation) -> None: ...

    def marginals(self, root: int, k: int) -> Marginals:
        return Marginals(20 + np.arange(self.positions)[:, None], np.log(self.probability)[:, None])


@pytest.mark.parametrize(
    ("given_settings", "max_depth", "kept", "length"),
    [
        ({}, 9, 2, 5),  # .9, .4, then .3 does not exceed .3
        ({"tau_block": 0.05}, 9, 5, 5),
        ({"tau_block": 0.95}, 9, 0, 5),
        ({"prune": False}, 9, 5, 5),
        ({"retrieve": False}, 9, 2, 2),
        ({"budget": 3}, 9, 2, 3),
        ({}, 1, 1, 1),
    ],
)
def test_graft_over_a_block(given_settings: dict[str, Any], max_depth: int, kept: int, length: int):
    matrix = taught(4, 50)
    growth = grow(Block([0.9, 0.4, 0.3, 0.8, 0.1]), matrix, max_depth, "graft-block", **given_settings)
    tree = growth.tree
    assert tree.parent.tolist() == list(range(-1, length))
    assert tree.token[1 : kept + 1].tolist() == list(range(20, 20 + kept))
    assert (tree.source[1 : kept + 1] == Source.DRAFT).all()
    assert (tree.source[kept + 1 :] == Source.RETRIEVAL).all()
    assert growth.marginals is not None
    for node in range(kept + 1, length + 1):
        assert tree.token[node] == matrix.matrix[tree.token[node - 1], 0]
    check_provenance(growth, matrix)


def test_an_unknown_tail_is_left_out():
    growth = grow(Block([0.9, 0.1]), TransitionMatrix(50), name="graft-block")
    assert growth.tree.token.tolist() == [ROOT, 20]
    assert growth.decision["retrieval_budget"] == 1

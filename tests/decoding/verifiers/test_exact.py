"""Losslessness without statistics: the exact law of a whole round, tree sampler and verifier together."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from decoding.drafters.base import Candidates, Observation, OnePassDrafter, StepwiseDrafter
from decoding.draws import Drawn, Draws
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.strategies.base import Growth
from decoding.tree import TreeBuilder
from decoding.types import Ints, Marginals
from decoding.verifiers import VERIFIERS
from tests.decoding.verifiers.exact import ANY_RNG, Branches, Law, Text, branches

__all__ = ["branches"]

VOCAB = 3
WARM = Sampling(1.0)
EXACT = 1e-6
"""The tables are float32 logits."""
FITTING = [(name, drawn) for name, kind in VERIFIERS.items() for drawn in sorted(kind.needs_candidates)
           if drawn is not Drawn.BEST and name not in ("greedy", "sample-match")]  # fmt: skip


class Table:
    """Logits by path, of a target or a drafter."""

    def __init__(self, seed: int, spread: float = 1.5, one_law: tuple[float, ...] | None = None) -> None:
        self.seed, self.spread, self.one_law = seed, spread, one_law
        self.rows: dict[Text, Tensor] = {}

    def __call__(self, path: Text) -> Tensor:
        if path not in self.rows:
            rng = np.random.default_rng([self.seed, *path])
            drawn = torch.from_numpy(rng.normal(0, self.spread, VOCAB)).float()
            self.rows[path] = drawn if self.one_law is None else torch.tensor(self.one_law).log()
        return self.rows[path]


class PathDrafter(StepwiseDrafter):
    name = "paths"
    vocab_size = VOCAB

    def __init__(self, table: Table) -> None:
        self.table = table

    def begin(self, capacity: int) -> None: ...

    def observe(self, observation: Observation) -> None: ...

    def start(self, root: int, k: int) -> Candidates:
        raise NotImplementedError

    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        raise NotImplementedError

    def start_logits(self, root: int) -> Tensor:
        self.paths: list[Text] = [()]
        return self.table(())[None]

    def expand_logits(self, tokens: Ints, parents: Ints) -> Tensor:
        new = [(*self.paths[parent], token) for token, parent in zip(tokens.tolist(), parents.tolist(), strict=True)]
        self.paths += new
        return torch.stack([self.table(path) for path in new])


class MarginalDrafter(OnePassDrafter):
    name = "positions"
    vocab_size = VOCAB
    positions = 2

    def __init__(self, table: Table) -> None:
        self.table = table

    def begin(self, capacity: int) -> None: ...

    def observe(self, observation: Observation) -> None: ...

    def marginals(self, root: int, k: int) -> Marginals:
        raise NotImplementedError

    def logits(self, root: int) -> Tensor:
        return torch.stack([self.table((position, 7)) for position in range(self.positions)])


def law(
    branches: Branches,
    verifier: str,
    drawn: Drawn,
    sampling: Sampling = WARM,
    seed: int = 0,
    one_pass: bool = False,
    tables: tuple[Table, Table] | None = None,
    relabel: Drawn | None = None,
    **shape: Any,
) -> Law:
    target, draft = tables or (Table(seed), Table(seed + 1000))
    chosen = {"budget": 4, "depth": 2, "width": 2, "acceptance": 0.4, "measured": False, **shape}
    strategy = make_strategy("sampled", {**chosen, "replacement": drawn is Drawn.INDEPENDENT})
    strategy.begin((), sampling, ANY_RNG)
    drafter = MarginalDrafter(draft) if one_pass else PathDrafter(draft)

    def grow() -> Growth:
        growth = strategy.grow(drafter, 0, 9)
        return growth if relabel is None else replace(growth, draws=replace(growth.draws, drawn=relabel))

    return Law(branches, target, grow, VERIFIERS[verifier](sampling), length=3)


@pytest.mark.parametrize(("verifier", "drawn"), FITTING)
@pytest.mark.parametrize("one_pass", [False, True])
def test_a_round_emits_the_target_exactly(branches: Branches, verifier: str, drawn: Drawn, one_pass: bool) -> None:
    """Root with two draws, the first of them with two more: every tree and every walk."""
    found = law(branches, verifier, drawn, one_pass=one_pass)
    assert sum(found.probs.values()) == pytest.approx(1.0)
    assert found.distance() < EXACT
    assert found.accepted > 0.3


@pytest.mark.parametrize(("verifier", "drawn"), FITTING)
@pytest.mark.parametrize("shape", [{"budget": 3, "depth": 3, "width": 1}, {"budget": 3, "depth": 1, "width": 3}])
def test_chains_and_brushes(branches: Branches, verifier: str, drawn: Drawn, shape: dict[str, int]) -> None:
    assert law(branches, verifier, drawn, seed=1, **shape).distance() < EXACT


@pytest.mark.parametrize(("verifier", "drawn"), FITTING)
@pytest.mark.parametrize(
    "sampling", [Sampling(0.7, top_k=2), Sampling(1.3, top_p=0.7), Sampling(1e-6), Sampling(0.9, top_p=0.8, top_k=2)]
)
def test_zero_probabilities_on_either_side(branches: Branches, verifier: str, drawn: Drawn, sampling: Sampling) -> None:
    """Tokens that only the target, only the drafter, or neither can give; fewer of them than draws."""
    for shape in ({"budget": 4, "depth": 2, "width": 2}, {"budget": 3, "depth": 1, "width": 3}):
        assert law(branches, verifier, drawn, sampling, seed=3, **shape).distance() < EXACT


@pytest.mark.slow
@pytest.mark.parametrize(("verifier", "drawn"), FITTING)
def test_the_full_binary_tree(branches: Branches, verifier: str, drawn: Drawn) -> None:
    assert law(branches, verifier, drawn, seed=5, budget=6).distance() < EXACT


@pytest.mark.parametrize(("verifier", "drawn"), FITTING)
def test_a_drafter_that_is_the_target_loses_nothing(branches: Branches, verifier: str, drawn: Drawn) -> None:
    """A chain from p itself is accepted whole, except by EAGLE's rule, which does not look at q."""
    table = Table(6)
    found = law(branches, verifier, drawn, tables=(table, table), budget=3, depth=3, width=1)
    assert found.distance() < EXACT
    if verifier != "eagle":
        assert found.accepted == pytest.approx(3.0, abs=1e-5)


LIKELY_WRONG = (0.05, 0.9, 0.05)
SPREAD = (0.7, 0.1, 0.2)


@pytest.mark.parametrize(
    ("verifier", "drawn", "claimed"),
    [
        ("multi-round", Drawn.DISTINCT, Drawn.INDEPENDENT),
        ("without-replacement", Drawn.INDEPENDENT, Drawn.DISTINCT),
        ("traversal", Drawn.DISTINCT, Drawn.INDEPENDENT),
        ("traversal", Drawn.INDEPENDENT, Drawn.DISTINCT),
    ],
)
def test_the_wrong_kind_of_draws_is_wrong(branches: Branches, verifier: str, drawn: Drawn, claimed: Drawn) -> None:
    """The power of these tests, and the reason why the combination is refused."""
    tables = Table(0, one_law=SPREAD), Table(0, one_law=LIKELY_WRONG)
    found = law(branches, verifier, drawn, tables=tables, relabel=claimed, budget=2, depth=1)
    assert found.distance() > 0.05


@pytest.mark.parametrize("claimed", [Drawn.INDEPENDENT, Drawn.DISTINCT])
@pytest.mark.parametrize("verifier", ["multi-round", "without-replacement", "traversal"])
def test_the_best_candidates_passed_off_as_drawn_are_wrong(branches: Branches, verifier: str, claimed: Drawn) -> None:
    if claimed not in VERIFIERS[verifier].needs_candidates:
        return
    builder = TreeBuilder(0)
    builder.add(0, 1)
    builder.add(0, 2)
    probs = torch.tensor([LIKELY_WRONG])
    growth = Growth(builder.build(), draws=Draws(claimed, np.array([1, 2]), probs, np.array([0, -1, -1])))
    found = Law(branches, Table(0, one_law=SPREAD), lambda: growth, VERIFIERS[verifier](WARM), length=1)
    assert found.distance() > 0.05


def test_eagle_is_exact_for_any_fixed_tree(branches: Branches) -> None:
    for tokens in ((1,), (2, 0), (2, 1, 0)):
        builder = TreeBuilder(0)
        for token in tokens:
            builder.add(builder.add(0, token), 1)
        growth = Growth(builder.build())
        assert Law(branches, Table(8), lambda g=growth: g, VERIFIERS["eagle"](WARM), 3).distance() < EXACT


def test_block_verification_s_worked_example(branches: Branches) -> None:
    """Two tokens of target 1/3, 2/3 and drafter 2/3, 1/3, apart: 10/9 accepted token by token, 11/9 as a block
    (the motivating example of arXiv 2403.10444)."""
    tables = Table(0, one_law=(1 / 3, 2 / 3, 0.0)), Table(0, one_law=(2 / 3, 1 / 3, 0.0))
    chain = {"budget": 2, "depth": 2, "width": 1}
    by_token = law(branches, "multi-round", Drawn.INDEPENDENT, tables=tables, **chain)
    as_block = law(branches, "traversal", Drawn.INDEPENDENT, tables=tables, **chain)
    assert by_token.accepted == pytest.approx(10 / 9, abs=1e-5)
    assert as_block.accepted == pytest.approx(11 / 9, abs=1e-5)


@pytest.mark.parametrize(
    ("rule", "drawn"), [("multi-round", Drawn.INDEPENDENT), ("without-replacement", Drawn.DISTINCT)]
)
def test_traversal_accepts_no_less_than_the_rule_from_the_root_down(
    branches: Branches, rule: str, drawn: Drawn
) -> None:
    gains = []
    for seed in range(20, 23):
        for shape in ({"budget": 4, "depth": 2, "width": 2}, {"budget": 3, "depth": 3, "width": 1}):
            below = law(branches, rule, drawn, seed=seed, **shape).accepted
            gains.append(law(branches, "traversal", drawn, seed=seed, **shape).accepted - below)
    assert min(gains) > -EXACT
    assert max(gains) > 0.01


distributions = st.lists(st.integers(0, 20), min_size=4, max_size=4).filter(any)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(distributions, distributions, st.integers(1, 4), st.sampled_from(["multi-round", "without-replacement"]))
def test_one_node_emits_any_target_from_any_drafter(
    branches: Branches, target: list[int], draft: list[int], count: int, name: str
) -> None:
    p, q = (torch.tensor(weights, dtype=torch.float64) / sum(weights) for weights in (target, draft))
    rule = VERIFIERS[name](WARM)
    drawing = branches.draw_with_replacement if name == "multi-round" else branches.draw_without_replacement
    emitted = np.zeros(4)

    def one_round() -> int:
        candidates = [token for token in drawing(q[None], count, ANY_RNG)[0].tolist() if token >= 0]
        choice = rule.choose(p, q, candidates, ANY_RNG)  # type: ignore[attr-defined]
        assert choice.place is None or candidates[choice.place] == choice.token
        return choice.token

    for weight, token in branches.outcomes(one_round):
        emitted[token] += weight
    np.testing.assert_allclose(emitted, p.numpy(), atol=1e-12)

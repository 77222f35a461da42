"""The tree sampler: what is drawn, what is kept of it, and how the shape follows the measured acceptance."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from decoding.drafters.base import Candidates, Observation, OnePassDrafter, StepwiseDrafter
from decoding.drafters.prompt_lookup import PromptLookup
from decoding.draws import Drawn, Draws
from decoding.errors import Incompatible, NonFiniteLogits
from decoding.sampling import Sampling, probabilities
from decoding.strategies import make_strategy
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.rank_acceptance import RankAcceptance
from decoding.tree import children, depths, path_to
from decoding.types import Ints, Marginals, Source, Verdict

VOCAB = 7
Path = tuple[int, ...]


def logits_after(seed: int, path: Path) -> Tensor:
    """Reproducible logits `[vocab]`, some of them -inf."""
    rng = np.random.default_rng([seed, *path])
    row = rng.normal(0, 2, VOCAB)
    row[rng.permutation(VOCAB)[: int(rng.integers(0, VOCAB - 1))]] = -np.inf
    return torch.from_numpy(row).float()


class Dense(StepwiseDrafter):
    name = "dense"
    vocab_size = VOCAB

    def __init__(self, seed: int, room: int = 99) -> None:
        self.seed, self.room = seed, room

    def begin(self, capacity: int) -> None: ...

    def observe(self, observation: Observation) -> None: ...

    def start(self, root: int, k: int) -> Candidates:
        raise NotImplementedError

    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        raise NotImplementedError

    def start_logits(self, root: int) -> Tensor | None:
        self.paths: list[Path] = [()]
        return logits_after(self.seed, ())[None] if self.room else None

    def expand_logits(self, tokens: Ints, parents: Ints) -> Tensor | None:
        new = [(*self.paths[parent], token) for token, parent in zip(tokens.tolist(), parents.tolist(), strict=True)]
        self.paths += new
        return torch.stack([logits_after(self.seed, path) for path in new]) if len(new[0]) < self.room else None


class DenseMarginals(OnePassDrafter):
    name = "dense marginals"
    vocab_size = VOCAB
    positions = 3

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def begin(self, capacity: int) -> None: ...

    def observe(self, observation: Observation) -> None: ...

    def marginals(self, root: int, k: int) -> Marginals:
        raise NotImplementedError

    def logits(self, root: int) -> Tensor:
        return torch.stack([logits_after(self.seed, (position,)) for position in range(self.positions)])


class FewTokens(DenseMarginals):
    """Drafts with four tokens of the seven."""

    draft_tokens = np.array([1, 3, 4, 6], np.int32)

    def logits(self, root: int) -> Tensor:
        return super().logits(root)[:, self.draft_tokens].nan_to_num(neginf=-9.0)


def begun(sampling: Sampling | None = None, seed: int = 0, **chosen: Any) -> Strategy[Any]:
    strategy = make_strategy("sampled", chosen)
    strategy.begin((), sampling or Sampling(1.0), torch.Generator().manual_seed(seed))
    return strategy


shapes = st.fixed_dictionaries(
    {"budget": st.integers(1, 30), "depth": st.integers(1, 5), "width": st.integers(1, 6), "replacement": st.booleans()}
)
samplings = st.sampled_from([Sampling(), Sampling(0.7), Sampling(1.5, top_p=0.8), Sampling(1.0, top_k=2)])


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 999), shapes, samplings, st.integers(0, 6), st.booleans())
def test_a_drawn_tree_and_its_draws(
    seed: int, shape: dict[str, Any], sampling: Sampling, max_depth: int, one_pass: bool
) -> None:
    strategy = begun(sampling, seed, **shape)
    drafter = DenseMarginals(seed) if one_pass else Dense(seed)
    growth = strategy.grow(drafter, 5, max_depth)
    tree, draws = growth.tree, growth.draws
    assert depths(tree.parent).max() <= min(max_depth, shape["depth"], 3 if one_pass else 99)
    if draws is None:
        assert max_depth == 0
        assert len(tree) == 1
        return
    assert draws.drawn is strategy.drawn
    assert len(draws.node) <= strategy.max_nodes
    assert (tree.source[1:] == Source.DRAFT).all()
    assert draws.probs.shape[0] <= (3 if one_pass else len(tree))
    drawing = Sampling(sampling.temperature or 1.0, sampling.top_p, sampling.top_k)
    for node, (drawn, below) in enumerate(zip(draws.below(tree), children(tree.parent), strict=True)):
        assert sorted(set(drawn)) == below
        assert len(drawn) <= shape["width"]
        if draws.drawn is Drawn.DISTINCT:
            assert len(set(drawn)) == len(drawn)
        path = tuple(tree.token[path_to(tree.parent, node)[1:]].tolist())
        logits = logits_after(seed, (len(path),) if one_pass else path)
        if drawn:
            q = draws.probs[draws.row[node]]
            torch.testing.assert_close(q, probabilities(logits[None], drawing)[0])
            assert bool((q[tree.token[drawn]] > 0).all())
            np.testing.assert_allclose(tree.logprob[below], logits.log_softmax(0)[tree.token[below]], atol=1e-5)


@pytest.mark.parametrize("replacement", [True, False])
def test_a_drafter_of_few_tokens_draws_these(replacement: bool) -> None:
    growth = begun(replacement=replacement, budget=20, width=3).grow(FewTokens(3), 5, 9)
    tree, draws, marginals = growth.tree, growth.draws, growth.marginals
    assert draws is not None
    assert marginals is not None
    logits = FewTokens(3).logits(5)
    for node, below in enumerate(draws.below(tree)):
        if not below:
            continue
        position = int(depths(tree.parent)[node])
        expected = torch.zeros(VOCAB)
        expected[[1, 3, 4, 6]] = logits[position].softmax(0)
        torch.testing.assert_close(draws.weights(node, VOCAB), expected)
        np.testing.assert_allclose(np.exp(tree.logprob[below]), expected[tree.token[below]], rtol=1e-5)
    assert set(tree.token[1:].tolist()) <= {1, 3, 4, 6}
    assert set(marginals.token.flatten().tolist()) == {1, 3, 4, 6}


def test_the_first_draw_of_every_node_follows_the_drafter() -> None:
    """Below the root and below its likeliest child, with and without replacement (4 sigma)."""
    q = logits_after(1, ()).softmax(0).numpy()
    likeliest = int(q.argmax())
    below_q = logits_after(1, (likeliest,)).softmax(0).numpy()
    for replacement in (True, False):
        strategy = begun(seed=6, replacement=replacement, budget=8, depth=2, width=2, measured=False, acceptance=0.5)
        first, below = np.zeros(VOCAB), np.zeros(VOCAB)
        for _ in range(300):
            growth = strategy.grow(Dense(1), 5, 9)
            assert growth.draws is not None
            drawn = growth.draws.below(growth.tree)
            first[growth.tree.token[drawn[0][0]]] += 1
            for child in set(drawn[0]):
                if growth.tree.token[child] == likeliest and drawn[child]:
                    below[growth.tree.token[drawn[child][0]]] += 1
        for counts, probs in ((first, q), (below, below_q)):
            total = counts.sum()
            assert total > 100
            assert (np.abs(counts / total - probs) < 4 * np.sqrt(probs * (1 - probs) / total) + 1e-9).all()


def test_the_same_seed_draws_the_same_tree_and_another_one_another() -> None:
    grown = [begun(seed=seed).grow(Dense(2), 5, 9).tree for seed in (0, 0, 1)]
    assert grown[0].token.tolist() == grown[1].token.tolist()
    assert grown[0].token.tolist() != grown[2].token.tolist()


def test_the_temperature_of_the_draws() -> None:
    def q(sampling: Sampling, **chosen: Any) -> Tensor:
        draws = begun(sampling, **chosen).grow(Dense(3), 5, 1).draws
        assert draws is not None
        return draws.probs[0]

    logits = logits_after(3, ())
    torch.testing.assert_close(q(Sampling(0.5)), (logits / 0.5).softmax(0))
    torch.testing.assert_close(q(Sampling(0.0)), logits.softmax(0))  # greedy runs would otherwise draw one chain
    torch.testing.assert_close(q(Sampling(0.5), temperature=2.0), (logits / 2).softmax(0))


def test_where_the_drafter_ends() -> None:
    strategy = begun(budget=40, depth=6)
    assert depths(strategy.grow(Dense(4, room=2), 5, 9).tree.parent).max() == 2
    growth = strategy.grow(Dense(4, room=0), 5, 9)
    assert len(growth.tree) == 1
    assert growth.draws is None
    assert depths(strategy.grow(DenseMarginals(4), 5, 9).tree.parent).max() == 3
    shown = strategy.grow(DenseMarginals(4), 5, 9).marginals
    assert shown is not None
    assert shown.token.shape == (3, VOCAB)


def test_refusals() -> None:
    with pytest.raises(Incompatible, match="prompt-lookup"):
        begun().grow(PromptLookup(VOCAB), 5, 9)

    class Broken(Dense):
        def start_logits(self, root: int) -> Tensor:
            return torch.full((1, VOCAB), float("nan"))

    with pytest.raises(NonFiniteLogits, match="dense"):
        begun().grow(Broken(0), 5, 9)
    with pytest.raises(RuntimeError, match="begin"):
        make_strategy("sampled", {}).grow(Dense(0), 5, 9)
    with pytest.raises(ValueError, match="not drawn"):
        Draws(Drawn.BEST, np.array([1]), torch.ones(1, 2), np.array([0, -1]))


def test_acceptance_starts_as_a_guess_and_becomes_what_was_counted() -> None:
    acceptance = RankAcceptance(0.5, 3)
    assert acceptance.vector() == pytest.approx([0.5, 0.25, 0.125])
    for _ in range(4000):
        for accepted in (0, 0, 0, 1, None):
            acceptance.count(2, accepted)
    assert acceptance.vector() == pytest.approx([0.6, 0.2, 0.125], abs=0.01)
    for _ in range(30_000):
        acceptance.count(3, 2)
    rising = acceptance.vector()
    assert rising == sorted(rising, reverse=True)


def verdict_on(growth: Growth, path: list[int]) -> Verdict:
    count = len(growth.tree)
    columns = {name: np.zeros(count) for name in ("logprob", "rank", "choice", "entropy")}
    return Verdict(np.array(path), 0, **columns, top_token=np.zeros((count, 1)), top_logprob=np.zeros((count, 1)))


@pytest.mark.parametrize("measured", [True, False])
def test_the_shape_follows_the_measured_acceptance(measured: bool) -> None:
    """Nothing is ever accepted, so depth loses its worth; with the measure switched off the shape stays."""
    strategy = begun(budget=12, depth=8, width=4, acceptance=0.9, measured=measured)
    before = depths(strategy.grow(Dense(5), 5, 9).tree.parent).max()
    for _ in range(64):
        growth = strategy.grow(Dense(5), 5, 9)
        strategy.observe(growth.tree, verdict_on(growth, [0]))
    after = depths(strategy.grow(Dense(5), 5, 9).tree.parent).max()
    assert bool(after < before) is measured

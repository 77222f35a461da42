"""The walks themselves, on trees small enough to follow by hand."""

import numpy as np
import pytest
import torch

from decoding.draws import Drawn, Draws
from decoding.errors import Incompatible, NonFiniteLogits, UnknownName
from decoding.sampling import Sampling
from decoding.scores import TreeScores
from decoding.tree import TreeBuilder
from decoding.types import Tree
from decoding.verifiers import VERIFIERS, Greedy, SampleMatch, Verifier, make_verifier
from tests.decoding.random_trees import random_tree

WARM = Sampling(1.0)
RULES = [
    (VERIFIERS[name](WARM), drawn)
    for name in ("eagle", "multi-round", "without-replacement", "traversal")
    for drawn in sorted(VERIFIERS[name].needs_candidates)
]
"""Those that look at one candidate after the other, with every kind of candidates that they take."""
CERTAIN = 60.0
"""A logit that leaves the others no chance, at temperature 1 too."""


def small_tree() -> Tree:
    """Nodes: 0 is the root (token 9); 1: "1" and 2: "2" below it; 3: "3" and 4: "4" below 2; 5: "5" below 4."""
    builder = TreeBuilder(9)
    for parent, token in ((0, 1), (0, 2), (2, 3), (2, 4), (4, 5)):
        builder.add(parent, token)
    return builder.build()


def small_draws(drawn: Drawn) -> Draws | None:
    """Draws that may have given `small_tree`, from flat distributions; independent ones repeat "1" and "4"."""
    if drawn is Drawn.BEST:
        return None
    nodes = [1, 2, 3, 4, 5] if drawn is Drawn.DISTINCT else [1, 1, 2, 3, 4, 4, 5]
    return Draws(drawn, np.array(nodes), torch.full((2, 10), 0.1), np.array([0, -1, 1, -1, 1, -1]))


def said(*tokens: int) -> TreeScores:
    """A target that is certain of the given token after each node; two rows to a chunk."""
    logits = torch.zeros(len(tokens), 10)
    logits[torch.arange(len(tokens)), torch.tensor(tokens)] = CERTAIN
    return TreeScores.from_logits(logits, chunk_bytes=2 * 4 * 10)


WALKS = pytest.mark.parametrize(
    ("target", "path", "bonus"),
    [
        ((7, 0, 0, 0, 0, 0), [0], 7),  # nothing fits
        ((1, 8, 0, 0, 0, 0), [0, 1], 8),
        ((2, 0, 3, 6, 0, 0), [0, 2, 3], 6),
        ((2, 0, 4, 0, 5, 7), [0, 2, 4, 5], 7),  # to a leaf
        ((2, 0, 1, 0, 5, 7), [0, 2], 1),  # "1" is a child of the root, not of node 2
        ((9, 0, 0, 0, 0, 0), [0], 9),  # the root's own token is no child
    ],
)


@pytest.mark.parametrize("verifier", [Greedy(Sampling()), SampleMatch(WARM, lazy=True), SampleMatch(WARM, lazy=False)])
@WALKS
def test_walks(verifier: Verifier, target: tuple[int, ...], path: list[int], bonus: int) -> None:
    verdict = verifier.verify(small_tree(), said(*target), torch.Generator())
    assert verdict.path.tolist() == path
    assert verdict.bonus == bonus
    assert verdict.choice[path].tolist() == [*small_tree().token[path[1:]].tolist(), bonus]


@pytest.mark.parametrize(("verifier", "drawn"), RULES)
@WALKS
def test_the_rules_walk_where_the_target_is_certain(
    verifier: Verifier, drawn: Drawn, target: tuple[int, ...], path: list[int], bonus: int
) -> None:
    verdict = verifier.verify(small_tree(), said(*target), torch.Generator(), small_draws(drawn))
    assert verdict.path.tolist() == path
    assert verdict.bonus == bonus
    assert verdict.choice[path].tolist() == [*small_tree().token[path[1:]].tolist(), bonus]


@pytest.mark.parametrize(("verifier", "drawn"), RULES)
def test_a_seed_gives_the_rules_one_verdict_whatever_the_chunks(verifier: Verifier, drawn: Drawn) -> None:
    logits = torch.randn(6, 10, generator=torch.Generator().manual_seed(9))
    for seed in range(20):
        verdicts = [
            verifier.verify(
                small_tree(),
                TreeScores.from_logits(logits, chunk_bytes=4 * 10 * rows),
                torch.Generator().manual_seed(seed),
                small_draws(drawn),
            )
            for rows in (1, 2, 100)
        ]
        assert len({(v.bonus, *v.path.tolist()) for v in verdicts}) == 1


@pytest.mark.parametrize(("verifier", "drawn"), RULES)
def test_the_rules_refuse_nan_and_take_the_root_alone(verifier: Verifier, drawn: Drawn) -> None:
    logits = torch.zeros(6, 10)
    logits[2] = float("nan")
    with pytest.raises(NonFiniteLogits):
        verifier.verify(small_tree(), TreeScores.from_logits(logits), torch.Generator(), small_draws(drawn))
    verdict = verifier.verify(Tree.root_only(3), said(4), torch.Generator())
    assert (verdict.path.tolist(), verdict.bonus) == ([0], 4)


@pytest.mark.parametrize("name", ["multi-round", "without-replacement", "traversal"])
@pytest.mark.parametrize("drawn", list(Drawn))
def test_other_candidates_are_refused_whoever_calls(name: str, drawn: Drawn) -> None:
    verifier = VERIFIERS[name](WARM)
    if drawn not in verifier.needs_candidates:
        with pytest.raises(Incompatible, match=drawn):
            verifier.verify(small_tree(), said(2, 0, 3, 6, 0, 0), torch.Generator(), small_draws(drawn))


@pytest.mark.parametrize("verifier", [Greedy(Sampling()), SampleMatch(WARM, lazy=True), SampleMatch(WARM, lazy=False)])
def test_the_root_alone_is_a_plain_step(verifier: Verifier) -> None:
    verdict = verifier.verify(Tree.root_only(3), said(4), torch.Generator())
    assert (verdict.path.tolist(), verdict.bonus, verdict.accepted) == ([0], 4, 0)


def test_greedy_takes_the_lowest_of_tied_tokens_as_argmax_does() -> None:
    logits = torch.zeros(6, 10)
    logits[0, [2, 7]] = 5.0
    logits[2, [1, 4]] = 5.0
    verdict = Greedy(Sampling()).verify(small_tree(), TreeScores.from_logits(logits), torch.Generator())
    assert verdict.path.tolist() == [0, 2]
    assert verdict.bonus == 1


def test_greedy_leaves_the_generator_alone() -> None:
    rng = torch.Generator().manual_seed(4)
    before = rng.get_state()
    Greedy(Sampling()).verify(small_tree(), said(2, 0, 4, 0, 5, 7), rng)
    Greedy(Sampling()).first(torch.zeros(5), rng)
    assert torch.equal(before, rng.get_state())


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("sampling", [WARM, Sampling(0.8, 0.9, 40)])
def test_the_same_seed_gives_the_same_verdict_whatever_the_chunks(lazy: bool, sampling: Sampling) -> None:
    tree = random_tree(np.random.default_rng(7), 50, 6)
    logits = torch.randn(len(tree), 6, generator=torch.Generator().manual_seed(7))
    for seed in range(20):
        verdicts = [
            SampleMatch(sampling, lazy).verify(
                tree, TreeScores.from_logits(logits, chunk_bytes=4 * 6 * rows), torch.Generator().manual_seed(seed)
            )
            for rows in (1, 7, 100)
        ]
        assert len({(v.bonus, *v.path.tolist()) for v in verdicts}) == 1
        off_path = np.setdiff1d(np.arange(len(tree)), verdicts[0].path)
        assert verdicts[0].choice[off_path].tolist() == logits.argmax(1)[off_path].tolist()


def test_a_tiny_temperature_walks_as_greedy_does() -> None:
    tree = random_tree(np.random.default_rng(7), 50, 6)
    scores = TreeScores.from_logits(torch.randn(len(tree), 6, generator=torch.Generator().manual_seed(8)))
    greedy = Greedy(Sampling()).verify(tree, scores, torch.Generator())
    for lazy in (True, False):
        cold = SampleMatch(Sampling(1e-6), lazy).verify(tree, scores, torch.Generator())
        assert (cold.path.tolist(), cold.bonus) == (greedy.path.tolist(), greedy.bonus)


@pytest.mark.parametrize("verifier", [Greedy(Sampling()), SampleMatch(WARM, lazy=True), SampleMatch(WARM, lazy=False)])
def test_nan_is_refused_everywhere(verifier: Verifier) -> None:
    logits = torch.zeros(6, 10)
    logits[0] = float("nan")
    with pytest.raises(NonFiniteLogits):
        verifier.verify(small_tree(), TreeScores.from_logits(logits), torch.Generator())
    with pytest.raises(NonFiniteLogits):
        verifier.first(logits[0], torch.Generator())


def test_the_first_token() -> None:
    logits = torch.tensor([0.0, 3.0, 3.0, 1.0], dtype=torch.bfloat16)
    assert Greedy(Sampling()).first(logits, torch.Generator()) == 1
    rng = torch.Generator().manual_seed(0)
    drawn = [SampleMatch(WARM).first(logits, rng) for _ in range(400)]
    share = np.bincount(drawn, minlength=4) / 400
    np.testing.assert_allclose(share, logits.float().softmax(-1).numpy(), atol=0.1)  # four standard errors


def test_make_verifier() -> None:
    assert isinstance(make_verifier(None, Sampling()), Greedy)
    assert isinstance(make_verifier(None, WARM), SampleMatch)
    assert all(
        make_verifier(name, Sampling() if kind.greedy else WARM).name == name for name, kind in VERIFIERS.items()
    )
    with pytest.raises(UnknownName, match="greedy, sample-match"):
        make_verifier("gredy", Sampling())
    with pytest.raises(Incompatible, match="'sample-match'"):
        make_verifier("greedy", WARM)
    with pytest.raises(Incompatible, match="'greedy'"):
        make_verifier("sample-match", Sampling())

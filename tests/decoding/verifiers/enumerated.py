"""A target small enough to enumerate, bad drafters, and a test of whole sequences against the exact distribution.

The target is a table p(token | last two tokens), so every continuation has a probability that can be written down.
`sample` decodes by whole rounds, with the bookkeeping of the real loop: the bonus of one round is the root of the
next. `p_value` compares counts of whole sequences with the exact product distribution.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

from decoding.drafters.base import Candidates, Observation, OnePassDrafter, StepwiseDrafter
from decoding.sampling import Sampling, probabilities
from decoding.scores import TreeScores
from decoding.strategies import make_strategy
from decoding.strategies.base import Growth
from decoding.tree import TreeBuilder
from decoding.types import Ints, Marginals, Tree
from decoding.verifiers import Verifier

VOCAB = 4
START = (1, 2)
"""The last two committed tokens; the second is the first root."""

Rng = np.random.Generator
Grow = Callable[[tuple[int, int], Rng], Tree | Growth]
"""Grows a tree below the second of the last two tokens; with the draws behind it, where there are any."""

_tables = torch.Generator().manual_seed(2024)
TARGET = torch.randn(VOCAB, VOCAB, VOCAB, generator=_tables) * 1.3
"""Logits of the next token after each pair of tokens."""
DRAFT: NDArray[np.float64] = (torch.randn(VOCAB, VOCAB, VOCAB, generator=_tables) * 1.3).double().softmax(-1).numpy()
"""An unrelated table: the drafter is bad."""


def chain(last: tuple[int, int], _: Rng) -> Tree:
    """The drafter's best token, four times: narrow and deterministic."""
    return top(last, width=1, depth=4)


def top_two(last: tuple[int, int], _: Rng) -> Tree:
    """The drafter's two best below every node, three deep: deterministic."""
    return top(last, width=2, depth=3)


def wide(last: tuple[int, int], _: Rng) -> Tree:
    """Every token below the root and again below each of them."""
    return top(last, width=VOCAB, depth=2)


def top(last: tuple[int, int], width: int, depth: int) -> Tree:
    builder = TreeBuilder(last[1])
    frontier = [(0, last)]
    for _ in range(depth):
        below = []
        for node, (before, token) in frontier:
            row = DRAFT[before, token]
            for best in np.argsort(-row, kind="stable")[:width].tolist():
                below.append((builder.add(node, best, float(np.log(row[best]))), (token, best)))
        frontier = below
    return builder.build()


def sampled(last: tuple[int, int], rng: Rng) -> Tree:
    """Four chains drawn from the drafter, merged."""
    builder = TreeBuilder(last[1])
    for _ in range(4):
        node, (before, token) = 0, last
        for _ in range(3):
            row = DRAFT[before, token]
            before, token = token, int(rng.choice(VOCAB, p=row))
            node = builder.add(node, token, float(np.log(row[token])))
    return builder.build()


def anything(last: tuple[int, int], rng: Rng) -> Tree:
    """Random tokens in a random shape."""
    builder = TreeBuilder(last[1])
    for _ in range(int(rng.integers(12))):
        builder.add(int(rng.integers(len(builder))), int(rng.integers(VOCAB)))
    return builder.build()


class TableDrafter(StepwiseDrafter):
    """Whole distributions from the table `DRAFT`."""

    name = "table"
    vocab_size = VOCAB

    def __init__(self, before: int) -> None:
        self.before = before

    def begin(self, capacity: int) -> None: ...

    def observe(self, observation: Observation) -> None: ...

    def start(self, root: int, k: int) -> Candidates:
        raise NotImplementedError

    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        raise NotImplementedError

    def start_logits(self, root: int) -> torch.Tensor:
        self.tokens = [root]
        return torch.from_numpy(DRAFT[self.before, root]).log().float()[None]

    def expand_logits(self, tokens: Ints, parents: Ints) -> torch.Tensor:
        above = np.array(self.tokens)[parents]
        self.tokens += tokens.tolist()
        return torch.from_numpy(DRAFT[above, tokens]).log().float()


class TableMarginals(OnePassDrafter):
    """One distribution for each position, which looks at the root alone."""

    name = "table marginals"
    vocab_size = VOCAB
    positions = 3

    def begin(self, capacity: int) -> None: ...

    def observe(self, observation: Observation) -> None: ...

    def marginals(self, root: int, k: int) -> Marginals:
        raise NotImplementedError

    def logits(self, root: int) -> torch.Tensor:
        return torch.from_numpy(DRAFT[root, : self.positions]).log().float()


def drawing(sampling: Sampling, one_pass: bool = False, **settings: object) -> Grow:
    """Grows by the strategy `sampled`: up to 12 draws, three levels of up to three, drawn as `sampling` says."""
    chosen = {"budget": 12, "depth": 3, "width": 3, "acceptance": 0.4, "measured": False, **settings}

    def grow(last: tuple[int, int], rng: Rng) -> Growth:
        strategy = make_strategy("sampled", chosen)
        strategy.begin((), sampling, torch.Generator().manual_seed(int(rng.integers(2**62))))
        return strategy.grow(TableMarginals() if one_pass else TableDrafter(last[0]), last[1], max_depth=9)

    return grow


GROWERS: dict[str, Grow] = {g.__name__: g for g in (chain, top_two, wide, sampled, anything)}


def mixed(last: tuple[int, int], rng: Rng) -> Tree:
    """Any of them, another one each round."""
    return list(GROWERS.values())[int(rng.integers(len(GROWERS)))](last, rng)


def sample(verifier: Verifier, grow: Grow, count: int, length: int, seed: int) -> NDArray[np.int64]:
    """`count` continuations `[count, length]` of `START`, each decoded by rounds until it is long enough."""
    tree_rng, rng = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    texts = np.zeros((count, length), np.int64)
    for text in texts:
        tokens = list(START)
        while len(tokens) < 2 + length:
            grown = grow((tokens[-2], tokens[-1]), tree_rng)
            tree, draws = (grown.tree, grown.draws) if isinstance(grown, Growth) else (grown, None)
            before = np.concatenate([[tokens[-2]], tree.token[tree.parent[1:]]])  # the token before each node's own
            logits = TARGET[torch.from_numpy(before.astype(np.int64)), torch.from_numpy(tree.token.astype(np.int64))]
            # Eight rows to a chunk, so that walks cross from one chunk into the next.
            scores = TreeScores.from_logits(logits, chunk_bytes=8 * 4 * VOCAB)
            verdict = verifier.verify(tree, scores, rng, draws)
            tokens += [*tree.token[verdict.path[1:]].tolist(), verdict.bonus]
        text[:] = tokens[2 : 2 + length]
    return texts


def exact(sampling: Sampling, length: int) -> NDArray[np.float64]:
    """Probability of every continuation of `START`, in the order of `itertools.product`."""
    table = probabilities(TARGET.flatten(0, 1), sampling).view(VOCAB, VOCAB, VOCAB).double().numpy()
    result = []
    for text in product(range(VOCAB), repeat=length):
        tokens = START + text
        result.append(np.prod([table[tokens[i], tokens[i + 1], tokens[i + 2]] for i in range(length)]))
    return np.array(result) / np.sum(result)


def p_value(texts: NDArray[np.int64], sampling: Sampling) -> float:
    """How well the counts of whole sequences fit the exact distribution; see `fit_p_value`."""
    return fit_p_value(texts, exact(sampling, texts.shape[1]), VOCAB)


def fit_p_value(texts: NDArray[np.int64], probs: NDArray[np.float64], vocab: int) -> float:
    """Pearson's chi-square of the counts of sequences `[count, length]`; 0 where something impossible came out.

    `probs` are those of all sequences, in the order of `itertools.product`. Sequences expected fewer than 5 times are
    pooled, which keeps the chi-square law a good approximation.
    """
    length = texts.shape[1]
    codes = texts @ (vocab ** np.arange(length - 1, -1, -1))
    return counts_p_value(np.bincount(codes, minlength=len(probs)).astype(np.float64), probs)


def counts_p_value(seen: NDArray[np.float64], probs: NDArray[np.float64]) -> float:
    """As `fit_p_value`, of how often each of all outcomes was `seen`, in the order of `probs`."""
    if seen[probs == 0].any():
        return 0.0
    expected = probs * seen.sum()
    rare = expected < 5
    if expected[rare].sum() > 0:
        seen = np.append(seen[~rare], seen[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    else:
        seen, expected = seen[~rare], expected[~rare]
    statistic = float(((seen - expected) ** 2 / expected).sum())
    half = torch.tensor([(len(expected) - 1) / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))

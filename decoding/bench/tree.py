"""How long it takes to build a DDTree from logits, against a plain build after Algorithm 1, in one run."""

import argparse
import heapq
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoding.layout import Layout, tree_layout
from decoding.marginals import top_marginals
from decoding.strategies.best_first import best_prefixes
from decoding.strategies.ddtree import tree_of
from decoding.tree_mask import TreeMask

BUDGETS = (16, 32, 64, 128, 256, 512, 1024)
KINDS = ("drafter", "sharp", "gaussian")
FRESH = 4
"""Logits of each kind that the rounds take turns with: 36 MB, more than a cache holds."""
PAST = 100
"""Committed positions before the root, for the position ids."""


class Built(NamedTuple):
    """What either build ends with, and how long its second half took."""

    layout: Layout
    score: NDArray[Any]
    """`[nodes - 1]` log-probabilities (nats) of the drafted prefixes."""
    selection_seconds: float
    """Selection, positions and mask: all but the top-k and the normaliser."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--positions", type=int, default=15, help="rows of logits (default 15)")
    parser.add_argument("--vocab", type=int, default=151_936, help="columns of logits (default 151936, Qwen3)")
    parser.add_argument("--budgets", type=int, nargs="+", default=list(BUDGETS), help="node budgets")
    parser.add_argument("--repeats", type=int, default=60, help="timed builds of each sort and budget (default 60)")
    parser.add_argument("--threads", type=int, default=2, help="threads for torch and for our build (default 2)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the logits (default 0)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="kinds of logits; first leads")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Medians in milliseconds; `rows` are those of the first kind of logits, `other_kinds` hold the rest."""
    threads_before = torch.get_num_threads()
    torch.set_num_threads(args.threads)
    try:
        tables = {}
        for kind in args.kinds:
            rng = np.random.default_rng(args.seed)
            batch = [realistic_logits(kind, args.positions, args.vocab, rng) for _ in range(FRESH)]
            tables[kind] = [_measure(batch, budget, args.repeats, kind) for budget in args.budgets]
    finally:
        torch.set_num_threads(threads_before)
    first, *others = args.kinds
    return {
        "benchmark": "tree",
        "kind": first,
        "rows": tables[first],
        "other_kinds": {kind: tables[kind] for kind in others},
        "worst_ratio": max(row["ratio"] for table in tables.values() for row in table),
        "positions": args.positions,
        "vocab": args.vocab,
        "repeats": args.repeats,
        "threads": args.threads,
        "seed": args.seed,
        "versions": {"torch": torch.__version__, "numpy": np.__version__},
    }


def realistic_logits(kind: str, positions: int, vocab: int, rng: np.random.Generator) -> Tensor:
    """`[positions, vocab]` float32. `gaussian` is noise alone, far flatter than any drafter.

    The others put a head of 300 tokens on a body of noise, its logits falling with the logarithm of the rank as word
    frequencies do. `drafter` is peaked at early positions and flatter at later ones; `sharp` is sure at most of them.
    """
    if kind == "gaussian":
        return torch.from_numpy(rng.standard_normal((positions, vocab), dtype=np.float32) * 3)
    logits = rng.standard_normal((positions, vocab), dtype=np.float32) * 2
    head = min(300, vocab)
    fall = np.log(np.arange(1, head + 1))
    for row, progress in zip(logits, np.linspace(0, 1, positions), strict=True):
        slope = 2.6 - 1.4 * progress if kind == "drafter" else 4.0 - 1.0 * progress
        heights = 18 - 4 * progress - slope * fall + 0.5 * rng.standard_normal(head)
        row[rng.choice(vocab, head, replace=False)] = heights
    return torch.from_numpy(logits)


def _measure(batch: list[Tensor], budget: int, repeats: int, kind: str) -> dict[str, Any]:
    builds: dict[str, Callable[[Tensor], Built]] = {
        "ours": OurBuild(budget),
        "plain": PlainBuild(budget),
    }
    total: dict[str, list[float]] = {name: [] for name in builds}
    selection: dict[str, list[float]] = {name: [] for name in builds}
    for turn in range(-2, repeats):  # two to warm up
        logits = batch[turn % len(batch)]
        # Each build goes first every other time, so that neither always finds the logits in the cache.
        built = {}
        for name in sorted(builds, reverse=turn % 2 == 0):
            start = time.perf_counter()
            built[name] = builds[name](logits)
            if turn >= 0:
                total[name].append(time.perf_counter() - start)
                selection[name].append(built[name].selection_seconds)
        if turn < 0:
            _require_same_value(built["ours"], built["plain"])
    row: dict[str, Any] = {"budget": budget}
    for name in builds:
        row[f"{name}_ms"] = round(statistics.median(total[name]) * 1e3, 4)
        row[f"{name}_selection_ms"] = round(statistics.median(selection[name]) * 1e3, 4)
    row["ratio"] = round(row["ours_ms"] / row["plain_ms"], 4)
    row["selection_ratio"] = round(row["ours_selection_ms"] / row["plain_selection_ms"], 4)
    print(f"{kind} {row}", file=sys.stderr, flush=True)
    return row


def _require_same_value(ours: Built, plain: Built) -> None:
    """Both builds must reach the optimum: equal scores, up to the float32 normaliser."""
    if len(ours.score) != len(plain.score) or not np.allclose(ours.score, plain.score, rtol=0, atol=1e-4):
        raise RuntimeError("the two builds disagree on the tree")


class OurBuild:
    """The build that `DDTree.grow` and the layout run."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.mask = TreeMask(budget + 1, PAST + budget + 1, torch.float32, torch.device("cpu"))

    def __call__(self, logits: Tensor) -> Built:
        marginals = top_marginals(logits, self.budget)
        start = time.perf_counter()
        prefixes = best_prefixes(marginals.logprob, self.budget)
        tree = tree_of(0, marginals, prefixes)
        layout = tree_layout(tree, PAST, (None,), self.mask)
        return Built(layout, prefixes.score, time.perf_counter() - start)


class PlainBuild:
    """Algorithm 1 as written: topk, logsumexp, a heap of rank tuples, visibility copied row by row."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.mask = torch.zeros(budget + 1, PAST + budget + 1)  # reused, as ours is

    def __call__(self, logits: Tensor) -> Built:
        top = torch.topk(logits, min(self.budget, logits.shape[1]), dim=-1)
        logprob = (top.values - torch.logsumexp(logits, dim=-1, keepdim=True)).cpu().numpy()
        token_at = top.indices.cpu().numpy()
        start = time.perf_counter()
        positions, width = logprob.shape
        table = logprob.tolist()
        tokens, parents, depth = [0], [-1], [0]
        scores: list[float] = []
        node_of: dict[tuple[int, ...], int] = {(): 0}
        heap: list[tuple[float, tuple[int, ...]]] = [(-table[0][0], (0,))]
        while heap and len(scores) < self.budget:
            cost, ranks = heapq.heappop(heap)
            last, rank = len(ranks) - 1, ranks[-1]
            node_of[ranks] = len(tokens)
            parents.append(node_of[ranks[:-1]])
            tokens.append(int(token_at[last, rank]))
            depth.append(last + 1)
            scores.append(-cost)
            if rank + 1 < width:
                sibling = cost + table[last][rank] - table[last][rank + 1]
                heapq.heappush(heap, (sibling, (*ranks[:-1], rank + 1)))
            if last + 1 < positions:
                heapq.heappush(heap, (cost - table[last + 1][0], (*ranks, 0)))
        count = len(tokens)
        visible = np.zeros((count, count), np.bool_)
        visible[0, 0] = True
        for node in range(1, count):
            visible[node, :node] = visible[parents[node], :node]
            visible[node, node] = True
        mask = self.mask[:count, : PAST + count]
        mask[:, PAST:].fill_(float("-inf")).masked_fill_(torch.from_numpy(visible), 0.0)
        places = torch.from_numpy(PAST + np.array(depth))
        layout = Layout(torch.tensor(tokens)[None], places[None], {None: mask[None, None]})
        return Built(layout, np.array(scores), time.perf_counter() - start)

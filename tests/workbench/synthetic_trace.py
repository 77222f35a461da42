"""Traces of any size for tests and benchmarks of the page: made up, but valid and consistent in themselves."""

import heapq
from pathlib import Path
from typing import Any

import numpy as np

from decoding.metrics import run_metrics
from decoding.trace import TraceEncoder, dump_line
from decoding.types import Marginals, Round, RunHeader, Source, Summary, Tree, Verdict

VOCAB = 600
POSITIONS = 8
RANKS = 64
TOP = 8
SYLLABLES = (
    "ca",
    "no",
    "py",
    "leaf",
    "root",
    "bark",
    "wind",
    "seed",
    "moss",
    "fern",
    "dew",
    "sun",
    "sky",
    "rain",
    "soil",
)


def piece(token: int) -> str:
    """The text of a made-up token."""
    return " " + SYLLABLES[token % len(SYLLABLES)] + SYLLABLES[token // len(SYLLABLES) % len(SYLLABLES)]


def synthetic_lines(rounds: int, nodes: int, seed: int = 0) -> list[dict[str, Any]]:
    """The lines of a run: `rounds` trees of `nodes` drafted nodes each, a fifth of them retrieved."""
    rng = np.random.default_rng(seed)
    encoder = TraceEncoder(piece)
    root, length, made = 1, 20, []
    for index in range(rounds):
        made.append(_round(rng, index, root, length, nodes))
        root, length = made[-1].emitted[-1], made[-1].cache_after
    metrics = run_metrics(made, 0.3, sum(sum(item.seconds.values()) for item in made), 2**30)
    output = (1, *(token for item in made for token in item.emitted))
    summary = Summary(output, "".join(map(piece, output)), "length", metrics)
    return [encoder.encode(event) for event in (_header(len(output)), *made, summary)]


def write_synthetic(path: Path, rounds: int, nodes: int, seed: int = 0) -> Path:
    """The same as a trace file."""
    path.write_text("\n".join(map(dump_line, synthetic_lines(rounds, nodes, seed))) + "\n", encoding="utf-8")
    return path


def _header(new_tokens: int) -> RunHeader:
    return RunHeader(
        target="synthetic-target", drafter="synthetic-drafter", strategy="ddtree", settings={}, verifier="greedy",
        prompt="A made-up prompt.", prompt_ids=(3, 4, 5), tokenizer="synthetic", max_new_tokens=new_tokens,
        temperature=0.0, top_p=1.0, top_k=0, seed=0, dtype="float32", device="cpu", cache="preallocated", end_ids=(0,),
        first_token=1, first_text=piece(1), prefill_seconds=0.3, created="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


def _round(rng: np.random.Generator, index: int, root: int, length: int, nodes: int) -> Round:
    marginals = _marginals(rng)
    tree = _best_first(rng, marginals, root, nodes)
    verdict = _verdict(rng, tree)
    emitted = (*tree.token[verdict.path[1:]].tolist(), verdict.bonus)
    stages = {"draft": 0.01, "build": 0.001, "compile": 0.001, "verify": 0.04, "walk": 0.002, "commit": 0.002}
    seconds = {name: usual * float(rng.uniform(0.8, 1.4)) for name, usual in stages.items()}
    return Round(
        index, tree, verdict, emitted, tuple(map(piece, emitted)), length, length + len(emitted), seconds, marginals
    )


def _marginals(rng: np.random.Generator) -> Marginals:
    token = np.array([1 + rng.choice(VOCAB - 1, RANKS, replace=False) for _ in range(POSITIONS)])
    share = np.sort(rng.dirichlet(np.full(RANKS, 0.12), POSITIONS) + 1e-6)[:, ::-1]
    return Marginals(token, np.log(share / (share.sum(1, keepdims=True) * 1.02)))


def _best_first(rng: np.random.Generator, marginals: Marginals, root: int, nodes: int) -> Tree:
    """DDTree's order: pop the likeliest prefix, push its next sibling and its first child."""
    token, parent, logprob = [root], [-1], [0.0]
    heap = [(-float(marginals.logprob[0, 0]), 0, 0, 0)]  # cost, parent, position, rank
    while heap and len(token) <= nodes:
        cost, above, position, rank = heapq.heappop(heap)
        edge = float(marginals.logprob[position, rank])
        token.append(int(marginals.token[position, rank]))
        parent.append(above)
        logprob.append(edge)
        if rank + 1 < RANKS:
            heapq.heappush(
                heap, (cost + edge - float(marginals.logprob[position, rank + 1]), above, position, rank + 1)
            )
        if position + 1 < POSITIONS:
            below = float(marginals.logprob[position + 1, 0])
            heapq.heappush(heap, (cost - below, len(token) - 1, position + 1, 0))
    source = np.where(rng.random(len(token)) < 0.2, Source.RETRIEVAL, Source.DRAFT)
    source[0] = Source.ROOT
    return Tree(np.array(token), np.array(parent), np.array(logprob), source)


def _verdict(rng: np.random.Generator, tree: Tree) -> Verdict:
    """A target that takes each node's first child more often than not; every other choice is not in the tree."""
    count = len(tree)
    top_logprob = np.log(np.sort(rng.dirichlet(np.full(TOP, 0.4), count) * 0.95 + 1e-6)[:, ::-1])
    top_token = np.stack([VOCAB + rng.permutation(VOCAB)[:TOP] for _ in range(count)])  # none is drafted as yet
    first = np.full(count, -1)
    for node in range(count - 1, 0, -1):
        first[tree.parent[node]] = node
    for node in np.flatnonzero(first > 0):
        top_token[node, 0 if rng.random() < 0.62 else 1] = tree.token[first[node]]
    path = [0]
    while first[path[-1]] > 0 and top_token[path[-1], 0] == tree.token[first[path[-1]]]:
        path.append(int(first[path[-1]]))
    logprob, rank = np.full(count, -9.0), np.full(count, TOP + 1)
    for node in range(1, count):
        place = np.flatnonzero(top_token[tree.parent[node]] == tree.token[node])
        if len(place):
            logprob[node], rank[node] = top_logprob[tree.parent[node], place[0]], place[0] + 1
    logprob[0], rank[0] = 0.0, 0
    entropy = -(np.exp(top_logprob) * top_logprob).sum(1)
    return Verdict(
        np.array(path), int(top_token[path[-1], 0]), logprob, rank, top_token[:, 0], entropy, top_token, top_logprob
    )

"""Fills a template with draws from a drafter's distributions."""

from collections.abc import Callable
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decoding.drafters.base import Drafter, OnePassDrafter, StepwiseDrafter
from decoding.drafters.candidates import best_candidates
from decoding.drafters.draft_tokens import in_target_ids
from decoding.draws import Drawn, Draws
from decoding.errors import Incompatible
from decoding.marginals import top_marginals
from decoding.sampling import (
    Sampling,
    draw_each,
    draw_with_replacement,
    draw_without_replacement,
    probabilities,
)
from decoding.template import Template
from decoding.tree import TreeBuilder
from decoding.types import Floats, Ints, Marginals, Source, Tree

SHOWN_MARGINALS = 8
"""How many tokens of each position are kept to be looked at."""


class _Rows(NamedTuple):
    """What is drawn from: a row for each of some nodes, or of some positions."""

    logits: Tensor
    """`[rows, tokens]`."""
    normaliser: Tensor
    """`[rows, 1]` log of the sum of their exponentials (nats)."""
    probs: Tensor
    """`[rows, tokens]` in the run's sampling."""


class _Candidates(NamedTuple):
    """What was drawn below some nodes of one depth, those of a node in the order of its draws."""

    token: list[list[int]]
    """Counted among those that the drafter drafts with; -1 where nothing was left to draw."""
    logprob: list[list[float]]
    """At temperature 1."""
    probs: Tensor
    """`[nodes, tokens]` what was drawn from, or `[1, tokens]` for all of them."""


Ask = Callable[[list[int], list[int]], _Candidates | None]
"""Nodes to expand, all of one depth, and their places in the template, to what was drawn below them."""


class DrawnTree(NamedTuple):
    tree: Tree
    draws: Draws | None
    """None where nothing was drawn."""
    marginals: Marginals | None
    """Those of a one-pass drafter."""


@torch.inference_mode()
def draw_tree(
    drafter: Drafter, root: int, template: Template, sampling: Sampling, drawn: Drawn, rng: torch.Generator
) -> DrawnTree:
    """The template's k-th child of a node is the k-th draw below it; there is one below its root at least.

    What is drawn is copied to the host at once over a one-pass drafter, and depth by depth over a stepwise one.
    Independent draws of one token make one node, which has the descendants that the template gives to the first of
    them. A node has fewer children than the template asks for where its distribution holds fewer tokens or, over a
    stepwise drafter, where the drafter's own context is full.

    Raises NonFiniteLogits, and Incompatible for a drafter without whole distributions.
    """
    builder, how = TreeBuilder(root), _How(sampling, drawn, rng)
    marginals, draft_tokens = None, None
    if isinstance(drafter, OnePassDrafter):
        logits, draft_tokens = drafter.logits(root), drafter.draft_tokens
        best = top_marginals(logits, SHOWN_MARGINALS)
        marginals = in_target_ids(best, draft_tokens)
        normaliser = _normaliser(logits, best.token, best.logprob)
        ask = _one_pass(_Rows(logits, normaliser, probabilities(logits, sampling)), template, how)
    elif isinstance(drafter, StepwiseDrafter):
        ask = _stepwise(drafter, builder, template, how)
    else:
        raise Incompatible("Nothing can be drawn without a drafter.", "Choose one with log-probabilities.")
    filling = _Filling(builder, drafter.source, draft_tokens)
    filling.fill(template.below, ask)
    return DrawnTree(builder.build(), filling.draws(drawn), marginals)


class _How(NamedTuple):
    """What decides how is drawn."""

    sampling: Sampling
    drawn: Drawn
    rng: torch.Generator

    def draw(self, probs: Tensor, count: int) -> Tensor:
        """Tokens `[places, count]` from `probs` `[places, tokens]`; -1 where nothing is left."""
        draw = draw_with_replacement if self.drawn is Drawn.INDEPENDENT else draw_without_replacement
        return draw(probs, count, self.rng)


def _one_pass(rows: _Rows, template: Template, how: _How) -> Ask:
    """Every inner place of the template draws for itself, also one whose node comes to nothing."""
    levels = template.inner[: len(rows.probs)]
    counts = [_most_children(template, level) for level in levels]
    shapes = [(len(level), count) for level, count in zip(levels, counts, strict=True)]
    drawn = draw_each(rows.probs[: len(levels)], shapes, how.drawn is Drawn.DISTINCT, how.rng)
    each = [count for nodes, count in shapes for _ in range(nodes)]
    token, logprob = _on_host(rows, drawn, [depth for depth, level in enumerate(levels) for _ in level], each)
    number = {place: number for number, place in enumerate(chain.from_iterable(levels))}
    positions = iter(rows.probs.split(1))

    def ask(_: list[int], places: list[int]) -> _Candidates | None:
        probs = next(positions, None)
        if probs is None:
            return None
        return _Candidates([token[number[p]] for p in places], [logprob[number[p]] for p in places], probs)

    return ask


def _stepwise(drafter: StepwiseDrafter, builder: TreeBuilder, template: Template, how: _How) -> Ask:
    number: dict[int, int] = {}  # node -> the drafter's own numbering, in which only expanded nodes count

    def ask(nodes: list[int], places: list[int]) -> _Candidates | None:
        above = [number[builder.parent[node]] for node in nodes if node]
        number.update({node: len(number) + place for place, node in enumerate(nodes)})
        if nodes == [0]:
            logits = drafter.start_logits(builder.token[0])
        else:
            tokens = [builder.token[node] for node in nodes]
            logits = drafter.expand_logits(np.array(tokens, np.int32), np.array(above, np.int32))
        if logits is None:
            return None
        best = best_candidates(logits, 1, drafter.name)
        rows = _Rows(logits, _normaliser(logits, best.token, best.logprob), probabilities(logits, how.sampling))
        count = _most_children(template, places)
        drawn = how.draw(rows.probs, count).flatten()
        found = _on_host(rows, drawn, list(range(len(nodes))), [count] * len(nodes))
        return _Candidates(*found, rows.probs)

    return ask


def _most_children(template: Template, places: list[int]) -> int:
    return max(len(template.below[place]) for place in places)


def _on_host(
    rows: _Rows, token: Tensor, row: list[int], counts: list[int]
) -> tuple[list[list[int]], list[list[float]]]:
    """Tokens and log-probabilities at temperature 1 of all nodes, for all `token`s drawn, in one row.

    `row` `[all nodes]` says which of the `rows` a node's candidates were drawn from, `counts` how many.
    """
    at = torch.from_numpy(np.repeat(row, counts)).to(token.device)
    logprob = (rows.logits[at, token.clamp_min(0)] - rows.normaliser[at, 0]).clamp_max_(0.0)
    packed = torch.stack([token.to(torch.int32), logprob.view(torch.int32)]).cpu().numpy()
    tokens, logprobs = packed[0].tolist(), packed[1].view(np.float32).tolist()
    parts = [slice(*ends) for ends in pairwise(accumulate(counts, initial=0))]
    return [tokens[part] for part in parts], [logprobs[part] for part in parts]


def _one_below_another(parts: list[Tensor]) -> Tensor:
    if parts[0].device.type == "cpu":
        return torch.from_numpy(np.concatenate([part.numpy() for part in parts]))  # numpy keeps to this thread
    return torch.cat(parts)


def _normaliser(logits: Tensor, token: Ints, logprob: Floats) -> Tensor:
    """Of `_Rows`, from the most likely token of every row and its log-probability, `[rows, any]` each."""
    peak = torch.tensor(token[:, :1], dtype=torch.int64, device=logits.device)
    return logits.gather(1, peak) - torch.tensor(logprob[:, :1], device=logits.device)


class _Filling:
    """A sampled tree in the making."""

    def __init__(self, builder: TreeBuilder, source: Source, draft_tokens: Ints | None) -> None:
        self.builder = builder
        self.source = source
        self.draft_tokens = draft_tokens
        self.nodes: list[int] = []
        self.probs: list[Tensor] = []
        self.row: dict[int, int] = {}

    def fill(self, below: list[list[int]], ask: Ask) -> None:
        frontier = {0: 0}  # node -> its place in the template
        while frontier := {node: place for node, place in frontier.items() if below[place]}:
            found = ask(list(frontier), list(frontier.values()))
            if found is None:
                return
            self._remember(found.probs, list(frontier))
            following: dict[int, int] = {}
            for (node, place), tokens, logprobs in zip(frontier.items(), found.token, found.logprob, strict=True):
                for child_place, drawn, logprob in zip(below[place], tokens, logprobs, strict=False):
                    if drawn < 0:
                        break
                    token = drawn if self.draft_tokens is None else int(self.draft_tokens[drawn])
                    child = self.builder.add(node, token, logprob, self.source)
                    self.nodes.append(child)
                    following.setdefault(child, child_place)
            frontier = following

    def _remember(self, probs: Tensor, nodes: list[int]) -> None:
        first = sum(map(len, self.probs))
        self.probs.append(probs)
        self.row |= {node: first + (place if len(probs) > 1 else 0) for place, node in enumerate(nodes)}

    def draws(self, drawn: Drawn) -> Draws | None:
        if not self.nodes:
            return None
        row = np.full(len(self.builder), -1, np.int32)
        row[list(self.row)] = list(self.row.values())
        return Draws(drawn, np.array(self.nodes), _one_below_another(self.probs), row, self.draft_tokens)

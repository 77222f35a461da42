"""Fills a template with draws from a drafter's distributions."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decoding.drafters.base import Drafter, OnePassDrafter, StepwiseDrafter
from decoding.drafters.candidates import require_finite
from decoding.draws import Drawn, Draws
from decoding.errors import Incompatible
from decoding.kernels.drawing import NO_IDS, tell_draws
from decoding.kernels.filling import Growing, Numbers, fill_level, fill_tree
from decoding.marginals import marginals_of
from decoding.sampling import (
    Sampling,
    UniformNumbers,
    draw_each,
    draw_with_replacement,
    draw_without_replacement,
    probabilities,
)
from decoding.template import Template
from decoding.topk import Likeliest, likeliest
from decoding.types import Floats, Ints, Marginals, Source, Tree

SHOWN_MARGINALS = 8
"""How many tokens of each position are kept to be looked at."""


class _Rows(NamedTuple):
    """What is drawn from: a row for each of some nodes, or of some positions."""

    logits: Tensor
    """`[rows, tokens]`."""
    normaliser: Floats
    """`[rows]` log of the sum of their exponentials (nats)."""
    probs: Tensor
    """`[rows, tokens]` in the run's sampling."""


class DrawnTree(NamedTuple):
    tree: Tree
    draws: Draws | None
    """None where nothing was drawn."""
    marginals: Marginals | None
    """Those of a one-pass drafter."""


@torch.inference_mode()
def draw_tree(
    drafter: Drafter, root: int, template: Template, sampling: Sampling, drawn: Drawn, numbers: UniformNumbers
) -> DrawnTree:
    """The template's k-th child of a node is the k-th draw below it; there is one below its root at least.

    What is drawn is copied to the host at once over a one-pass drafter, and depth by depth over a stepwise one.
    Independent draws of one token make one node, which has the descendants that the template gives to the first of
    them. A node has fewer children than the template asks for where its distribution holds fewer tokens or, over a
    stepwise drafter, where the drafter's own context is full.

    Raises NonFiniteLogits, and Incompatible for a drafter without whole distributions.
    """
    filling, how = _Filling(root, template, drafter.source), _How(sampling, drawn, numbers)
    if isinstance(drafter, OnePassDrafter):
        marginals = _fill_at_once(filling, drafter, template, how)
        return DrawnTree(filling.tree(), filling.draws(drawn, drafter.draft_tokens), marginals)
    if isinstance(drafter, StepwiseDrafter):
        _fill_by_depth(filling, drafter, template, how)
        return DrawnTree(filling.tree(), filling.draws(drawn, None), None)
    raise Incompatible("Nothing can be drawn without a drafter.", "Choose one with log-probabilities.")


class _How(NamedTuple):
    """What decides how is drawn."""

    sampling: Sampling
    drawn: Drawn
    numbers: UniformNumbers

    def draw(self, probs: Tensor, count: int) -> Tensor:
        """Tokens `[places, count]` from `probs` `[places, tokens]`; -1 where nothing is left."""
        draw = draw_with_replacement if self.drawn is Drawn.INDEPENDENT else draw_without_replacement
        return draw(probs, count, self.numbers.rng)


def _fill_at_once(filling: "_Filling", drafter: OnePassDrafter, template: Template, how: _How) -> Marginals:
    """Every place of the template that has children draws for itself, also one whose node comes to nothing."""
    logits, best, probs, mass = drafter.distributions(filling.root, SHOWN_MARGINALS, how.sampling)
    marginals = marginals_of(best, drafter.draft_tokens)
    shapes, first, depth, row = template.drawing
    shapes = shapes[: len(best.peak)]
    rows = _Rows(logits, _normaliser(best), probs)
    drawn = draw_each(rows.probs, shapes, how.drawn is Drawn.DISTINCT, how.numbers, mass)
    token, logprob = _on_host(rows, drawn, row, drafter.draft_tokens)
    fill_tree(filling.growing, filling.shape, first, token, logprob)
    position = depth[filling.growing.place]
    filling.rows_are(rows.probs, np.where(position < len(shapes), position, -1))
    return marginals


def _fill_by_depth(filling: "_Filling", drafter: StepwiseDrafter, template: Template, how: _How) -> None:
    number: dict[int, int] = {}  # node -> the drafter's own numbering, in which only expanded nodes count
    counts, growing = np.diff(template.shape.start), filling.growing
    row, level = np.full(len(template), -1, np.int32), np.zeros(1, np.int64)
    probs: list[Tensor] = []
    while len(level := level[counts[growing.place[level]] > 0]):
        token = growing.token[level]
        above = [number[parent] for parent in growing.parent[level].tolist() if parent >= 0]
        number.update({node: len(number) + place for place, node in enumerate(level.tolist())})
        if not above:
            logits = drafter.start_logits(int(token[0]))
        else:
            logits = drafter.expand_logits(token, np.array(above, np.int32))
        if logits is None:
            break
        best = likeliest(logits, 1)
        require_finite(best, drafter.name)
        rows = _Rows(logits, _normaliser(best), probabilities(logits, how.sampling))
        shape = len(level), int(counts[growing.place[level]].max())
        drawn = how.draw(rows.probs, shape[1]).flatten()
        tokens, logprobs = _on_host(rows, drawn, np.repeat(np.arange(len(level)), shape[1]), None)
        row[level] = sum(map(len, probs)) + np.arange(len(level))
        probs.append(rows.probs)
        before = growing.size[0]
        fill_level(growing, filling.shape, level, tokens.reshape(shape), logprobs.reshape(shape))
        level = np.arange(before, growing.size[0])
    if probs:
        filling.rows_are(_one_below_another(probs), row)


def _on_host(rows: _Rows, drawn: Tensor, row: Numbers, ids: Ints | None) -> tuple[Ints, Floats]:
    """Tokens `[draws]`, of the columns `drawn` from the rows `row` `[draws or more]`, and their log-probabilities at
    temperature 1; -1 where nothing was left. The columns stand for the tokens `ids`, or for themselves."""
    row = row[: len(drawn)]
    if drawn.device.type == "cpu":  # numpy keeps to this thread
        return tell_draws(drawn.numpy(), row, rows.logits.numpy(), rows.normaliser, NO_IDS if ids is None else ids)
    at, normaliser = torch.from_numpy(row).to(drawn.device), torch.from_numpy(rows.normaliser).to(drawn.device)
    logprob = (rows.logits[at, drawn.clamp_min(0)] - normaliser[at]).clamp_max_(0.0)
    token, said = torch.stack([drawn.to(torch.int32), logprob.view(torch.int32)]).cpu().numpy()
    return token if ids is None else np.where(token < 0, -1, ids[token]), said.view(np.float32)


def _one_below_another(parts: list[Tensor]) -> Tensor:
    if parts[0].device.type == "cpu":
        return torch.from_numpy(np.concatenate([part.numpy() for part in parts]))  # numpy keeps to this thread
    return torch.cat(parts)


def _normaliser(best: Likeliest) -> Floats:
    """Of `_Rows`."""
    return best.peak - best.logprob[:, 0]


class _Filling:
    """A sampled tree in the making."""

    def __init__(self, root: int, template: Template, source: Source) -> None:
        room = len(template)
        self.growing = Growing(
            token=np.full(room, root, np.int32),
            parent=np.full(room, -1, np.int32),
            logprob=np.zeros(room, np.float32),
            place=np.zeros(room, np.int64),
            drawn=np.zeros(room, np.int32),
            size=np.array([1, 0]),
        )
        self.root = root
        self.shape = template.shape
        self.source = source
        self._probs: Tensor | None = None
        self._row = self.growing.drawn

    def rows_are(self, probs: Tensor, row: Ints) -> None:
        """As in `Draws`, for all nodes that there is room for."""
        self._probs, self._row = probs, row

    def tree(self) -> Tree:
        growing, count = self.growing, int(self.growing.size[0])
        source = np.full(count, self.source, np.uint8)
        source[0] = Source.ROOT
        return Tree(growing.token[:count], growing.parent[:count], growing.logprob[:count], source)

    def draws(self, drawn: Drawn, draft_tokens: Ints | None) -> Draws | None:
        nodes, draws = self.growing.size.tolist()
        if self._probs is None or not draws:
            return None
        return Draws(drawn, self.growing.drawn[:draws], self._probs, self._row[:nodes], draft_tokens)

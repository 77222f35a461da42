"""Fills a template with draws from a drafter's distributions."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decoding.drafters.base import Drafter, OnePassDrafter, StepwiseDrafter
from decoding.drafters.candidates import best_candidates
from decoding.drafters.draft_tokens import in_target_ids
from decoding.draws import Drawn, Draws
from decoding.errors import Incompatible
from decoding.kernels.filling import Growing, Numbers, fill_level
from decoding.marginals import marginals_of
from decoding.sampling import (
    Sampling,
    draw_each,
    draw_with_replacement,
    draw_without_replacement,
    probabilities,
)
from decoding.template import Template
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

    token: Ints
    """`[nodes, most]`; -1 where nothing was left to draw."""
    logprob: Floats
    """`[nodes, most]` at temperature 1."""
    probs: Tensor
    """`[nodes, tokens]` what was drawn from, or `[1, tokens]` for all of them."""


Ask = Callable[[Numbers, Numbers], _Candidates | None]
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
    filling, how = _Filling(root, template, drafter.source), _How(sampling, drawn, rng)
    marginals, draft_tokens = None, None
    if isinstance(drafter, OnePassDrafter):
        draft_tokens = drafter.draft_tokens
        logits, best = drafter.read_logits(root, SHOWN_MARGINALS)
        marginals = in_target_ids(marginals_of(best), draft_tokens)
        normaliser = torch.from_numpy((best.peak - best.logprob[:, 0])[:, None]).to(logits.device)
        ask = _one_pass(_Rows(logits, normaliser, probabilities(logits, sampling)), template, how, draft_tokens)
    elif isinstance(drafter, StepwiseDrafter):
        ask = _stepwise(drafter, filling, template, how)
    else:
        raise Incompatible("Nothing can be drawn without a drafter.", "Choose one with log-probabilities.")
    filling.fill(ask)
    return DrawnTree(filling.tree(), filling.draws(drawn, draft_tokens), marginals)


class _How(NamedTuple):
    """What decides how is drawn."""

    sampling: Sampling
    drawn: Drawn
    rng: torch.Generator

    def draw(self, probs: Tensor, count: int) -> Tensor:
        """Tokens `[places, count]` from `probs` `[places, tokens]`; -1 where nothing is left."""
        draw = draw_with_replacement if self.drawn is Drawn.INDEPENDENT else draw_without_replacement
        return draw(probs, count, self.rng)


def _one_pass(rows: _Rows, template: Template, how: _How, draft_tokens: Ints | None) -> Ask:
    """Every inner place of the template draws for itself, also one whose node comes to nothing."""
    levels = template.inner[: len(rows.probs)]
    shapes = [(len(level.nodes), level.most) for level in levels]
    drawn = draw_each(rows.probs[: len(levels)], shapes, how.drawn is Drawn.DISTINCT, how.rng)
    sizes = [nodes * most for nodes, most in shapes]
    token, logprob = _on_host(rows, drawn, np.repeat(np.arange(len(levels)), sizes))
    if draft_tokens is not None:
        token = np.where(token < 0, -1, draft_tokens[token])
    ends = np.cumsum(sizes[:-1])
    parts = zip(levels, shapes, np.split(token, ends), np.split(logprob, ends), rows.probs.split(1), strict=False)

    def ask(_: Numbers, place: Numbers) -> _Candidates | None:
        found = next(parts, None)
        if found is None:
            return None
        level, shape, tokens, logprobs, probs = found
        at = np.searchsorted(level.nodes, place)
        return _Candidates(tokens.reshape(shape)[at], logprobs.reshape(shape)[at], probs)

    return ask


def _stepwise(drafter: StepwiseDrafter, filling: "_Filling", template: Template, how: _How) -> Ask:
    number: dict[int, int] = {}  # node -> the drafter's own numbering, in which only expanded nodes count
    counts = np.diff(template.shape.start)

    def ask(node: Numbers, place: Numbers) -> _Candidates | None:
        token, parent = filling.growing.token[node], filling.growing.parent[node]
        above = [number[parent] for parent in parent.tolist() if parent >= 0]
        number.update({node: len(number) + place for place, node in enumerate(node.tolist())})
        if not above:
            logits = drafter.start_logits(int(token[0]))
        else:
            logits = drafter.expand_logits(token, np.array(above, np.int32))
        if logits is None:
            return None
        best = best_candidates(logits, 1, drafter.name)
        rows = _Rows(logits, _normaliser(logits, best.token, best.logprob), probabilities(logits, how.sampling))
        shape = len(node), int(counts[place].max())
        drawn = how.draw(rows.probs, shape[1]).flatten()
        tokens, logprobs = _on_host(rows, drawn, np.repeat(np.arange(len(node)), shape[1]))
        return _Candidates(tokens.reshape(shape), logprobs.reshape(shape), rows.probs)

    return ask


def _on_host(rows: _Rows, token: Tensor, row: Numbers) -> tuple[Ints, Floats]:
    """Tokens `[draws]` that were drawn from the rows `row` `[draws]`, with their log-probabilities at temperature 1."""
    if token.device.type == "cpu":  # numpy keeps to this thread
        drawn, place = token.numpy().astype(np.int32), np.maximum(token.numpy(), 0)
        said: Floats = rows.logits.numpy()[row, place] - rows.normaliser.numpy()[row, 0]
        return drawn, np.minimum(said, 0.0, dtype=np.float32)
    at = torch.from_numpy(row).to(token.device)
    logprob = (rows.logits[at, token.clamp_min(0)] - rows.normaliser[at, 0]).clamp_max_(0.0)
    packed = torch.stack([token.to(torch.int32), logprob.view(torch.int32)]).cpu().numpy()
    return packed[0], packed[1].view(np.float32)


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

    def __init__(self, root: int, template: Template, source: Source) -> None:
        room = len(template)
        self.growing = Growing(
            token=np.full(room, root, np.int32),
            parent=np.full(room, -1, np.int32),
            logprob=np.zeros(room, np.float32),
            drawn=np.zeros(room, np.int32),
            size=np.array([1, 0]),
        )
        self.shape = template.shape
        self.source = source
        self.probs: list[Tensor] = []
        self.row = np.full(room, -1, np.int32)

    def fill(self, ask: Ask) -> None:
        node = place = np.zeros(1, np.int64)
        following = np.empty((2, len(self.row)), np.int64)
        while len(node) and (found := ask(node, place)) is not None:
            self.row[node] = sum(map(len, self.probs)) + (np.arange(len(node)) if len(found.probs) > 1 else 0)
            self.probs.append(found.probs)
            count = fill_level(self.growing, self.shape, node, place, found.token, found.logprob, following)
            node, place = following[:, :count].copy()

    def tree(self) -> Tree:
        growing, count = self.growing, int(self.growing.size[0])
        source = np.full(count, self.source, np.uint8)
        source[0] = Source.ROOT
        return Tree(growing.token[:count], growing.parent[:count], growing.logprob[:count], source)

    def draws(self, drawn: Drawn, draft_tokens: Ints | None) -> Draws | None:
        nodes, draws = self.growing.size.tolist()
        if not draws:
            return None
        probs = _one_below_another(self.probs)
        return Draws(drawn, self.growing.drawn[:draws], probs, self.row[:nodes], draft_tokens)

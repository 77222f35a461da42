"""Fills a template with draws from a drafter's distributions, depth by depth."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decoding.drafters.base import Drafter, OnePassDrafter, StepwiseDrafter
from decoding.draws import Drawn, Draws
from decoding.errors import Incompatible, NonFiniteLogits
from decoding.marginals import top_marginals
from decoding.sampling import Sampling, draw_with_replacement, draw_without_replacement, probabilities
from decoding.template import Template
from decoding.tree import TreeBuilder, children
from decoding.types import Floats, Ints, Marginals, Tree

SHOWN_MARGINALS = 8
"""How many tokens of each position are kept to be looked at."""

Ask = Callable[[list[int]], Tensor | None]
"""Nodes to expand, all of one depth, to the logits below them: `[nodes, vocab]`, or one row for all of them."""


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
    """The template's k-th child of a node is the k-th draw below it; one copy to the host for each depth.

    Independent draws of one token make one node, which has the descendants that the template gives to the first of
    them. A node has fewer children than the template asks for where its distribution holds fewer tokens or, over a
    stepwise drafter, where the drafter's own context is full.

    Raises NonFiniteLogits, and Incompatible for a drafter without whole distributions.
    """
    filling = _Filling(drafter, root, sampling, drawn, rng)
    marginals = None
    if isinstance(drafter, OnePassDrafter):
        logits = drafter.logits(root)
        _require_usable(logits, drafter)
        marginals = top_marginals(logits, SHOWN_MARGINALS)
        ask = _one_pass(logits)
    elif isinstance(drafter, StepwiseDrafter):
        ask = _stepwise(drafter, filling.builder)
    else:
        raise Incompatible("Nothing can be drawn without a drafter.", "Choose one with log-probabilities.")
    filling.fill(template, ask)
    return DrawnTree(filling.builder.build(), filling.draws(), marginals)


def _one_pass(logits: Tensor) -> Ask:
    positions = iter(logits.split(1))
    return lambda _: next(positions, None)


def _stepwise(drafter: StepwiseDrafter, builder: TreeBuilder) -> Ask:
    number: dict[int, int] = {}  # node -> the drafter's own numbering, in which only expanded nodes count

    def ask(nodes: list[int]) -> Tensor | None:
        above = [number[builder.parent[node]] for node in nodes if node]
        number.update({node: len(number) + place for place, node in enumerate(nodes)})
        if nodes == [0]:
            logits = drafter.start_logits(builder.token[0])
        else:
            tokens = [builder.token[node] for node in nodes]
            logits = drafter.expand_logits(np.array(tokens, np.int32), np.array(above, np.int32))
        if logits is not None:
            _require_usable(logits, drafter)
        return logits

    return ask


def _require_usable(logits: Tensor, drafter: Drafter) -> None:
    if not bool(torch.isfinite(logits.amax(-1)).all()):  # NaN and +inf come through; -inf is an impossible token
        raise NonFiniteLogits(f"The drafter {drafter.name} gave NaN or infinite logits.", "Try dtype float32.")


class _Filling:
    """A sampled tree in the making."""

    def __init__(self, drafter: Drafter, root: int, sampling: Sampling, drawn: Drawn, rng: torch.Generator) -> None:
        self.builder = TreeBuilder(root)
        self.source = drafter.source
        self.sampling = sampling
        self.drawn = drawn
        self.rng = rng
        self.nodes: list[int] = []
        self.probs: list[Tensor] = []
        self.row: dict[int, int] = {}

    def fill(self, template: Template, ask: Ask) -> None:
        below = children(template.parent)
        frontier = {0: 0}  # node -> the template's node
        while frontier := {node: place for node, place in frontier.items() if below[place]}:
            logits = ask(list(frontier))
            if logits is None:
                return
            wanted = [below[place] for place in frontier.values()]
            token, logprob = self._draw(logits, len(frontier), max(map(len, wanted)))
            self._remember_rows(list(frontier), len(logits))
            following: dict[int, int] = {}
            for line, (node, places) in enumerate(zip(frontier, wanted, strict=True)):
                for rank, place in enumerate(places):
                    if token[line, rank] < 0:
                        break
                    child = self.builder.add(node, token[line, rank], logprob[line, rank], self.source)
                    self.nodes.append(child)
                    following.setdefault(child, place)
            frontier = following

    def _draw(self, logits: Tensor, nodes: int, count: int) -> tuple[Ints, Floats]:
        """Tokens `[nodes, count]` (-1 where nothing is left) and their log-probabilities at temperature 1."""
        probs = probabilities(logits, self.sampling)
        self.probs.append(probs)
        draw = draw_with_replacement if self.drawn is Drawn.INDEPENDENT else draw_without_replacement
        token = draw(probs.expand(nodes, -1), count, self.rng)
        logprob = logits.expand(nodes, -1).gather(1, token.clamp_min(0)) - logits.logsumexp(-1, keepdim=True)
        packed = torch.cat([token.to(torch.int32), logprob.clamp_max_(0.0).view(torch.int32)], dim=1).cpu().numpy()
        return packed[:, :count], packed[:, count:].view(np.float32)

    def _remember_rows(self, nodes: list[int], rows: int) -> None:
        first = sum(map(len, self.probs)) - rows
        self.row |= {node: first + (place if rows > 1 else 0) for place, node in enumerate(nodes)}

    def draws(self) -> Draws | None:
        if not self.nodes:
            return None
        row = np.full(len(self.builder), -1, np.int32)
        row[list(self.row)] = list(self.row.values())
        return Draws(self.drawn, np.array(self.nodes), torch.cat(self.probs), row)

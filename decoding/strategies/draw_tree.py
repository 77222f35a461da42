"""Fills a template with draws from a drafter's distributions, depth by depth."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from decoding.drafters.base import Drafter, OnePassDrafter, StepwiseDrafter
from decoding.drafters.draft_tokens import in_target_ids
from decoding.draws import Drawn, Draws
from decoding.errors import Incompatible, NonFiniteLogits
from decoding.marginals import top_marginals
from decoding.sampling import Sampling, draw_with_replacement, draw_without_replacement, probabilities
from decoding.template import Template
from decoding.tree import TreeBuilder, children
from decoding.types import Ints, Marginals, Tree

SHOWN_MARGINALS = 8
"""How many tokens of each position are kept to be looked at."""


class _Rows(NamedTuple):
    """What is drawn from: a row for each of some nodes, or one row for all of them."""

    logits: Tensor
    """`[rows, tokens]`."""
    normaliser: Tensor
    """`[rows, 1]` log of the sum of their exponentials (nats)."""
    probs: Tensor
    """`[rows, tokens]` in the run's sampling."""


Ask = Callable[[list[int]], _Rows | None]
"""Nodes to expand, all of one depth, to what the nodes below them are drawn from."""


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
    marginals = None
    if isinstance(drafter, OnePassDrafter):
        logits = drafter.logits(root)
        best = top_marginals(logits, SHOWN_MARGINALS)
        marginals = in_target_ids(best, drafter.draft_tokens)
        filling = _Filling(drafter, root, drawn, rng, drafter.draft_tokens)
        peak = torch.tensor(best.token[:, :1], dtype=torch.int64, device=logits.device)
        normaliser = logits.gather(1, peak) - torch.tensor(best.logprob[:, :1], device=logits.device)
        ask = _one_pass(_Rows(logits, normaliser, probabilities(logits, sampling)))
    elif isinstance(drafter, StepwiseDrafter):
        filling = _Filling(drafter, root, drawn, rng)
        ask = _stepwise(drafter, filling.builder, sampling)
    else:
        raise Incompatible("Nothing can be drawn without a drafter.", "Choose one with log-probabilities.")
    filling.fill(template, ask)
    return DrawnTree(filling.builder.build(), filling.draws(), marginals)


def _one_pass(rows: _Rows) -> Ask:
    positions = (_Rows(*position) for position in zip(*(part.split(1) for part in rows), strict=True))
    return lambda _: next(positions, None)


def _stepwise(drafter: StepwiseDrafter, builder: TreeBuilder, sampling: Sampling) -> Ask:
    number: dict[int, int] = {}  # node -> the drafter's own numbering, in which only expanded nodes count

    def ask(nodes: list[int]) -> _Rows | None:
        above = [number[builder.parent[node]] for node in nodes if node]
        number.update({node: len(number) + place for place, node in enumerate(nodes)})
        if nodes == [0]:
            logits = drafter.start_logits(builder.token[0])
        else:
            tokens = [builder.token[node] for node in nodes]
            logits = drafter.expand_logits(np.array(tokens, np.int32), np.array(above, np.int32))
        if logits is None:
            return None
        _require_usable(logits, drafter)
        return _Rows(logits, logits.logsumexp(-1, keepdim=True), probabilities(logits, sampling))

    return ask


def _require_usable(logits: Tensor, drafter: Drafter) -> None:
    if not bool(torch.isfinite(logits.amax(-1)).all()):  # NaN and +inf come through; -inf is an impossible token
        raise NonFiniteLogits(f"The drafter {drafter.name} gave NaN or infinite logits.", "Try dtype float32.")


class _Filling:
    """A sampled tree in the making."""

    def __init__(
        self, drafter: Drafter, root: int, drawn: Drawn, rng: torch.Generator, draft_tokens: Ints | None = None
    ) -> None:
        self.builder = TreeBuilder(root)
        self.source = drafter.source
        self.drawn = drawn
        self.rng = rng
        self.draft_tokens = draft_tokens
        self.nodes: list[int] = []
        self.probs: list[Tensor] = []
        self.row: dict[int, int] = {}

    def fill(self, template: Template, ask: Ask) -> None:
        below = children(template.parent)
        frontier = {0: 0}  # node -> the template's node
        while frontier := {node: place for node, place in frontier.items() if below[place]}:
            rows = ask(list(frontier))
            if rows is None:
                return
            wanted = [below[place] for place in frontier.values()]
            token, logprob = self._draw(rows, len(frontier), max(map(len, wanted)))
            self._remember(rows.probs, list(frontier))
            following: dict[int, int] = {}
            for node, places, tokens, logprobs in zip(frontier, wanted, token, logprob, strict=True):
                for place, drawn, weight in zip(places, tokens, logprobs, strict=False):
                    if drawn < 0:
                        break
                    child = self.builder.add(node, drawn, weight, self.source)
                    self.nodes.append(child)
                    following.setdefault(child, place)
            frontier = following

    def _draw(self, rows: _Rows, nodes: int, count: int) -> tuple[list[list[int]], list[list[float]]]:
        """Tokens `[nodes, count]` (-1 where nothing is left) and their log-probabilities at temperature 1."""
        draw = draw_with_replacement if self.drawn is Drawn.INDEPENDENT else draw_without_replacement
        token = draw(rows.probs.expand(nodes, -1), count, self.rng)
        logprob = rows.logits.expand(nodes, -1).gather(1, token.clamp_min(0)) - rows.normaliser
        packed = torch.cat([token.to(torch.int32), logprob.clamp_max_(0.0).view(torch.int32)], dim=1).cpu().numpy()
        found, logprobs = packed[:, :count], packed[:, count:].view(np.float32)
        if self.draft_tokens is not None:
            found = np.where(found < 0, -1, self.draft_tokens[found])
        return found.tolist(), logprobs.tolist()

    def _remember(self, probs: Tensor, nodes: list[int]) -> None:
        first = sum(map(len, self.probs))
        self.probs.append(probs)
        self.row |= {node: first + (place if len(probs) > 1 else 0) for place, node in enumerate(nodes)}

    def draws(self) -> Draws | None:
        if not self.nodes:
            return None
        row = np.full(len(self.builder), -1, np.int32)
        row[list(self.row)] = list(self.row.values())
        return Draws(self.drawn, np.array(self.nodes), torch.cat(self.probs), row, self.draft_tokens)

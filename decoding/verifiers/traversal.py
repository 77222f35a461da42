"""Traversal verification: sequences are accepted as a whole, from the leaves up to the root (arXiv 2505.12398)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from decoding.draws import Drawn, Draws
from decoding.sampling import draw, probabilities
from decoding.scores import TreeScores
from decoding.types import Tree, Verdict
from decoding.verifiers.base import Verifier
from decoding.verifiers.residual import chance, normalised, residual, without


@dataclass
class _Open:
    """A node on the path that is being tried."""

    node: int
    weight: float
    """With what probability the node is to be accepted, itself or with something below it."""
    target: Tensor
    """`[vocab]` float64: what the token after the node must follow if it is accepted; empty where nothing was drawn
    below the node, so that a leaf costs nothing unless it is accepted."""
    draft: Tensor
    """`[vocab]` float64: what the next candidate was drawn from; empty likewise."""
    untried: list[int]
    """The candidates that are left, the next one last."""


class Traversal(Verifier):
    """Traversal Verification (Weng et al., arXiv 2505.12398); on a chain it is Block Verification (arXiv 2403.10444).

    Each node u has a weight a(u), 1 at the root. From u the first candidate x, drawn from q, gets the weight
    min(a(u) p(x) / q(x), 1), and the same goes on below it down to a leaf, which is accepted with its weight:
    the text then takes the path to it, and a bonus drawn from p. Where it is not, its parent u goes on with

        r = max(a p - q, 0),   S = sum r,   a <- S / (S + 1 - a),   p <- r / S,

    q loses x if the candidates were drawn without replacement, and the next candidate of u is tried; a node without
    further candidates is itself a leaf. A token that the target finds unlikely can thus be made up for by likely ones
    below it, and a rejected leaf leaves its ancestors in play.

    Why it is lossless. Claim: whatever is known from outside the subtree of u, it is accepted (u itself or something
    below it) with probability a, and what is then emitted after u follows p and, beyond the first token, the target.
    For a leaf that is what is done. Else let x be the next candidate. By induction x's subtree is accepted with
    probability min(a p(x) / q(x), 1), so "accepted, and x comes next" has probability min(a p(x), q(x)), and beyond x
    the text follows the target. The claim asks for a p(x), so r(x) is missing, S in all. The subtree of x is rejected
    with probability 1 - (a - S), in which case r / S must be emitted with probability S / (S + 1 - a): which is the
    claim again, for the candidates that are left. They are drawn from q (or from q without x) whatever else is known
    of x's subtree, since candidates of different nodes are drawn apart. At the root a = 1: something is accepted.

    The paper could not be had in full here: the updates are derived as above, and on a chain they are those of Block
    Verification. A subtree of weight 0 (also an independent draw that repeats a rejected one) is skipped, because it
    would be rejected anyway.
    """

    name = "traversal"
    title = "Traversal verification"
    lossless_for = "trees whose candidates are drawn, with or without replacement"
    greedy = False
    needs_candidates = frozenset({Drawn.INDEPENDENT, Drawn.DISTINCT})

    def verify(self, tree: Tree, scores: TreeScores, rng: torch.Generator, draws: Draws | None = None) -> Verdict:
        """Keeps the target's float32 logits of every node with draws below it: 4 bytes * vocabulary each."""
        below = self.require_draws(tree, draws)
        inner = [node for node, drawn in enumerate(below) if drawn]
        kept: dict[int, Tensor] = {}

        def visit(start: int, logits: Tensor) -> None:
            here = [node for node in inner if start <= node < start + len(logits)]
            rows = [node - start for node in here]
            # A copy: the chunk itself must not be kept. On a CPU by numpy, which keeps to this thread.
            copy = torch.from_numpy(logits.numpy()[rows]) if logits.device.type == "cpu" else logits[rows]
            kept.update(zip(here, copy, strict=True))

        opinions = scores.opinions(tree, visit)
        path, target = [0], torch.empty(0)
        if draws is not None:
            path, target = self._climb(tree, below, kept, draws, rng, scores.hidden.device)
        if not len(target):
            target = self._target(scores.logits(slice(path[-1], path[-1] + 1))[0])
        bonus = int(draw(target[None], rng))
        return opinions.verdict(path, [*tree.token[path[1:]].tolist(), bonus])

    def _climb(
        self,
        tree: Tree,
        below: list[list[int]],
        logits: dict[int, Tensor],
        draws: Draws,
        rng: torch.Generator,
        device: torch.device,
    ) -> tuple[list[int], Tensor]:
        """The accepted path and what its last node's `_Open.target` has become."""

        def opened(node: int, weight: float) -> _Open:
            if not below[node]:
                return _Open(node, weight, torch.empty(0), torch.empty(0), [])
            target = self._target(logits[node])
            draft = normalised(draws.weights(node, len(target))).to(target.device)
            return _Open(node, weight, target, draft, below[node][::-1])

        path = [opened(0, 1.0)]
        while True:
            top = path[-1]
            if top.untried:
                child = top.untried.pop()
                token = int(tree.token[child])
                weight = min(float(top.weight * top.target[token] / top.draft[token]), 1.0)
                if weight > 0.0:
                    path.append(opened(child, weight))
                else:
                    _reject(top, token, draws.drawn)
            elif chance(top.weight, rng, device):
                return [open_.node for open_ in path], top.target
            else:
                path.pop()
                _reject(path[-1], int(tree.token[top.node]), draws.drawn)

    def _target(self, logits: Tensor) -> Tensor:
        return normalised(probabilities(logits[None], self.sampling)[0])


def _reject(parent: _Open, token: int, drawn: Drawn) -> None:
    """Takes from `parent` what its rejected candidate has accounted for."""
    parent.target, mass = residual(parent.target, parent.draft, parent.weight)
    shortfall = mass + (1.0 - parent.weight)  # summed in this order, a weight of 1 stays exactly 1
    # Both are 0 only at a weight of 1 with nothing missing, where a rejection has probability 0.
    parent.weight = mass / shortfall if shortfall > 0.0 else parent.weight
    if drawn is Drawn.DISTINCT:
        parent.draft = without(parent.draft, token)

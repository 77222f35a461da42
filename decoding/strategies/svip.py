"""SVIP (Zhang et al., EMNLP 2025, arXiv 2411.18462): a chain that ends where the drafter is unsure of itself.

By Pinsker's inequality a token is accepted with a probability of at least about 1 - sqrt(c H(q)), H(q) the entropy of
the drafter's distribution (Equation 6), so after each token drafting ends where sqrt(c H(q)) > h. The unsure token
itself is still in the draft (Algorithm 1, line 8).

The paper's second version folds c into h (Equation 7) and still sets h = .3, as the authors' code does with c = .15.
Both cannot be meant: the defaults are those of the code, and c = 1 gives the letter of Equation 7.
"""

import math
from dataclasses import dataclass

import numpy as np

from decoding.drafters.base import Candidates, Drafter
from decoding.settings import Settings, option
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.beam import ROOT, Expansion, require_scoring


@dataclass(frozen=True)
class SVIPSettings(Settings):
    """c and h of the authors' code; at most 40 tokens (section 3.1)."""

    budget: int = option(40, "tokens in the chain at most", low=1, high=256)
    c: float = option(0.15, "what stands for the unknown target in the bound 1 - sqrt(c H)", low=0, high=10)
    threshold: float = option(0.3, "h: drafting ends where sqrt(c H) is above it", low=0, high=10)


class SVIP(Strategy[SVIPSettings]):
    """SVIP's length policy over greedy drafts. It needs whole distributions, so every token is asked for."""

    name = "svip"
    title = "SVIP chain"
    paper = "SVIP, section 2.2, Equations 6 and 7, Algorithm 1"
    needs = frozenset({"stepwise"})
    needs_logprobs = True
    settings_class = SVIPSettings

    @property
    def max_nodes(self) -> int:
        return self.settings.budget

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        """The decision tells the entropy (nats) at every token and whether it ended the chain."""
        source = require_scoring(drafter, self.title)
        expansion, node = Expansion(source, root), ROOT
        entropies, unsure = list[float](), False
        for _ in range(min(self.settings.budget, max_depth)):
            whole = expansion.ask(node, source.vocab_size)
            node = expansion.add(node, Candidates(whole.token[:, :1], whole.logprob[:, :1]))
            if not len(node):
                break
            entropies.append(entropy(whole))
            unsure = math.sqrt(self.settings.c * entropies[-1]) > self.settings.threshold
            if unsure:
                break
        tree = expansion.tree(np.arange(1, len(expansion)))
        return Growth(tree, decision={"entropy": entropies, "stopped": unsure})


def entropy(candidates: Candidates) -> float:
    """Entropy H(q) (nats) of the distribution behind the first row of candidates, which must hold every token."""
    logprob = candidates.logprob[0][candidates.token[0] >= 0].astype(np.float64)
    logprob = logprob[np.isfinite(logprob)]  # an impossible token adds nothing
    return float(-(np.exp(logprob) * logprob).sum())

"""A one-pass drafter seen as a stepwise one, so that any tree can be grown over the same marginals."""

import numpy as np

from decoding.drafters.base import Candidates, Observation, OnePassDrafter, StepwiseDrafter
from decoding.drafters.candidates import no_candidates
from decoding.types import Ints, Marginals


class MarginalsAsSteps(StepwiseDrafter):
    """Every node of a depth has the same candidates: the row of its position (DDTree, section 3: factorised q_i).

    Example: over rows a, b / c, d the root's children are a and b, and those of either are c and d. Impossible tokens
    (log-probability -inf) are no candidates, and nothing follows the last position.
    """

    def __init__(self, drafter: OnePassDrafter, k: int) -> None:
        """`k` is the most candidates of a node that will be asked for."""
        self.inner = drafter
        self.name = drafter.name
        self.vocab_size = drafter.vocab_size
        self.taps = drafter.taps
        self.wants_prompt_next = drafter.wants_prompt_next
        self.source = drafter.source
        self._k = k
        self._marginals: Marginals | None = None
        self._depth: list[int] = []

    def begin(self, capacity: int) -> None:
        self.inner.begin(capacity)

    def observe(self, observation: Observation) -> None:
        self.inner.observe(observation)

    def end(self) -> None:
        self.inner.end()

    def start(self, root: int, k: int) -> Candidates:
        self._marginals, self._depth = self.inner.marginals(root, self._k), [0]
        return self._rows([0], k)

    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        depths = [self._depth[parent] + 1 for parent in parents.tolist()]
        self._depth += depths
        return self._rows(depths, k)

    def _rows(self, positions: list[int], k: int) -> Candidates:
        if self._marginals is None or k > self._k:
            raise ValueError(f"{k} candidates were asked for; a round begins with start, and {self._k} are kept")
        found = no_candidates(len(positions), k)
        token, logprob = self._marginals.token[:, :k], self._marginals.logprob[:, :k]
        for line, position in enumerate(positions):
            if position < len(token):
                there = np.isfinite(logprob[position])  # sorted, so what cannot be stands behind
                found.token[line, : token.shape[1]][there] = token[position, there]
                found.logprob[line, : token.shape[1]][there] = logprob[position, there]
        return found

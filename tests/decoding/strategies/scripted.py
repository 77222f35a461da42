"""A stepwise drafter that reads from a script, for examples worked out by hand."""

import numpy as np

from decoding.drafters.base import Candidates, Observation, StepwiseDrafter
from decoding.tree import path_to
from decoding.types import Ints, Tree

Path = tuple[int, ...]


class Scripted(StepwiseDrafter):
    """The probabilities of tokens 0, 1, ... after each path, falling; nothing follows a path without an entry."""

    name = "scripted"
    vocab_size = 8

    def __init__(self, script: dict[Path, list[float]]) -> None:
        self.script = script
        self.asked: list[list[Path]] = []
        """The paths of every drafter step."""

    def begin(self, capacity: int) -> None: ...

    def observe(self, observation: Observation) -> None: ...

    def start(self, root: int, k: int) -> Candidates:
        self.known: list[Path] = [()]
        self.asked = []
        return self._ask([()], k)

    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        assert len(tokens)
        new = [(*self.known[parent], token) for token, parent in zip(tokens.tolist(), parents.tolist(), strict=True)]
        self.known += new
        return self._ask(new, k)

    def _ask(self, paths: list[Path], k: int) -> Candidates:
        self.asked.append(paths)
        token, logprob = np.full((len(paths), k), -1, np.int32), np.full((len(paths), k), np.nan, np.float32)
        for row, path in enumerate(paths):
            probs = self.script.get(path, [])[:k]
            token[row, : len(probs)] = range(len(probs))
            logprob[row, : len(probs)] = np.log(probs)
        return Candidates(token, logprob)


def paths_of(tree: Tree) -> set[Path]:
    """Every node of the tree as the tokens from the root to it, the root as the empty path."""
    return {tuple(tree.token[path_to(tree.parent, node)[1:]].tolist()) for node in range(len(tree))}

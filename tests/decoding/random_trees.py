"""Random trees for property tests."""

import numpy as np

from decoding.tree import TreeBuilder
from decoding.types import Tree


def random_tree(rng: np.random.Generator, nodes: int, vocab: int) -> Tree:
    """A tree of up to `nodes` nodes with any shape; repeated children merge."""
    builder = TreeBuilder(int(rng.integers(vocab)))
    for _ in range(nodes - 1):
        builder.add(int(rng.integers(len(builder))), int(rng.integers(vocab)), float(-rng.random()))
    return builder.build()

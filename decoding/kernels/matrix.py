"""Rows of a token-transition matrix."""

from decoding.kernels import compiled
from decoding.types import Ints


@compiled
def write_rows(matrix: Ints, seen: Ints, following: Ints) -> None:
    """Overwrites the row of every token `seen` `[seen]` in a `matrix` `[vocab, choices]` by its most likely successors
    `following` `[seen, any]`, best first: of a token's several the last; what there is no room for is left out, what
    there is none for becomes -1. Raises IndexError for a token that has no row."""
    known = following.shape[1]
    for place in range(len(seen)):
        token = seen[place]
        if not 0 <= token < len(matrix):
            raise IndexError("the matrix has no row for a token")
        for rank in range(matrix.shape[1]):
            matrix[token, rank] = following[place, rank] if rank < known else -1

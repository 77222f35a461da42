"""What a round teaches, counted entry by entry, against a count that is written down as it is told."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decoding.kernels.hit_counts import Counts, Heard, count_hits

FLOORS = np.array([0.0, 0.05, 0.3])
BANDS, CHOICES, VOCAB, MEMORY = len(FLOORS), 3, 9, 20.0


def begun() -> Counts:
    lines = 2 * BANDS + 2
    return Counts(np.ones((lines, CHOICES)), np.ones((lines, CHOICES)), np.ones(BANDS), np.ones(BANDS))


def a_round(seed: int, positions: int, asked: int) -> Heard:
    """A chain of nodes, of which some have no row, and of which `asked` have thoughts of their own, or none."""
    rng = np.random.default_rng(seed)
    nodes, k, kept = 6, 4, 3
    row = np.array([rng.permutation(VOCAB)[:CHOICES] for _ in range(nodes)], np.int32)
    row[rng.random(nodes) < 0.3] = -1
    row[rng.random(nodes) < 0.3, 2:] = -1
    token = np.array([rng.permutation(VOCAB)[:k] for _ in range(positions)], np.int32).reshape(positions, k)
    logprob = np.log(rng.dirichlet(np.ones(k), positions)).astype(np.float32)
    believed = np.log(rng.dirichlet(np.ones(kept), asked)).astype(np.float32)
    believed[rng.random(asked) < 0.4] = np.nan
    path = np.arange(rng.integers(1, nodes + 1), dtype=np.int32)
    said = rng.integers(0, VOCAB, len(path) - rng.integers(2)).astype(np.int32)
    return Heard(path, said, row, token, logprob, believed)


def counted(counts: Counts, heard: Heard) -> None:
    """As `count_hits`, one thing after the other."""
    positions, keep = len(heard.token), np.exp(-1 / MEMORY)
    for depth, (node, said) in enumerate(zip(heard.path, heard.said, strict=False)):
        row = [token for token in heard.row[node].tolist() if token >= 0]
        chance: dict[int, float] = {}
        if depth < positions:
            own = heard.believed[node - 1] if 0 < node <= len(heard.believed) else heard.logprob[depth]
            if np.isnan(own[0]):
                continue
            chance = dict(zip(heard.token[depth].tolist(), np.exp(own.astype(float)), strict=False))
        lines = [[2 * BANDS + 1] for _ in row]
        for line, token in zip(lines, row, strict=True):
            band = int(np.flatnonzero(chance.get(token, 0.0) >= FLOORS)[-1])
            if depth < positions:
                line.append(band if depth == 0 else BANDS + band)
            elif positions:
                line.append(2 * BANDS)
        for rank, (token, of_token) in enumerate(zip(row, lines, strict=True)):
            for line in of_token:
                counts.hits[line, rank] = keep * counts.hits[line, rank] + (token == said)
                counts.trials[line, rank] = keep * counts.trials[line, rank] + 1
        if row and depth < positions:
            only = {token: weight for token, weight in chance.items() if token not in row}
            for band in range(BANDS):
                inside = {t: w for t, w in only.items() if np.flatnonzero(w >= FLOORS)[-1] == band}
                mass = sum(inside.values())
                counts.drafted_hits[band] = np.exp(-mass / MEMORY) * counts.drafted_hits[band] + (said in inside)
                counts.drafted_mass[band] = np.exp(-mass / MEMORY) * counts.drafted_mass[band] + mass


@given(st.integers(0, 2**31), st.integers(0, 4), st.integers(0, 5))
def test_every_entry_counts_where_it_belongs(seed: int, positions: int, asked: int) -> None:
    ours, theirs = (
        Counts(*(np.ones(shape) for shape in [(2 * BANDS + 2, CHOICES)] * 2 + [(BANDS,)] * 2)) for _ in "ab"
    )
    for more in range(3):
        heard = a_round(seed + more, positions, asked)
        count_hits(ours, heard, FLOORS, MEMORY)
        counted(theirs, heard)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)

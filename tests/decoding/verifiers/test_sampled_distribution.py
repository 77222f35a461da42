"""Sampled trees and their verifiers with real random numbers: whole sequences over whole rounds.

The exact tests (`test_exact.py`) follow every branch of one round; here the generator, its seeding and the bookkeeping
of rounds take part. All tests of this file together pass with probability at least 1 - 1e-4 where they should.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from decoding.sampling import Sampling
from decoding.verifiers import VERIFIERS
from decoding.verifiers.residual import residual
from decoding.verifiers.top_down import Choice
from tests.decoding.verifiers.enumerated import drawing, mixed, p_value, sample

SAMPLINGS = {
    "plain": Sampling(1.0),
    "cold, top-k": Sampling(0.7, top_k=3),
    "all three": Sampling(0.9, top_p=0.9, top_k=3),
}
PAIRS = [
    ("multi-round", True),
    ("without-replacement", False),
    ("traversal", True),
    ("traversal", False),
    ("eagle", True),
    ("eagle", False),
    ("sample-match", True),
    ("sample-match", False),
]
QUICK = [("multi-round", True, "plain"), ("without-replacement", False, "all three"), ("traversal", False, "plain")]
THOROUGH = [
    (*pair, list(SAMPLINGS)[(place + one_pass) % 3], one_pass)
    for place, pair in enumerate(PAIRS)
    for one_pass in (False, True)
]
LEVEL = 1e-4 / (len(QUICK) + len(THOROUGH) + 1)
COUNT = 400


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """On a busy machine torch's threads wait for each other even over tables of sixteen numbers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("verifier", "replacement", "name"), QUICK)
def test_follows_the_target(verifier: str, replacement: bool, name: str) -> None:
    sampling = SAMPLINGS[name]
    texts = sample(VERIFIERS[verifier](sampling), drawing(sampling, replacement=replacement), COUNT, length=3, seed=21)
    assert p_value(texts, sampling) > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize(("verifier", "replacement", "name", "one_pass"), THOROUGH)
def test_every_verifier_on_every_kind_of_draws(verifier: str, replacement: bool, name: str, one_pass: bool) -> None:
    sampling = SAMPLINGS[name]
    grow = drawing(sampling, one_pass, replacement=replacement)
    assert p_value(sample(VERIFIERS[verifier](sampling), grow, 500, length=3, seed=22), sampling) > LEVEL


@pytest.mark.slow
def test_eagle_on_trees_of_every_kind() -> None:
    sampling = SAMPLINGS["plain"]
    assert p_value(sample(VERIFIERS["eagle"](sampling), mixed, 500, length=3, seed=23), sampling) > LEVEL


def keeping_the_target(target: Any, draft: Any, candidates: list[int], rng: torch.Generator) -> Choice:
    """WRONG: tries every candidate against the target's own distribution, not against what is left of it."""
    for place, token in enumerate(candidates):
        if float(torch.rand((), generator=rng)) < float(target[token] / draft[token]):
            return Choice(place, token)
    left = residual(target, draft).probs
    return Choice(None, int(torch.multinomial(left, 1, generator=rng)))


def test_a_rule_that_forgets_its_residual_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The power of the statistical test, at the same number of sequences and the same level."""
    sampling = SAMPLINGS["plain"]
    verifier = VERIFIERS["multi-round"](sampling)
    monkeypatch.setattr(verifier, "choose", keeping_the_target)
    assert p_value(sample(verifier, drawing(sampling, replacement=True), COUNT, length=3, seed=24), sampling) < LEVEL

"""The arithmetic of rejection: residuals stay distributions, in float64, whatever they are made of."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from decoding.verifiers.residual import chance, normalised, residual, without

weights = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=5, max_size=5).filter(lambda w: sum(w) > 1e-6)


def check(probs: Tensor) -> None:
    assert probs.dtype == torch.float64
    assert bool((probs >= 0).all())
    assert float(probs.sum()) == pytest.approx(1.0, abs=1e-12)


@given(weights, weights, st.floats(0, 1))
def test_residuals_are_distributions_of_the_stated_mass(target: list[float], draft: list[float], weight: float) -> None:
    p, q = (normalised(torch.tensor(values, dtype=torch.float32)) for values in (target, draft))
    check(p)
    before = p.clone()
    left, mass = residual(p, q, weight)
    check(left)
    assert torch.equal(p, before)
    assert mass == pytest.approx(float(np.maximum(weight * p.numpy() - q.numpy(), 0).sum()))
    if mass > 0:
        assert bool((left[weight * p <= q] == 0).all())
        # What is accepted and what is left make up the whole.
        accepted = torch.minimum(weight * p, q)
        torch.testing.assert_close(accepted + mass * left, weight * p, atol=1e-12, rtol=0)


@given(weights, st.integers(0, 4))
def test_without_takes_one_token_out(values: list[float], token: int) -> None:
    p = normalised(torch.tensor(values, dtype=torch.float64))
    left = without(p, token)
    check(left)
    if float(p.sum() - p[token]) > 0:
        assert float(left[token]) == 0.0
        others = torch.arange(5) != token
        torch.testing.assert_close(left[others] * p[others].sum(), p[others])


def test_the_worked_example_and_the_empty_residual() -> None:
    p, q = torch.tensor([0.5, 0.5]).double(), torch.tensor([0.8, 0.2]).double()
    left, mass = residual(p, q)
    assert left.tolist() == [0.0, 1.0]
    assert mass == pytest.approx(0.3)
    assert residual(p, p).probs is p
    assert residual(p, p).mass == 0.0
    certain = torch.tensor([1.0, 0.0]).double()
    assert without(certain, 0) is certain


def test_chance() -> None:
    rng = torch.Generator().manual_seed(5)
    device = torch.device("cpu")
    assert not any(chance(0.0, rng, device) for _ in range(200))
    assert all(chance(1.0, rng, device) for _ in range(200))
    share = sum(chance(0.3, rng, device) for _ in range(2000)) / 2000
    assert share == pytest.approx(0.3, abs=4 * (0.21 / 2000) ** 0.5)

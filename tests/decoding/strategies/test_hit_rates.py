"""Measured hit rates: they come to be what they are in truth, forget what was, and begin sensibly."""

import numpy as np
import pytest

from decoding.kernels.hit_counts import Heard
from decoding.strategies.hit_rates import ALONE, BANDS, BEYOND, FLOORS, LATER, HitRates, prior_rates
from decoding.types import Ints, Marginals

ROW = np.array([10, 11, 12, -1, -1, -1, -1, -1], np.int32)


def marginals(*chances: dict[int, float]) -> Marginals:
    ordered = [sorted(chance.items(), key=lambda item: -item[1]) for chance in chances]
    return Marginals(
        np.array([[token for token, _ in line] for line in ordered]).reshape(len(chances), -1),
        np.log(np.array([[chance for _, chance in line] for line in ordered])).reshape(len(chances), -1),
    )


def heard(row: Ints, position: int, said: int, draft: Marginals) -> Heard:
    """A path down to this position, where alone a row is known."""
    path = np.arange(position + 1, dtype=np.int32)
    rows = np.vstack([np.full((position, 8), -1), row]).astype(np.int32)
    return Heard(path, np.full(position + 1, said, np.int32), rows, draft.token, draft.logprob, NOTHING_BELIEVED)


NOTHING_BELIEVED = np.empty((0, 1), np.float32)
DRAFT = marginals({10: 0.3, 20: 0.2, 12: 0.01}, {10: 0.3, 20: 0.2, 12: 0.01})
BANDS_OF = {10: 5, 11: 0, 12: 1}


@pytest.mark.parametrize(("position", "offset"), [(0, 0), (1, LATER), (2, None), (9, None)])
def test_rates_come_to_be_what_they_are(position: int, offset: int | None) -> None:
    rng, rates = np.random.default_rng(0), HitRates()
    truth = {10: 0.5, 11: 0.2, 12: 0.05, 20: 0.15, 99: 0.1}
    for said in rng.choice(list(truth), 3000, p=list(truth.values())).tolist():
        rates.learn(heard(ROW, position, said, DRAFT))
    for rank, token in enumerate((10, 11, 12)):
        line = BEYOND if offset is None else offset + BANDS_OF[token]
        assert rates.retrieved[line, rank] == pytest.approx(truth[token], abs=0.06)
        assert rates.retrieved[ALONE, rank] == pytest.approx(truth[token], abs=0.06)
    touched = rates.retrieved != HitRates().retrieved
    assert touched.sum() == 6, "the entries at their places, and without a draft"
    if offset is None:
        assert np.array_equal(rates.drafted, HitRates().drafted)
    else:  # the drafter gives token 20 a chance of .2, and .15 of the time it is right
        assert rates.drafted[5] == pytest.approx(0.75, abs=0.15)


def test_what_was_is_forgotten() -> None:
    rates = HitRates()
    for _ in range(3000):
        rates.learn(heard(ROW, 5, 10, DRAFT))
    assert rates.retrieved[BEYOND, 0] > 0.98
    for _ in range(2000):
        rates.learn(heard(ROW, 5, 11, DRAFT))
    assert rates.retrieved[BEYOND, 0] < 0.03
    assert rates.retrieved[BEYOND, 1] > 0.97


def test_an_empty_row_and_missing_entries_say_nothing() -> None:
    rates = HitRates()
    rates.learn(heard(np.full(8, -1, np.int32), 0, 10, DRAFT))
    rates.learn(heard(np.full(8, -1, np.int32), 7, -1, DRAFT))
    assert np.array_equal(rates.retrieved, HitRates().retrieved)
    rates.learn(heard(ROW, 5, 10, DRAFT))
    assert np.array_equal(rates.retrieved[:, 3:], HitRates().retrieved[:, 3:])


def test_weights_can_be_planned_with() -> None:
    """No edge above 1, and drafted tokens of a position keep their order whatever was learnt."""
    rng, rates = np.random.default_rng(1), HitRates()
    for _ in range(300):
        chance = np.sort(rng.dirichlet(np.full(6, 0.3)))[::-1]
        draft = Marginals(np.array([rng.permutation(30)[:6]]), np.log(chance + 1e-12)[None])
        row = rng.permutation(30)[:8].astype(np.int32)
        rates.learn(heard(row, int(rng.integers(2)), int(rng.integers(30)), draft))
        weights = rates.weights()
        assert weights.retrieved.shape == (2 * BANDS + 2, 8)
        assert (weights.retrieved <= 0).all()
        assert np.isfinite(weights.retrieved).all()
        assert (np.diff(weights.drafted) >= 0).all()
        assert (weights.drafted <= 0).all()
    np.testing.assert_allclose(np.exp(weights.floor), FLOORS, rtol=1e-6)


def test_the_prior_prefers_better_ranks_and_agreement() -> None:
    prior = prior_rates()
    assert ((prior > 0) & (prior < 1)).all()
    assert (np.diff(prior, axis=1) <= 0.02).all()
    assert (prior[1:BANDS, 0] >= prior[: BANDS - 1, 0] - 0.05).all()

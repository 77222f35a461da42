"""Probabilities against the warpers of Hugging Face, and draws against the probabilities."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from decoding.errors import BadRequest
from decoding.kernels.drawing import draw_distinct, draw_independent
from decoding.kernels.pieces import can_hold, piece_sums, room_for_sums
from decoding.sampling import (
    LEAST_LEFT,
    Sampling,
    UniformNumbers,
    draw,
    draw_distinct_on_device,
    draw_each,
    draw_with_replacement,
    draw_without_replacement,
    probabilities,
)


def warped(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """What `generate` samples from, warpers in its order."""
    ids = torch.zeros(len(logits), 1, dtype=torch.long)
    scores = TemperatureLogitsWarper(sampling.temperature)(ids, logits)
    if sampling.top_k:
        scores = TopKLogitsWarper(sampling.top_k)(ids, scores)
    if sampling.top_p < 1:
        scores = TopPLogitsWarper(sampling.top_p)(ids, scores)
    return scores.softmax(-1)


@pytest.mark.parametrize("vocab", [2, 5, 300, 1003, 12_000])
@pytest.mark.parametrize("spread", [0.1, 1.0, 6.0])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_k", [0, 1, 3, 50])
@pytest.mark.parametrize("top_p", [1e-9, 0.3, 0.9, 0.999, 1.0])
def test_as_hugging_face(vocab: int, spread: float, temperature: float, top_k: int, top_p: float) -> None:
    logits = torch.randn(4, vocab, generator=torch.Generator().manual_seed(vocab)) * spread
    sampling = Sampling(temperature, top_p, top_k)
    ours, theirs = probabilities(logits, sampling), warped(logits, sampling)
    torch.testing.assert_close(ours.sum(1), torch.ones(4))
    # Where the mass meets top_p within rounding, one token more or less is kept: it may carry what rounding hides.
    kept, kept_there = ours > 0, theirs > 0
    edge = (kept != kept_there) & (torch.maximum(ours, theirs) > 2e-4)
    assert not bool(edge.any())
    torch.testing.assert_close(ours, theirs, atol=2e-4 if bool((kept != kept_there).any()) else 1e-6, rtol=1e-4)


def test_ties_at_the_kth_value_are_kept() -> None:
    logits = torch.tensor([[3.0, 1.0, 1.0, 0.0]])
    assert (probabilities(logits, Sampling(1.0, top_k=2)) > 0).tolist() == [[True, True, True, False]]


@pytest.mark.parametrize("temperature", [1e-6, 1e-30, 1e-45, 5e-324])
def test_a_tiny_temperature_is_greedy_and_finite(temperature: float) -> None:
    logits = torch.randn(6, 1003, generator=torch.Generator().manual_seed(0)) * 50
    logits[0, 7] = logits[0, 900] = 1e4
    for sampling in (Sampling(temperature), Sampling(temperature, 0.5), Sampling(temperature, 0.9, 3)):
        probs = probabilities(logits, sampling)
        assert bool(torch.isfinite(probs).all())
        torch.testing.assert_close(probs[1:], probabilities(logits, Sampling())[1:])
    assert probabilities(logits, Sampling(temperature))[0, [7, 900]].tolist() == [0.5, 0.5]


def test_a_tiny_top_p_keeps_one_token() -> None:
    logits = torch.randn(6, 1003)
    assert (probabilities(logits, Sampling(1.0, 1e-12)) > 0).sum(1).tolist() == [1] * 6
    assert (probabilities(torch.zeros(2, 1003), Sampling(1.0, 1e-12)) > 0).sum(1).tolist() == [1] * 2


def test_greedy_puts_all_on_the_lowest_of_the_best() -> None:
    assert probabilities(torch.tensor([[1.0, 2.0, 2.0]]), Sampling()).tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize(("temperature", "top_p", "top_k"), [(-1, 1, 0), (float("nan"), 1, 0), (1, 0, 0), (1, 1, -1)])
def test_bad_values_are_refused(temperature: float, top_p: float, top_k: int) -> None:
    with pytest.raises(BadRequest):
        Sampling(temperature, top_p, top_k)


def test_draws_follow_the_probabilities() -> None:
    """Six standard errors for every token: about one seed in 10^8 would fail, and the seed is fixed."""
    probs = torch.tensor([0.5, 0.0, 0.3, 0.15, 0.05, 0.0])
    count = 200_000
    tokens = draw(probs.expand(count, -1), torch.Generator().manual_seed(5))
    share = torch.bincount(tokens, minlength=6) / count
    assert share[[1, 5]].tolist() == [0.0, 0.0]
    assert bool(((share - probs).abs() <= 6 * (probs * (1 - probs) / count).sqrt()).all())


def test_a_draw_never_runs_off_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that add up to more than 1, or to less, with the largest uniform number there is."""
    monkeypatch.setattr(torch, "rand", lambda rows, *_, **__: torch.full((rows, 1), 1 - 2**-53, dtype=torch.float64))
    probs = torch.tensor([[0.7, 0.3000004, 0.0], [0.2, 0.7, 0.0], [1.0, 0.0, 0.0]])
    assert draw(probs, torch.Generator()).tolist() == [1, 1, 0]
    monkeypatch.setattr(torch, "rand", lambda rows, *_, **__: torch.zeros(rows, 1, dtype=torch.float64))
    assert draw(probs.flip(1), torch.Generator()).tolist() == [1, 1, 2]


def test_draws_with_replacement_are_independent_and_follow_the_rows() -> None:
    probs = torch.tensor([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0]])
    rows = draw_with_replacement(probs.repeat(4000, 1), 2, torch.Generator().manual_seed(1)).view(4000, 2, 2)
    pairs = torch.bincount(rows[:, 0, 0] * 3 + rows[:, 0, 1], minlength=9) / 4000
    torch.testing.assert_close(pairs, torch.outer(probs[0], probs[0]).flatten(), atol=0.035, rtol=0)  # 4 sigma
    assert rows[:, 1].unique().tolist() == [1]


@given(st.integers(1, 5), st.sampled_from([1, 3, 1023, 1024, 1025, 5000]), st.booleans(), st.integers(0, 2**31))
def test_a_draw_is_where_the_running_sums_pass_the_number(rows: int, vocab: int, shared: bool, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    probs = torch.rand(1 if shared else rows, vocab, generator=rng).pow(9)
    probs *= torch.rand(probs.shape, generator=rng) > 0.4
    probs[:, vocab // 2] += 1e-3
    uniform = torch.rand(rows, 7, generator=rng, dtype=torch.float64)
    drawn = draw_independent(probs.numpy(), uniform.numpy())
    weight = probs.expand(rows, -1).double()
    mass = weight.cumsum(-1).gather(1, torch.from_numpy(drawn)) / weight.sum(-1, keepdim=True)
    share = weight.gather(1, torch.from_numpy(drawn)) / weight.sum(-1, keepdim=True)
    assert bool((share > 0).all())
    assert bool((mass >= uniform - 1e-12).all())
    assert bool((mass - share <= uniform + 1e-12).all())
    assert np.array_equal(draw_independent(probs.double().numpy(), uniform.numpy()), drawn)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("peak", [0.6, 1 - 1e-3, 1 - 1e-6])
def test_draws_without_replacement_follow_what_is_left(peak: float, shared: bool) -> None:
    probs = torch.tensor([peak, (1 - peak) * 0.75, (1 - peak) * 0.25])
    rows = probs.expand(8000, -1) if shared else probs.repeat(8000, 1)
    rows = draw_without_replacement(rows, 3, torch.Generator().manual_seed(2))
    assert bool((rows.sort(1).values == torch.arange(3)).all())
    exact = probs.to(torch.float64) / probs.sum(dtype=torch.float64)
    expected = exact[:, None] * exact[None] / (1 - exact[:, None])
    expected.fill_diagonal_(0)
    pairs = torch.bincount(rows[:, 0] * 3 + rows[:, 1], minlength=9).double() / 8000
    sigma = (expected.flatten() / 8000).sqrt()
    assert bool(((pairs - expected.flatten()).abs() <= 4.5 * sigma + 1e-9).all())


@given(st.integers(1, 6), st.integers(2, 40), st.integers(0, 2**31))
def test_no_token_is_drawn_twice_and_none_of_probability_zero(count: int, vocab: int, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    probs = torch.rand(1, vocab, generator=rng).pow(6).mul_(torch.rand(1, vocab, generator=rng) > 0.4)
    probs = probs / probs.sum().clamp_min(1e-9)
    uniform = torch.rand(50, count, generator=rng, dtype=torch.float64)
    rows = torch.from_numpy(draw_distinct(probs.numpy(), uniform.numpy(), LEAST_LEFT))
    assert torch.equal(rows, draw_distinct_on_device(probs, uniform))
    for row in rows.tolist():
        kept = [token for token in row if token >= 0]
        assert len(set(kept)) == len(kept) == min(count, int((probs > 0).sum()))
        assert all(probs[0, token] > 0 for token in kept)


def test_every_row_is_drawn_from_alone() -> None:
    """Rows of which some are nearly used up by the first draw: the others are drawn from as if they were not there."""
    probs = torch.tensor([[0.25, 0.25, 0.5], [1.0, 1e-9, 1e-8], [0.1, 0.9, 0.0]])
    uniform = torch.rand(3, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    together = draw_distinct(probs.numpy(), uniform.numpy(), LEAST_LEFT)
    for row in range(3):
        alone = draw_distinct(probs[row : row + 1].numpy(), uniform[row : row + 1].numpy(), LEAST_LEFT)
        assert together[row].tolist() == alone[0].tolist()
        assert alone[0].tolist() == draw_distinct_on_device(probs[row : row + 1], uniform[row : row + 1])[0].tolist()


@pytest.mark.parametrize("distinct", [True, False])
def test_rows_that_are_drawn_from_at_once_get_what_they_get_one_by_one(distinct: bool) -> None:
    probs = torch.rand(3, 2000, generator=torch.Generator().manual_seed(5)).pow(40)
    shapes = np.array([(1, 4), (5, 2), (3, 1)])
    together = draw_each(probs, shapes, distinct, UniformNumbers(torch.Generator().manual_seed(6)))
    rng, draw_one = torch.Generator().manual_seed(6), draw_without_replacement if distinct else draw_with_replacement
    alone = [
        draw_one(row.expand(n, -1), count, rng) for row, (n, count) in zip(probs.split(1), shapes.tolist(), strict=True)
    ]
    assert together.tolist() == [token for tokens in alone for token in tokens.flatten().tolist()]
    mass = room_for_sums(*probs.shape)
    for row, sums in zip(probs.numpy(), mass, strict=True):
        piece_sums(row, sums)
    known = draw_each(probs, shapes, distinct, UniformNumbers(torch.Generator().manual_seed(6)), mass)
    assert known.tolist() == together.tolist(), "sums that somebody else made"


def test_no_random_number_is_given_twice() -> None:
    numbers, rng = UniformNumbers(torch.Generator().manual_seed(7)), torch.Generator().manual_seed(7)
    taken = [numbers.take(count) for count in (3, 0, 500, UniformNumbers.AHEAD - 500, 2 * UniformNumbers.AHEAD)]
    assert [len(part) for part in taken] == [3, 0, 500, UniformNumbers.AHEAD - 500, 2 * UniformNumbers.AHEAD]
    assert len(np.unique(np.concatenate(taken))) == sum(map(len, taken))
    first = torch.rand(UniformNumbers.AHEAD + 3, generator=rng, dtype=torch.float64)
    assert np.concatenate(taken[:4]).tolist() == first.tolist(), "those of the generator, in its order"


@given(st.integers(1, 6), st.sampled_from([5, 128, 1000]), st.integers(0, 20), st.integers(0, 2**31))
def test_whether_few_tokens_hold_nearly_all_is_told_without_looking_at_all(
    count: int, vocab: int, power: int, seed: int
) -> None:
    probs = torch.rand(vocab, generator=torch.Generator().manual_seed(seed)).pow(power).numpy()
    mass = room_for_sums(1, vocab)[0]
    piece_sums(probs, mass)
    held = np.sort(probs.astype(np.float64))[-count:].sum()
    assert can_hold(probs, mass, count, held * (1 - 1e-9))
    assert not can_hold(probs, mass, count, held * (1 + 1e-9))


def test_nothing_is_left_after_the_last_token_of_a_row() -> None:
    probs = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [1.0, 1.0, 1.0]])
    rows = draw_without_replacement(probs, 3, torch.Generator().manual_seed(3))
    assert rows[0].tolist() == [1, -1, -1]
    assert sorted(rows[1, :2].tolist()) == [0, 2]
    assert rows[1, 2] == -1
    assert sorted(rows[2].tolist()) == [0, 1, 2]

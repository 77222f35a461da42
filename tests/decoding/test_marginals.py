"""top_marginals against float64 arithmetic and a stable sort."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.errors import NonFiniteLogits
from decoding.marginals import top_marginals


def reference(logits, k):
    """Exact order (ties by lower id) and float64 log-probabilities."""
    values = logits.to(torch.float64)
    ordered, token = values.sort(dim=-1, descending=True, stable=True)
    logprob = ordered - values.logsumexp(-1, keepdim=True)
    return token[:, :k].numpy(), logprob[:, :k].numpy()


def check(logits, k):
    got = top_marginals(logits, k)
    token, logprob = reference(logits, min(k, logits.shape[1]))
    assert got.token.tolist() == token.tolist()
    assert got.logprob.shape == logprob.shape
    np.testing.assert_allclose(got.logprob, logprob, rtol=1e-6, atol=2e-6)
    assert (got.logprob <= 0).all()


@pytest.mark.parametrize("vocab", [1, 2, 63, 64, 65, 127, 1000, 8191, 8192, 50_257, 70_001])
@pytest.mark.parametrize("k", [1, 7, 64, 600])
def test_any_vocabulary(vocab, k):
    generator = torch.Generator().manual_seed(vocab + k)
    check(torch.randn(3, vocab, generator=generator) * 4, k)


def test_as_torch_says():
    logits = torch.randn(4, 20_000, generator=torch.Generator().manual_seed(1))
    got = top_marginals(logits, 100)
    expected = logits.log_softmax(-1).topk(100)
    np.testing.assert_allclose(got.logprob, expected.values.numpy(), atol=1e-5)


@pytest.mark.parametrize("k", [1, 16, 200])
def test_ties_go_to_the_lower_id(k):
    generator = torch.Generator().manual_seed(k)
    check(torch.randint(-3, 4, (5, 30_000), generator=generator).float(), k)
    check(torch.zeros(2, 30_000), k)
    check(torch.tensor([[0.0, -0.0] * 20_000]), k)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_types_become_float32(dtype):
    logits = (torch.randn(3, 9_001, generator=torch.Generator().manual_seed(2)) * 5).to(dtype)
    check(logits.to(torch.float32), 50)
    assert top_marginals(logits, 50).token.tolist() == top_marginals(logits.to(torch.float32), 50).token.tolist()


@pytest.mark.parametrize("offset", [-1e4, -200.0, 55.0, 90.0, 1e4])
def test_large_logits_neither_overflow_nor_vanish(offset):
    check(torch.randn(2, 10_000, generator=torch.Generator().manual_seed(3)) + offset, 20)


def test_masked_tokens_have_probability_zero():
    logits = torch.randn(3, 20_000, generator=torch.Generator().manual_seed(4))
    logits[:, ::2] = float("-inf")
    check(logits, 100)
    logits[0] = float("-inf")
    logits[0, 12_345] = 3.0
    got = top_marginals(logits, 4)
    assert got.token[0, 0] == 12_345
    assert got.logprob[0].tolist() == [0.0, -np.inf, -np.inf, -np.inf]


@pytest.mark.parametrize("vocab", [50, 20_000])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", [0, 17, -1])
def test_not_finite(vocab, bad, place):
    logits = torch.randn(3, vocab)
    logits[1, place] = bad
    with pytest.raises(NonFiniteLogits, match="position 2") as caught:
        top_marginals(logits, 5)
    assert caught.value.hint


@pytest.mark.parametrize("vocab", [50, 20_000])
def test_nothing_left_or_nothing_but_nan(vocab):
    with pytest.raises(NonFiniteLogits, match="nothing but -inf"):
        top_marginals(torch.full((1, vocab), float("-inf")), 5)
    with pytest.raises(NonFiniteLogits, match="NaN"):
        top_marginals(torch.full((1, vocab), float("nan")), 5)


def test_bad_arguments():
    for logits, k in ((torch.zeros(3), 1), (torch.zeros(2, 3), 0), (torch.zeros(2, 0), 1)):
        with pytest.raises(ValueError, match="positions, vocab"):
            top_marginals(logits, k)
    assert top_marginals(torch.zeros(0, 5), 2).token.shape == (0, 2)


def test_strided_logits():
    wide = torch.randn(6, 5_000, generator=torch.Generator().manual_seed(5))
    check(wide[1::2], 30)
    check(wide.T[:40, :][:, :6].T[:, :40], 5)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([-2.0, -0.5, 0.0, 1.0, 3.5]), min_size=200, max_size=400), st.integers(1, 40))
def test_few_values_many_ties(values, k):
    check(torch.tensor([values, values[::-1]]), k)


def test_any_number_of_threads_gives_the_same():
    logits = torch.randn(15, 40_000, generator=torch.Generator().manual_seed(6))
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            results.append(top_marginals(logits, 64))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert np.array_equal(results[0].token, other.token)
        assert np.array_equal(results[0].logprob, other.logprob)


@pytest.mark.cuda
def test_cuda():
    logits = torch.randn(4, 9_000, generator=torch.Generator().manual_seed(7))
    here, there = top_marginals(logits, 33), top_marginals(logits.cuda(), 33)
    assert here.token.tolist() == there.token.tolist()
    np.testing.assert_allclose(here.logprob, there.logprob, atol=2e-6)


@pytest.mark.slow
def test_the_size_of_a_real_drafter():
    generator = torch.Generator().manual_seed(8)
    for k in (1, 64, 1024):
        check(torch.randn(15, 151_936, generator=generator) * 3, k)
        check((torch.randn(15, 151_936, generator=generator) * 3).bfloat16().float(), k)

"""Rows shared between threads."""

import os

import numpy as np
import pytest
import torch

from decoding.host_rows import WORTH_HELPERS, new_found, read_into, read_rows, soft_rows
from decoding.kernels.reading import Asked


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("rows", [0, 1, 2, 50])
def test_every_row_is_read_once(threads: int, rows: int) -> None:
    vocab = 4099
    assert 50 * vocab > WORTH_HELPERS > 2 * vocab
    logits = torch.randn(rows, vocab, generator=torch.Generator().manual_seed(rows)) * 3
    row = np.sort(np.random.default_rng(0).integers(0, max(1, rows), 3 * rows))
    token = np.random.default_rng(1).integers(0, vocab, 3 * rows).astype(np.int32)
    place = np.random.default_rng(2).permutation(3 * rows)
    asked = Asked(np.searchsorted(row, np.arange(rows + 1)), place, token)
    found = new_found(rows, 8, asked=3 * rows)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for first in range(0, rows, 20):  # in two pieces or one
            read_into(found, asked, logits[first : first + 20], first)
        soft = soft_rows(logits, 1.0)
    finally:
        torch.set_num_threads(before)
    best, logprobs = logits.topk(8), logits.double().log_softmax(-1)
    assert np.array_equal(found.value, best.values.numpy())
    assert np.array_equal(found.column, best.indices.numpy())
    np.testing.assert_allclose(found.value[:, 0] + found.normaliser, logits.double().logsumexp(-1), atol=1e-5)
    np.testing.assert_allclose(found.entropy, -(logprobs.exp() * logprobs).sum(-1), atol=1e-4)
    np.testing.assert_allclose(found.logprob, logprobs.gather(1, best.indices), atol=1e-5)
    pairs = [(r, int(token[p])) for r, p in zip(row, place, strict=True)]
    assert found.rank[place].tolist() == [1 + int((logits[r] > logits[r, t]).sum()) for r, t in pairs]
    np.testing.assert_allclose(found.asked_logprob[place], [float(logprobs[r, t]) for r, t in pairs], atol=1e-5)
    torch.testing.assert_close(soft.double(), logprobs.exp(), atol=1e-9, rtol=2e-5)


def test_few_columns_are_read_to_the_last() -> None:
    """Where a row is not much longer than the blocks are high, what is left over is longer than a block is wide."""
    for vocab in range(1, 300):
        logits = torch.randn(4, vocab, generator=torch.Generator().manual_seed(vocab))
        for k in {1, min(3, vocab), min(9, vocab)}:
            best = read_rows(logits, k)
            assert np.array_equal(best.value, logits.topk(k).values.numpy()), (vocab, k)


@pytest.mark.parametrize("vocab", [1, 5, 4096, 4099, 49_152])
@pytest.mark.parametrize("temperature", [0.05, 0.7, 1.0, 30.0])
def test_softmax_is_torch_s(vocab: int, temperature: float) -> None:
    logits = torch.randn(5, vocab, generator=torch.Generator().manual_seed(vocab)) * 8
    logits[3, vocab // 2 :] = float("-inf")
    logits[3, 0] = -3.0
    found, wanted = soft_rows(logits, temperature), (logits.double() / temperature).softmax(-1)
    torch.testing.assert_close(found.double(), wanted, atol=1e-9, rtol=2e-5)
    torch.testing.assert_close(found.double().sum(-1), torch.ones(5, dtype=torch.float64), atol=1e-6, rtol=0)


def test_a_softmax_of_what_is_not_finite_is_nan_as_torch_s_is() -> None:
    logits = torch.zeros(4, 40)
    logits[0, 3], logits[1, 3], logits[2] = float("nan"), float("inf"), float("-inf")
    found = soft_rows(logits, 1.0)
    assert found.isnan().all(dim=1).tolist() == logits.softmax(-1).isnan().all(dim=1).tolist() == [True] * 3 + [False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_makes_threads_of_its_own() -> None:
    logits = torch.randn(80, 5000, generator=torch.Generator().manual_seed(0))
    column = read_rows(logits, 8).column
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(read_rows(logits, 8).column, column) else 1)
    assert os.waitpid(child, 0)[1] == 0

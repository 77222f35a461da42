"""The two-stage top-k and the cached normaliser against torch and float64."""

import numpy as np
import pytest
import torch

from decoding.topk import _top_k_on_device, log_mass, moments, top_k

VOCABS = [1, 2, 5, 31, 255, 256, 257, 1003, 4097, 20000]


def rows(kind: str, vocab: int, count: int = 5) -> torch.Tensor:
    rng = torch.Generator().manual_seed(vocab)
    normal = torch.randn(count, vocab, generator=rng) * 4
    match kind:
        case "normal":
            return normal
        case "coarse":  # many ties, as from a bfloat16 head
            return normal.to(torch.bfloat16).float()
        case "two values":
            return (normal > 0).float()
        case "one value":
            return torch.full_like(normal, -0.0).masked_fill(normal > 0, 0.0)
        case "rising":
            return torch.arange(vocab, dtype=torch.float32).expand(count, -1).contiguous()
    raise ValueError(kind)


@pytest.mark.parametrize("kind", ["normal", "coarse", "two values", "one value", "rising"])
@pytest.mark.parametrize("vocab", VOCABS)
@pytest.mark.parametrize("k", [1, 3, 8, 64])
def test_top_k_is_exact(kind: str, vocab: int, k: int) -> None:
    logits = rows(kind, vocab)
    check(logits, k, *_top_k_on_device(logits, min(k, vocab)))
    values, indices = top_k(logits, k)
    check(logits, k, values, indices)
    assert torch.equal(indices, logits.sort(dim=1, descending=True, stable=True).indices[:, :k])


def check(logits: torch.Tensor, k: int, values: torch.Tensor, indices: torch.Tensor) -> None:
    vocab = logits.shape[1]
    assert torch.equal(values, logits.topk(min(k, vocab)).values)
    assert torch.equal(logits.gather(1, indices), values)
    assert torch.equal(indices[:, 0], logits.argmax(1))
    assert all(len(set(row)) == len(row) for row in indices.tolist())
    tied = values[:, 1:] == values[:, :-1]
    assert bool((indices[:, 2:] > indices[:, 1:-1])[tied[:, 1:]].all())


def test_top_k_reads_slices() -> None:
    logits = rows("normal", 4097, 8)[2:6, 3:4003]
    assert torch.equal(top_k(logits, 8).values, logits.topk(8).values)


def test_top_k_shows_nan_and_infinity() -> None:
    logits = rows("normal", 1003)
    logits[0, 700], logits[1, 5], logits[2, :] = float("nan"), float("inf"), float("-inf")
    values = top_k(logits, 8).values
    assert torch.isnan(values[0, 0])
    assert values[1, 0] == float("inf")
    assert bool((values[2] == float("-inf")).all())


@pytest.mark.parametrize("vocab", VOCABS)
@pytest.mark.parametrize("shift", [0.0, 300.0, -300.0])
def test_log_mass_and_moments(vocab: int, shift: float) -> None:
    logits = rows("normal", vocab) + shift
    exact = logits.double().numpy()
    probs = np.exp(exact - exact.max(1, keepdims=True))
    log_total = exact.max(1) + np.log(probs.sum(1))
    probs /= probs.sum(1, keepdims=True)
    entropy = -(probs * np.log(np.maximum(probs, 1e-300))).sum(1)
    peak = logits.amax(1)
    np.testing.assert_allclose(log_mass(logits, peak).numpy(), log_total - exact.max(1), rtol=1e-6, atol=3e-6)
    found = moments(logits, logits.amax(1))
    np.testing.assert_allclose(found.normaliser.numpy(), log_total, rtol=1e-6, atol=2e-6)
    np.testing.assert_allclose(found.entropy.numpy(), entropy, atol=3e-5 if shift == 0 else 3e-4)


def test_argmax_takes_the_lowest_index_on_ties() -> None:
    """Plain greedy decoding uses torch.argmax, and top_k must agree with it: this pins what it does on a CPU."""
    for vocab in (7, 1000, 49152):
        for dtype in (torch.float32, torch.bfloat16):
            logits = torch.randint(0, 3, (4, vocab), generator=torch.Generator().manual_seed(vocab)).to(dtype)
            lowest = [int((row == row.max()).nonzero()[0]) for row in logits]
            assert logits.argmax(-1).tolist() == lowest
            assert [int(row.argmax()) for row in logits] == lowest
            assert top_k(logits.float(), 8).indices[:, 0].tolist() == lowest

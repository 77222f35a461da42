"""Which products training takes is decided by their time."""

from collections.abc import Iterator

import pytest
import torch

from decoding.training import precision


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What a process has decided is decided anew, before and after."""
    precision.product_dtype.cache_clear()
    yield
    precision.product_dtype.cache_clear()


@pytest.mark.parametrize(
    ("exact", "short", "wanted"),
    [(1.0, 0.3, torch.bfloat16), (1.0, 0.9, torch.float32), (1.0, 3.0, torch.float32)],
)
def test_a_cpu_takes_bfloat16_where_that_is_clearly_faster(
    exact: float, short: float, wanted: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {torch.float32: exact, torch.bfloat16: short}
    monkeypatch.setattr(precision, "_seconds", lambda matrix: seconds[matrix.dtype])
    assert precision.product_dtype(torch.device("cpu")) == wanted


def test_both_products_are_timed_and_a_gpu_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "WIDTH", 32)
    timed = []
    real = precision._seconds
    monkeypatch.setattr(
        precision, "_seconds", lambda matrix: timed.append((matrix.dtype, real(matrix))) or timed[-1][1]
    )
    assert precision.product_dtype(torch.device("cuda")) == torch.bfloat16
    assert timed == []
    precision.product_dtype(torch.device("cpu"))
    assert [dtype for dtype, _ in timed] == [torch.float32, torch.bfloat16]
    assert all(0 < seconds < float("inf") for _, seconds in timed)

"""The largest of floats, found among integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.kernels.rows import largest


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=80))
def test_the_largest_is_numpy_s(values: list[float]) -> None:
    row = np.array(values, np.float32)
    assert largest(row) == row.max(initial=-np.inf)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_nan_is_the_largest_or_passed_over(sign: float) -> None:
    row = np.array([-3.0, np.copysign(np.nan, sign), 2.0], np.float32)
    assert np.array_equal(largest(row), np.nan if sign > 0 else 2.0, equal_nan=True)

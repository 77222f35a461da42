"""Products of a few rows: right, the same for a row among others and alone, and the same whoever does them."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decoding.kernels.linear import linear
from decoding.kernels.tiles import LANES, VECTORS, mixtures
from decoding.types import Floats

sizes = st.integers(1, 75)


def numbers(rng: np.random.Generator, *shape: int) -> Floats:
    return rng.standard_normal(shape, dtype=np.float32)


@given(sizes, sizes, st.integers(1, 150), st.integers(0, 2**32 - 1))
def test_a_product_is_the_product(rows: int, outs: int, ins: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = numbers(rng, rows, ins), numbers(rng, outs, ins)
    exact = x.astype(np.float64) @ w.T.astype(np.float64)
    bound = np.abs(x.astype(np.float64)) @ np.abs(w.T.astype(np.float64))
    assert (np.abs(linear(x, w) - exact) <= 1e-6 * bound + 1e-30).all()


@given(sizes, sizes, st.integers(1, 150), st.integers(0, 2**32 - 1))
def test_a_row_has_the_same_bits_alone(rows: int, outs: int, ins: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = numbers(rng, rows, ins), numbers(rng, outs, ins)
    together = linear(x, w)
    for row in range(rows):
        np.testing.assert_array_equal(linear(x[row : row + 1], w)[0], together[row])


@given(sizes, sizes, st.integers(1, 150), st.integers(0, 2**32 - 1))
def test_weights_in_bfloat16_count_for_what_they_are(rows: int, outs: int, ins: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = numbers(rng, rows, ins), torch.from_numpy(numbers(rng, outs, ins)).to(torch.bfloat16)
    np.testing.assert_array_equal(linear(x, w.view(torch.int16).numpy()), linear(x, w.float().numpy()))


def test_any_number_of_threads_gives_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    x, w = numbers(rng, 9, 64), numbers(rng, 500, 64)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(linear(x, w))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_several_crews_at_once_do_not_meet() -> None:
    rng = np.random.default_rng(0)
    w = numbers(rng, 300, 96)
    inputs = [numbers(rng, rows, 96) for rows in range(1, 40)]
    expected = [linear(x, w) for x in inputs]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda x: linear(x, w), inputs * 5))
    for place, result in enumerate(found):
        np.testing.assert_array_equal(result, expected[place % len(inputs)])


def _in_child(pipe: Connection, x: Floats, w: Floats) -> None:
    pipe.send(linear(x, w))


def test_a_forked_process_has_threads_of_its_own() -> None:
    """ZeroGPU forks a worker for every call."""
    rng = np.random.default_rng(0)
    x, w = numbers(rng, 9, 64), numbers(rng, 500, 64)
    expected = linear(x, w)
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(theirs, x, w))
    child.start()
    assert ours.poll(60)
    np.testing.assert_array_equal(ours.recv(), expected)
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("width", [3, LANES * VECTORS, LANES * VECTORS + 5, 128])
def test_weighted_sums_of_rows(rows: int, width: int) -> None:
    rng = np.random.default_rng(0)
    share, matrix, y = numbers(rng, rows, 23), numbers(rng, 17, width), np.full((rows, width + 2), 7, np.float32)
    mixtures(share.ctypes.data, rows, 23, 17, matrix.ctypes.data, width, y.ctypes.data, width + 2)
    np.testing.assert_allclose(y[:, :width], share[:, :17] @ matrix, rtol=1e-5, atol=1e-5)
    assert (y[:, width:] == 7).all()


def test_what_is_not_a_number_stays_so() -> None:
    x, w = np.ones((3, 40), np.float32), np.ones((8, 40), np.float32)
    x[1, 39] = np.nan
    assert np.isnan(linear(x, w)).all(axis=1).tolist() == [False, True, False]

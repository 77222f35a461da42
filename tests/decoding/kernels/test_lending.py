"""What is lent is the same memory, counted by nobody."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decoding.kernels import compiled
from decoding.kernels.lending import lent


class Part(NamedTuple):
    numbers: NDArray[np.float64]
    factor: float


class Whole(NamedTuple):
    part: Part
    many: tuple[NDArray[np.int32], NDArray[np.int32]]
    out: NDArray[np.float64]


@compiled
def borrowed_sum(owned: Whole) -> float:
    whole = lent(owned)
    total = 0.0
    for number in whole.part.numbers[1:]:
        total += whole.part.factor * number
    for ids in whole.many:
        total += ids.sum()
    whole.out[0] = total
    return total


@compiled
def made_and_lent(count: int) -> NDArray[np.float64]:
    numbers, out = np.arange(count).astype(np.float64), np.empty(1)
    borrowed_sum(Whole(Part(numbers, 2.0), (np.ones(3, np.int32), np.ones(4, np.int32)), out))
    return out


def test_tuples_of_arrays_and_numbers_keep_what_they_hold() -> None:
    out = np.zeros(1)
    whole = Whole(Part(np.array([9.0, 1.0, 2.0]), 3.0), (np.array([1], np.int32), np.array([4, 5], np.int32)), out)
    assert borrowed_sum(whole) == 3 * (1 + 2) + 1 + 4 + 5
    assert out[0] == 19, "written to the owner's memory"


def test_what_is_lent_is_there_as_long_as_its_owner() -> None:
    """Memory that was let go of too early, or twice, would be given to one of the next."""
    for _ in range(2000):
        assert made_and_lent(1000)[0] == 2 * 999 * 500 + 7

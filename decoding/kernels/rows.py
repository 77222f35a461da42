"""Wide rows of float32 logits on a CPU: what may be among the k largest, sums of exponentials, and softmax.

The row is read twice, in loops that compile to vector instructions. The first read takes the maxima of interleaved
blocks. Their k-th largest is a floor: k blocks reach it, so at least k entries do, and only the blocks that reach it
are looked into. The second read adds up the exponentials while the row is still near the core.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from decoding.kernels import compiled, compiled_with
from decoding.types import Floats, Ints

PIECE = 4096
"""Exponentials are taken in pieces of so many, which stay in the first-level cache."""

LOWEST = np.float32(-88.0)  # rounds to -127 powers of two, whose bits are those of zero
LOG2_E = np.float32(1.44269504088896341)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
ROUNDING = np.float32(12582912.0)  # 1.5 * 2**23: adding it leaves no bits for fractions
# exp(r) = 1 + r + r^2 * (...) for |r| <= ln(2) / 2, as in the Cephes library's expf.
C0, C1, C2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
C3, C4, C5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
ZERO, ONE = np.float32(0.0), np.float32(1.0)
LARGEST = np.float32(80.0)
"""exp(80) is still a float32."""


class Sums(NamedTuple):
    """Sums over one row; NaN where the row holds NaN."""

    mass: float
    """Sum of `exp(x - peak)`."""
    dot: float
    """Sum of `exp(x - peak) * (x - peak)`; not finite where the row is not."""


@compiled
def candidates(row: Floats, k: int, maxima: Floats, keys: NDArray[np.int64]) -> int:
    """Writes a key for every entry of `row` `[vocab]` that may be among the k largest; returns how many.

    Sorted keys stand for the entries from the largest down, equal ones by rising column; see `_key`. At least k
    keys are written, except that NaN is passed over. `maxima` `[vocab]` is written on; `keys` is `[vocab]`.

    With k = 2 and blocks of two, [3 1 4 1 | 5 9 2 6] has the block maxima [5 9 4 6], so the floor is 6: only blocks 1
    and 3 (columns 1, 5 and 3, 7) are looked into, and the keys of 9 and 6 are written.
    """
    vocab, bits = len(row), row.view(np.int32)
    height = 16 if vocab >= 32 * k else 4 if vocab >= 8 * k else 1
    width = vocab // height
    _fold(row, height, maxima)
    size, start = width, 0
    while size >= 8 * k and start + size + size // 4 <= vocab:  # 2k groups hold a k-th largest that is close to exact
        _fold(maxima[start : start + size], 4, maxima[start + size :])
        start, size = start + size, size // 4
    if size < k:
        floor = np.float32(-np.inf)
    else:
        scratch = keys.view(np.float32)[:size]
        for i in range(size):
            scratch[i] = maxima[start + i]
        floor = _nth_largest(scratch, k)
    count = 0
    for block in range(width):
        if maxima[block] >= floor:
            for column in range(block, vocab, width):
                if row[column] >= floor:
                    keys[count] = _key(bits[column], column)
                    count += 1
    return count


@compiled
def _key(bits: int, column: int) -> int:
    """Sorts by falling value, then by rising column.

    The bits of a float, with those of negative numbers turned over, sort like integers, and the column takes the
    other half of the key.
    """
    number = np.int64(bits)
    if number == -(1 << 31):  # -0.0, which equals 0.0
        number = np.int64(0)
    elif number < 0:
        number ^= np.int64(0x7FFFFFFF)
    return (~number << np.int64(32)) | np.int64(column)


@compiled
def _fold(values: Floats, height: int, maxima: Floats) -> None:
    """Maxima of `values[j], values[j + width], ...` for every j below width = size // height; NaN is passed over."""
    size = len(values)
    width = size // height
    for start in range(0, width, 2048):  # few enough to stay in the first-level cache
        stop = min(start + 2048, width)
        part = maxima[start:stop]
        for i in range(len(part)):
            part[i] = -np.inf
        for step in range(height):
            _raise(part, values[step * width + start : step * width + stop])
    for start in range(height * width, size, max(width, 1)):  # more than one piece where there are few values
        stop = min(start + width, size)
        _raise(maxima[: stop - start], values[start:stop])


@compiled
def _raise(maxima: Floats, values: Floats) -> None:
    for i in range(len(maxima)):
        maxima[i] = values[i] if values[i] > maxima[i] else maxima[i]


@compiled
def _nth_largest(values: Floats, n: int) -> float:
    """The n-th largest of `values`, which are put into another order (Hoare's quickselect); no NaN among them."""
    low, high, place = 0, len(values) - 1, n - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return values[place]


@intrinsic  # type: ignore[untyped-decorator]
def _float_of(_: Any, bits: Any) -> Any:
    """The float32 with the bits of an int32."""

    def codegen(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), codegen


@compiled
def largest(values: Floats) -> float:
    """The largest of `values`, -inf of none; a NaN with no sign is larger than all, one with a sign is passed over.

    As integers, whose maximum, unlike that of floats, compiles to vector instructions: the bits of a float, with those
    of negative numbers turned over, sort as it does.
    """
    top, turned = np.int32(-0x7F800001), np.int32(0x7FFFFFFF)
    bits = values.view(np.int32)
    for i in range(len(bits)):
        number = bits[i] ^ ((bits[i] >> np.int32(31)) & turned)
        top = max(top, number)
    return _float_of(np.int32(top ^ ((top >> np.int32(31)) & turned)))


@compiled
def sums(row: Floats, peak: float) -> Sums:
    """The sums over `row` `[vocab]`, whose largest entry is `peak`; in float32 within a piece, in float64 beyond."""
    exponent = np.empty(PIECE, np.int32)
    power = exponent.view(np.float32)
    rest = np.empty(PIECE, np.float32)
    mass, dot = 0.0, 0.0
    for start in range(0, len(row), PIECE):
        piece = row[start : start + PIECE]
        split_exponentials(piece, peak, exponent, rest)
        added = _add(piece, peak, power, rest)
        mass += added.mass
        dot += added.dot
    return Sums(mass, dot)


@compiled_with({"contract"})
def split_exponentials(piece: Floats, peak: float, exponent: Ints, rest: Floats) -> None:
    """`exp(x - peak)` as a product: the bits of a power of two, and the `rest`, between 0.7 and 1.42.

    Apart from `_add` because the compiler must not regroup the sums with `ROUNDING`.
    """
    for i in range(len(piece)):
        x = piece[i] - peak
        x = LOWEST if x < LOWEST else x  # NaN stays
        power = (x * LOG2_E + ROUNDING) - ROUNDING
        r = x - power * LN2_HIGH - power * LN2_LOW
        p = ((((C0 * r + C1) * r + C2) * r + C3) * r + C4) * r + C5
        rest[i] = p * r * r + r + ONE
        exponent[i] = (np.int32(power) + np.int32(127)) << np.int32(23)


@compiled
def silu(values: Floats, negated: Floats, exponent: Ints, rest: Floats) -> None:
    """`x / (1 + exp(-x))` of all `values`, in place; the others are scratch, as long."""
    for i in range(len(values)):
        negated[i] = min(-values[i], LARGEST)
    split_exponentials(negated, ZERO, exponent, rest)
    power = exponent.view(np.float32)
    for i in range(len(values)):
        values[i] = values[i] / (ONE + power[i] * rest[i])


@compiled
def soften(row: Floats, temperature: float, out: Floats) -> None:
    """Writes the softmax of `row / temperature` `[vocab]` to `out` `[vocab]`; NaN where the row holds NaN or +inf.

    The largest entry is subtracted first: no temperature above 0 is small enough to make it infinite.
    """
    exponent = np.empty(PIECE, np.int32)
    power = exponent.view(np.float32)
    rest = np.empty(PIECE, np.float32)
    peak = largest(row)
    mass, zero, cold = 0.0, np.float32(0.0), np.float32(temperature)
    for start in range(0, len(row), PIECE):
        piece = out[start : start + PIECE]
        for i in range(len(piece)):
            piece[i] = (row[start + i] - peak) / cold
        split_exponentials(piece, zero, exponent, rest)
        mass += multiply(power, rest, piece)
    share = np.float32(1.0 / mass)
    for i in range(len(out)):
        out[i] *= share


@compiled_with({"contract", "reassoc", "nsz"})
def multiply(power: Floats, rest: Floats, out: Floats) -> float:
    """Writes the products to `out` and returns their sum."""
    mass = np.float32(0.0)
    for i in range(len(out)):
        out[i] = power[i] * rest[i]
        mass += out[i]
    return mass


@compiled_with({"contract", "reassoc", "nsz"})
def _add(piece: Floats, peak: float, power: Floats, rest: Floats) -> Sums:
    mass, dot = np.float32(0.0), np.float32(0.0)
    for i in range(len(piece)):
        weight = power[i] * rest[i]
        mass += weight
        dot += weight * (piece[i] - peak)
    return Sums(mass, dot)


@compiled
def rank_of(row: Floats, column: int) -> int:
    """1 + how many entries of `row` `[vocab]` are larger than the one at `column`."""
    bound, rank = row[column], 1
    for start in range(0, len(row), PIECE):
        piece = row[start : start + PIECE]
        larger = np.int32(0)  # as wide as the entries, so that the loop is vectorised
        for i in range(len(piece)):
            larger += np.int32(1) if piece[i] > bound else np.int32(0)
        rank += larger
    return rank

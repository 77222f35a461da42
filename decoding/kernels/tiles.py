"""Products of a few rows with a large matrix, `x W^T`, that keep up with memory: a tree's worth of work on a CPU.

Up to four rows of `x` and six of `W` meet in registers: every number of `W` that is fetched serves up to four rows, and
while one group of its rows is in use, the next is fetched into the second-level cache: a core waits for few lines of
the first level at a time, too few to keep memory busy. Libraries' products are made for many rows: on two cores of
a Xeon they take as long for 8 rows as this takes for 32.

Every sum is added up in the same order, whatever number of rows it is computed among, so that a row's result has the
same bits in a tree of any shape, and alone.
"""

from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from decoding.kernels import compiled, compiled_apart

OUTS = 6
"""Rows of `W` in a tile: with four rows of `x` they leave no vector register unused where there are 32."""
BLOCK = 64
"""Rows of `x` that are gone through before the next rows of `W`: they stay in the second-level cache."""

FLOAT32, BFLOAT16 = 4, 2
"""Bytes of a number of `W`. One in bfloat16 is widened, which is exact, as it is read: half as much to fetch."""

_FLOAT, _SIZE, _INT32, _INT16 = ir.FloatType(), ir.IntType(64), ir.IntType(32), ir.IntType(16)


def _lanes() -> int:
    features = llvm.get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx2") else 4


LANES = _lanes()
"""Floats in a vector register of this processor."""
VECTORS = 4 if LANES == 16 else 2
"""Registers in which a row's weighted sums are kept: as many as four rows leave room for."""


def _constant(value: int) -> ir.Constant:
    return ir.Constant(_SIZE, value)


def _fused(builder: Any, x: Any, w: Any, total: Any) -> Any:
    """`x * w + total`, rounded once."""
    kind = x.type
    name = f"llvm.fma.v{kind.count}f32" if isinstance(kind, ir.VectorType) else "llvm.fma.f32"
    return builder.call(
        cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name), [x, w, total]
    )


def _shuffled(builder: Any, first: Any, second: Any, lanes: list[int]) -> Any:
    """The entries `lanes` of two vectors, those of the second counted on."""
    order = ir.Constant(ir.VectorType(_INT32, len(lanes)), lanes)
    return builder.shuffle_vector(first, second, order)


def _sums(builder: Any, vectors: list[Any]) -> list[Any]:
    """The sum of each vector's entries.

    A vector's halves are added, then the halves of that, until one entry is left. Vectors are folded together: the
    halves of two fill one register, those of four the next. So nothing is added twice as often as it must be.
    """
    width, parts = LANES, list(vectors)
    while width > 1:
        if len(parts) % 2:
            parts.append(parts[-1])
        half, pairs = width // 2, []
        for first, second in zip(parts[::2], parts[1::2], strict=True):
            starts = range(0, 2 * LANES, width)
            low, high = (
                _shuffled(
                    builder, first, second, [start + lane for start in starts for lane in range(shift, shift + half)]
                )
                for shift in (0, half)
            )
            pairs.append(builder.fadd(low, high))
        parts, width = pairs, half
    places = (divmod(place, LANES) for place in range(len(vectors)))
    return [builder.extract_element(parts[part], ir.Constant(_INT32, lane)) for part, lane in places]


def _tile(rows: int, outs: int, size: int) -> Any:
    """The product of `rows` rows of x and `outs` rows of W, of numbers of `size` bytes, as an intrinsic of numba."""

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(_: Any, x: Any, ldx: Any, w: Any, k: Any, y: Any, ldy: Any, ahead: Any, count: Any) -> Any:
        """Addresses of the first numbers, row lengths of x and y, and `count` rows of W to fetch from `ahead` on."""

        def codegen(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            x, ldx, w, k, y, ldy, ahead, count = arguments
            vector = ir.VectorType(_FLOAT, LANES)
            zero, one, step = _constant(0), _constant(1), _constant(LANES)

            def behind(base: Any, numbers: Any, size: int = FLOAT32) -> Any:
                return builder.add(base, builder.mul(numbers, _constant(size)))

            def row_of(base: Any, row: int, length: Any, size: int = FLOAT32) -> Any:
                return behind(base, builder.mul(_constant(row), length), size)

            def load(base: Any, index: Any, kind: Any) -> Any:
                return builder.load(builder.inttoptr(behind(base, index), kind.as_pointer()), align=4)

            def load_weights(base: Any, index: Any, kind: Any) -> Any:
                if size == FLOAT32:
                    return load(base, index, kind)
                lanes = kind.count if isinstance(kind, ir.VectorType) else 0
                bits, wide = (ir.VectorType(of, lanes) if lanes else of for of in (_INT16, _INT32))
                pointer = builder.inttoptr(behind(base, index, size), bits.as_pointer())
                upper = ir.Constant(wide, [16] * lanes if lanes else 16)
                return builder.bitcast(builder.shl(builder.zext(builder.load(pointer, align=2), wide), upper), kind)

            left = [row_of(x, row, ldx) for row in range(rows)]
            right = [row_of(w, out, k, size) for out in range(outs)]

            def add_products(index: Any, kind: Any, totals: list[Any]) -> None:
                numbers = [load_weights(base, index, kind) for base in right]
                for row, base in enumerate(left):
                    number = load(base, index, kind)
                    for out in range(outs):
                        total = totals[row * outs + out]
                        builder.store(_fused(builder, number, numbers[out], builder.load(total)), total)

            empty = ir.Constant(vector, [0.0] * LANES)
            lanes = [cgutils.alloca_once_value(builder, empty) for _ in range(rows * outs)]
            whole = builder.and_(k, _constant(-LANES))
            with cgutils.for_range_slice(builder, zero, whole, step) as (index, _):
                with cgutils.for_range_slice(builder, zero, count, one) as (row, _):
                    _fetch(builder, behind(ahead, builder.add(builder.mul(row, k), index), size))
                add_products(index, vector, lanes)
            sums = []
            for start in range(0, rows * outs, outs):
                folded = _sums(builder, [builder.load(part) for part in lanes[start : start + outs]])
                sums += [cgutils.alloca_once_value(builder, value) for value in folded]
            with cgutils.for_range_slice(builder, whole, k, one) as (index, _):
                add_products(index, _FLOAT, sums)
            for row in range(rows):
                for out in range(outs):
                    place = builder.add(row_of(y, row, ldy), _constant(4 * out))
                    value = builder.load(sums[row * outs + out])
                    builder.store(value, builder.inttoptr(place, _FLOAT.as_pointer()), align=4)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8), codegen

    return tile


def _blend(rows: int) -> Any:
    """Weighted sums of the rows of a matrix, `VECTORS` registers wide, for `rows` rows of weights."""

    @intrinsic  # type: ignore[untyped-decorator]
    def blend(_: Any, share: Any, lds: Any, count: Any, matrix: Any, ldm: Any, y: Any, ldy: Any) -> Any:
        """Addresses, how far rows are apart, and the `count` of rows that are added up."""

        def codegen(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            share, lds, count, matrix, ldm, y, ldy = arguments
            vector = ir.VectorType(_FLOAT, LANES)
            every = ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES)
            empty, nothing = ir.Constant(vector, [0.0] * LANES), ir.Constant(vector, ir.Undefined)

            def at(base: Any, row: Any, length: Any, offset: int = 0) -> Any:
                place = builder.add(base, builder.shl(builder.mul(row, length), _constant(2)))
                return builder.add(place, _constant(4 * offset))

            sums = [[cgutils.alloca_once_value(builder, empty) for _ in range(VECTORS)] for _ in range(rows)]
            with cgutils.for_range_slice(builder, _constant(0), count, _constant(1)) as (index, _):
                numbers = []
                for part in range(VECTORS):
                    place = at(matrix, index, ldm, part * LANES)
                    numbers.append(builder.load(builder.inttoptr(place, vector.as_pointer()), align=4))
                for row in range(rows):
                    place = builder.add(at(share, _constant(row), lds), builder.shl(index, _constant(2)))
                    weight = builder.load(builder.inttoptr(place, _FLOAT.as_pointer()), align=4)
                    weight = builder.insert_element(nothing, weight, ir.Constant(_INT32, 0))
                    weight = builder.shuffle_vector(weight, nothing, every)
                    for part in range(VECTORS):
                        total = sums[row][part]
                        builder.store(_fused(builder, weight, numbers[part], builder.load(total)), total)
            for row in range(rows):
                for part in range(VECTORS):
                    place = at(y, _constant(row), ldy, part * LANES)
                    value = builder.load(sums[row][part])
                    builder.store(value, builder.inttoptr(place, vector.as_pointer()), align=4)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), codegen

    return blend


def _fetch(builder: Any, place: Any) -> None:
    """Asks for a line of memory that will be read soon."""
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, _INT32, _INT32, _INT32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    to_read, second_level, data = (ir.Constant(_INT32, value) for value in (0, 2, 1))
    builder.call(function, [builder.inttoptr(place, pointer), to_read, second_level, data])


@intrinsic  # type: ignore[untyped-decorator]
def number_at(_: Any, address: Any) -> Any:
    """The float32 at an address."""

    def codegen(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _FLOAT.as_pointer()), align=4)

    return types.float32(types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def write_number(_: Any, address: Any, value: Any) -> Any:
    """Sets the float32 at an address."""

    def codegen(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], _FLOAT.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(types.intp, types.float32), codegen


_one, _two, _three, _four = (_tile(rows, OUTS, FLOAT32) for rows in (1, 2, 3, 4))
_one_narrow, _two_narrow, _three_narrow, _four_narrow = (_tile(rows, OUTS, BFLOAT16) for rows in (1, 2, 3, 4))
_one_by_one, _one_by_one_narrow = _tile(1, 1, FLOAT32), _tile(1, 1, BFLOAT16)


@compiled_apart("canopy_product", 10)
def product(x: int, rows: int, ldx: int, w: int, size: int, outs: int, k: int, y: int, ldy: int, then: int) -> None:
    """Writes `y[r, o] = sum over j of x[r, j] * w[o, j]` for `rows` rows and `outs` outputs of length `k`.

    `x`, `w` and `y` are addresses of float32 numbers, those of w of `size` bytes (see `BFLOAT16`), `ldx` and `ldy`
    how far the rows of x and y are apart, in numbers; the rows of w follow each other. At the end, what begins at
    `then` is fetched: the next that the calling thread reads.
    """
    whole = outs - outs % OUTS
    blocks = (rows + BLOCK - 1) // BLOCK
    for block in range(blocks):
        first, last = block * rows // blocks, (block + 1) * rows // blocks
        groups = (last - first + 3) // 4
        for out in range(0, whole, OUTS):
            tile = w + size * out * k
            for group in range(groups):
                start = first + group * (last - first) // groups
                count = first + (group + 1) * (last - first) // groups - start
                from_x, to_y = x + 4 * start * ldx, y + 4 * (start * ldy + out)
                # Each group of rows asks for its share of the next tile.
                asked_from = group * OUTS // groups
                asked = (group + 1) * OUTS // groups - asked_from
                ahead = (tile + size * k * OUTS if out + OUTS < whole else then) + size * k * asked_from
                if size == BFLOAT16:
                    if count == 4:
                        _four_narrow(from_x, ldx, tile, k, to_y, ldy, ahead, asked)
                    elif count == 3:
                        _three_narrow(from_x, ldx, tile, k, to_y, ldy, ahead, asked)
                    elif count == 2:
                        _two_narrow(from_x, ldx, tile, k, to_y, ldy, ahead, asked)
                    else:
                        _one_narrow(from_x, ldx, tile, k, to_y, ldy, ahead, asked)
                elif count == 4:
                    _four(from_x, ldx, tile, k, to_y, ldy, ahead, asked)
                elif count == 3:
                    _three(from_x, ldx, tile, k, to_y, ldy, ahead, asked)
                elif count == 2:
                    _two(from_x, ldx, tile, k, to_y, ldy, ahead, asked)
                else:
                    _one(from_x, ldx, tile, k, to_y, ldy, ahead, asked)
        for out in range(whole, outs):
            for row in range(first, last):
                from_x, to_y = x + 4 * row * ldx, y + 4 * (row * ldy + out)
                if size == BFLOAT16:
                    _one_by_one_narrow(from_x, ldx, w + size * out * k, k, to_y, ldy, 0, 0)
                else:
                    _one_by_one(from_x, ldx, w + size * out * k, k, to_y, ldy, 0, 0)


_blend_one, _blend_two, _blend_three, _blend_four = (_blend(rows) for rows in (1, 2, 3, 4))


@compiled
def mixtures(share: int, rows: int, lds: int, count: int, matrix: int, width: int, y: int, ldy: int) -> None:
    """Writes `y[r, c] = sum over j of share[r, j] * matrix[j, c]` for `rows` rows and `width` columns.

    Addresses and distances as for `product`; the `count` rows of the matrix follow each other.
    """
    span = LANES * VECTORS
    whole = width - width % span
    groups = (rows + 3) // 4
    for column in range(0, whole, span):
        for group in range(groups):
            start = group * rows // groups
            number = (group + 1) * rows // groups - start
            weights, from_m, to_y = share + 4 * start * lds, matrix + 4 * column, y + 4 * (start * ldy + column)
            if number == 4:
                _blend_four(weights, lds, count, from_m, width, to_y, ldy)
            elif number == 3:
                _blend_three(weights, lds, count, from_m, width, to_y, ldy)
            elif number == 2:
                _blend_two(weights, lds, count, from_m, width, to_y, ldy)
            else:
                _blend_one(weights, lds, count, from_m, width, to_y, ldy)
    for row in range(rows):
        for column in range(whole, width):
            total = np.float32(0.0)
            for index in range(count):
                total += number_at(share + 4 * (row * lds + index)) * number_at(matrix + 4 * (index * width + column))
            write_number(y + 4 * (row * ldy + column), total)

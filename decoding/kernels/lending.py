"""Arrays lent from one kernel to another."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def lent(_: Any, values: Any) -> Any:
    """`values`, an array or a tuple of arrays, tuples and numbers, whose arrays nobody counts any more.

    A kernel counts who holds each array: each call adds to and takes from a counter of every array in its arguments,
    as indivisible operations. Where much is handed over for little work, that was four fifths of the time. What is
    lent has no counter, so it must not outlive its owner: a kernel lends its own arguments, which its caller holds.
    """

    def lend(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            for owner in ("meminfo", "parent"):
                setattr(array, owner, ir.Constant(getattr(array, owner).type, None))
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            for place, part in enumerate(kind.types):
                own = lend(context, builder, part, builder.extract_value(value, place))
                value = builder.insert_value(value, own, place)
        return value

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return lend(context, builder, signature.args[0], arguments[0])

    return values(values), codegen

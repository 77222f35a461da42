"""What drafters that read the target's hidden states ask of it: the right target, and features of the right width."""

from collections.abc import Iterable

from torch import Tensor

from decoding.drafters.base import Drafter
from decoding.errors import Incompatible


def require_made_for(dimensions: Iterable[tuple[str, int | None, int]]) -> None:
    """Compares what a drafter was made for with the target, as (what, drafter's, target's); None says nothing.

    Raises Incompatible, naming both numbers, for the first that differs.
    """
    for what, ours, theirs in dimensions:
        if ours is not None and ours != theirs:
            raise Incompatible(
                f"The drafter was made for a target with a {what} of {ours}; this one's is {theirs}.",
                "Choose the drafter that was trained for this target.",
            )


def tapped(drafter: Drafter, features: Tensor | None, rows: int, hidden: int) -> Tensor:
    """The observed features `[rows, taps * hidden]`; raises Incompatible for others and for none."""
    expected = (rows, len(drafter.taps) * hidden)
    if features is None or tuple(features.shape) != expected:
        given = "none" if features is None else str(list(features.shape))
        raise Incompatible(
            f"{drafter.name} needs features {list(expected)} of the target's hidden states {list(drafter.taps)}; "
            f"it was given {given}.",
            "Tap the target at the drafter's `taps`.",
        )
    return features

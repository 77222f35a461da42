"""Figures by category of question and over all of them."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Row = TypeVar("Row")
ALL = "all"
"""The key of what is taken over every question, beside the categories."""


def by_category(rows: Sequence[tuple[str, Row]], figure: Callable[[Sequence[Row]], Any]) -> dict[str, Any]:
    """`figure` of the rows of each category, in the order in which they come, and of `ALL` rows."""
    groups: dict[str, list[Row]] = {}
    for category, row in rows:
        groups.setdefault(category, []).append(row)
    return {**{name: figure(group) for name, group in groups.items()}, ALL: figure([row for _, row in rows])}


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def mean_and_pooled(pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Of (numerator, denominator) of each prompt: `mean` of the prompts' ratios, `pooled` ratio of the sums.

    Prompts with a denominator of 0 have no ratio; `prompts` counts those that have one.
    """
    defined = [(a, b) for a, b in pairs if b]
    return {
        "mean": mean([a / b for a, b in defined]),
        "pooled": sum(a for a, _ in defined) / sum(b for _, b in defined) if defined else None,
        "prompts": len(defined),
    }

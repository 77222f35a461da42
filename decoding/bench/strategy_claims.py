"""What the papers claim of their strategies, as comparisons of measured ways, and whether they hold."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any, Literal, NamedTuple

from decoding.bench.by_category import ALL
from decoding.bench.drafter_tables import markdown_table, shown
from decoding.bench.strategy_figures import WayFigures

Figure = Literal["tokens_per_round", "tokens_per_second"]
WORDS: dict[Figure, str] = {"tokens_per_round": "tokens per round", "tokens_per_second": "tokens per second by cost"}
ROUNDING = 1e-9
"""Relative: two equal sums in another order must not decide a claim."""


class Comparison(NamedTuple):
    """One way against the best of others."""

    label: str
    """What tells it from the claim's other comparisons."""
    ours: str
    others: tuple[str, ...]
    """Names of ways, one at least."""
    category: str = ALL
    """Which questions."""


class Claim(NamedTuple):
    """An order that is said to hold: in each of its comparisons, for the mean over prompts."""

    text: str
    figure: Figure
    comparisons: tuple[Comparison, ...]
    least: float = 1.0
    """Ours must reach so much of the best other."""
    strictly: bool = True
    """Whether ours must lie above that; equal is enough otherwise."""


def judge(claim: Claim, ways: Mapping[str, WayFigures]) -> dict[str, Any]:
    """The claim with its figures. It `holds` where all its comparisons do; None where one has no figures."""
    compared = [_compared(claim, comparison, ways) for comparison in claim.comparisons]
    verdicts = [each["holds"] for each in compared]
    holds = None if None in verdicts or not verdicts else all(verdicts)
    return {"claim": claim.text, "figure": claim.figure, "least": claim.least, "strictly": claim.strictly,
            "comparisons": compared, "holds": holds}  # fmt: skip


def _compared(claim: Claim, comparison: Comparison, ways: Mapping[str, WayFigures]) -> dict[str, Any]:
    """`error` is the standard error of the mean difference between the two ways, prompt by prompt."""
    result: dict[str, Any] = {"label": comparison.label, "ours": comparison.ours, "category": comparison.category,
                              "value": None, "best_other": None, "other_value": None, "error": None,
                              "holds": None}  # fmt: skip
    figures = {name: ways[name].of_prompts(claim.figure, comparison.category)
               for name in (comparison.ours, *comparison.others)}  # fmt: skip
    if not all(figures.values()):
        return result
    value = mean(figures[comparison.ours])
    best = max(comparison.others, key=lambda name: mean(figures[name]))
    bar = claim.least * mean(figures[best])
    margin = ROUNDING * bar
    return result | {
        "value": value,
        "best_other": best,
        "other_value": mean(figures[best]),
        "error": _error([a - b for a, b in zip(figures[comparison.ours], figures[best], strict=True)]),
        "holds": value > bar + margin if claim.strictly else value >= bar - margin,
    }


def _error(differences: Sequence[float]) -> float | None:
    """None for a single prompt."""
    return stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else None


def claims_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: every claim of every drafter, its figures with the standard error of the difference, its verdict."""
    lines = [
        [claim["claim"], row["drafter"], f"{WORDS[claim['figure']]}: {_figures(claim)}", _verdict(claim["holds"])]
        for row in rows
        for claim in row["claims"]
    ]
    return markdown_table(["claim", "drafter", "figures", "holds"], lines, words=4) + "\n"


def _figures(claim: Mapping[str, Any]) -> str:
    return "; ".join(_figure(each) for each in claim["comparisons"])


def _figure(each: Mapping[str, Any]) -> str:
    label = f"{each['label']}: " if each["label"] else ""
    if each["value"] is None:
        return f"{label}{shown(None)}"
    wrong = "" if each["holds"] else ", no"
    value, other = shown(each["value"]), shown(each["other_value"])
    return f"{label}{value} against {other} ({each['best_other']}; ±{shown(each['error'])}{wrong})"


def _verdict(holds: bool | None) -> str:
    return {True: "yes", False: "no", None: shown(None)}[holds]

"""The figures of `bench drafters` as Markdown, ready for a README or a model card."""

from collections.abc import Iterable, Mapping
from typing import Any

from decoding.bench.by_category import ALL


def shown(value: float | None, digits: int = 2) -> str:
    """A number, or a dash where it is undefined."""
    return "—" if value is None else f"{value:.{digits}f}"


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[str]], words: int = 1) -> str:
    """A Markdown table whose first `words` columns are text and whose others are numbers."""
    columns = list(head)
    lines = [columns, [*["---"] * words, *["---:"] * (len(columns) - words)], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def drafter_tables(row: Mapping[str, Any], counts: Mapping[str, int]) -> str:
    """The tables of one drafter, a pair for each temperature; `counts` are the prompts by category."""
    parts = [f"### {row['drafter']}"]
    for figures in row["temperatures"]:
        parts += [f"Temperature {figures['temperature']:g}", _agreement(figures["agreement"])]
        parts += [_trees(figures["trees"], counts)]
    return "\n\n".join(parts) + "\n"


def _agreement(figures: Mapping[str, Any]) -> str:
    head = ["agreement at position", *(str(place + 1) for place in range(len(figures["judged"])))]
    rows = [[name, *(shown(value) for value in figures[name])] for name in figures if name != "judged"]
    return markdown_table(head, rows)


def _trees(trees: Iterable[Mapping[str, Any]], counts: Mapping[str, int]) -> str:
    """Tokens per round: the mean over prompts by category, over all of them, and pooled."""
    named = [f"{name} ({count})" for name, count in counts.items()]
    head = ["tokens per round", *named, ALL, "pooled", "accepted", "expected", "ECE"]
    return markdown_table(head, (_tree(tree, counts) for tree in trees))


def _tree(tree: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
    rate, calibration = tree["tokens_per_round"], tree["calibration"] or {}
    means = [shown(rate[name]["mean"]) if name in rate else shown(None) for name in (*counts, ALL)]
    judged = [shown(calibration.get(name)) for name in ("accepted", "expected_accepted")]
    return [tree["title"], *means, shown(rate[ALL]["pooled"]), *judged, shown(calibration.get("ece"), 3)]

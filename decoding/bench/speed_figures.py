"""The figures of `bench speed`: speeds and speedups of every way, by category, and their table."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from decoding.bench.by_category import ALL, by_category, mean, mean_and_pooled
from decoding.bench.drafter_tables import markdown_table, shown
from decoding.bench.speed_ways import GENERATE, PLAIN, Timed

PerPrompt = Mapping[str, Timed]
"""The runs of one prompt, by the name of the way."""
Rows = Sequence[tuple[str, PerPrompt]]
"""Category and runs of every prompt."""


def typical(runs: Sequence[Timed]) -> Timed:
    """The first of several runs of one prompt by one way, with the median of their seconds."""
    return runs[0]._replace(
        prefill_seconds=median(run.prefill_seconds for run in runs),
        decode_seconds=median(run.decode_seconds for run in runs),
    )


def way_figures(rows: Rows, name: str) -> dict[str, Any]:
    """All figures of the way `name`; `same_output` counts the prompts on which it wrote what our plain decoding did."""
    own = [(category, runs[name]) for category, runs in rows]
    plain = [way for way in (PLAIN, GENERATE) if way in rows[0][1]]
    counted = [run for _, run in own if run.rounds is not None]
    return {
        "way": name,
        "tokens_per_second": by_category(
            [(category, (run.tokens, run.decode_seconds)) for category, run in own], mean_and_pooled
        ),
        "speedup_over_faster_plain": by_category(rows, lambda group: speedup(group, name, plain)),
        "speedup_over_our_plain": by_category(rows, lambda group: speedup(group, name, (PLAIN,))),
        "same_output": sum(runs[name].output_ids == runs[PLAIN].output_ids for _, runs in rows),
        "prompts": len(rows),
        "prefill_seconds": mean([run.prefill_seconds for _, run in own]),
        "tokens_per_round": mean_and_pooled([(run.tokens, run.rounds or 0) for run in counted]) if counted else None,
    }


def speedup(group: Sequence[PerPrompt], name: str, plain: Sequence[str]) -> dict[str, Any]:
    """Tokens per second of a way over the best of `plain`, first tokens not counted.

    `mean`, `least` and `most` of the prompts' own speedups, each over the way that was the best for that prompt;
    `pooled`: all tokens over all seconds, over the best way by the same figure. A prompt on which some way had
    nothing left to write after its first tokens has none of these; `prompts` counts the others.
    """
    judged = [runs for runs in group if all(runs[way].tokens for way in (name, *plain))]
    own = [_rate([runs[name]]) / max(_rate([runs[way]]) for way in plain) for runs in judged]
    pooled = None
    if judged:
        pooled = _rate([runs[name] for runs in judged]) / max(_rate([runs[way] for runs in judged]) for way in plain)
    return {
        "mean": mean(own),
        "pooled": pooled,
        "least": min(own, default=None),
        "most": max(own, default=None),
        "prompts": len(judged),
    }


def _rate(runs: Sequence[Timed]) -> float:
    return sum(run.tokens for run in runs) / sum(run.decode_seconds for run in runs)


def speed_table(ways: Sequence[Mapping[str, Any]], counts: Mapping[str, int]) -> str:
    """Markdown: mean speedup over the faster plain decoding by category, then what stands beside it."""
    named = [f"{name} ({count})" for name, count in counts.items()]
    head = ["speedup over the faster plain decoding", *named, ALL, "pooled", "least", "most",
            "over our plain", "tokens per round", "same output"]  # fmt: skip
    return markdown_table(head, (_row(way, counts) for way in ways)) + "\n"


def _row(way: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
    faster, rounds = way["speedup_over_faster_plain"], way["tokens_per_round"]
    means = [shown(faster[name]["mean"]) if name in faster else shown(None) for name in (*counts, ALL)]
    return [
        way["way"],
        *means,
        *(shown(faster[ALL][name]) for name in ("pooled", "least", "most")),
        shown(way["speedup_over_our_plain"][ALL]["mean"]),
        shown(rounds["mean"] if rounds else None),
        f"{way['same_output']} of {way['prompts']}",
    ]

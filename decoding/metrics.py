"""Figures of a run, as pure functions of its rounds. Every figure states its convention and its unit.

An undefined figure is None (shown as a dash), never 0 or 1.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from decoding.types import Round


def tokens_per_round(rounds: Sequence[Round]) -> float | None:
    """Emitted tokens per round, bonus included: the papers' tau. The first token belongs to the prefill."""
    return sum(len(r.emitted) for r in rounds) / len(rounds) if rounds else None


def accepted_per_round(rounds: Sequence[Round]) -> float | None:
    """Emitted drafted tokens per round, bonus excluded: mean accepted tokens (MAT)."""
    return sum(r.accepted for r in rounds) / len(rounds) if rounds else None


def acceptance_rate(rounds: Sequence[Round]) -> float | None:
    """Emitted drafted tokens over drafted nodes, 0 to 1; a wide tree has a low one by construction."""
    drafted = sum(r.tree.drafted for r in rounds)
    return sum(r.accepted for r in rounds) / drafted if drafted else None


def stage_seconds(rounds: Sequence[Round]) -> dict[str, float]:
    """Seconds by stage over all rounds, device synchronised; the prefill is not in it."""
    total: Counter[str] = Counter()
    for item in rounds:
        total.update(item.seconds)
    return dict(total)


def run_metrics(
    rounds: Sequence[Round], prefill_seconds: float, decode_seconds: float, peak_memory_bytes: int | None
) -> dict[str, Any]:
    """All figures of a run.

    tokens_per_second: tokens after the first, over `decode_seconds` (wall clock after the prefill).
    ttft_seconds: from the request to the first token. tpot_seconds: decode seconds per token after the first.
    """
    after_first = sum(len(r.emitted) for r in rounds)
    return {
        "rounds": len(rounds),
        "new_tokens": 1 + after_first,
        "drafted_tokens": sum(r.tree.drafted for r in rounds),
        "accepted_tokens": sum(r.accepted for r in rounds),
        "tokens_per_round": tokens_per_round(rounds),
        "accepted_per_round": accepted_per_round(rounds),
        "acceptance_rate": acceptance_rate(rounds),
        "tokens_per_second": after_first / decode_seconds if after_first else None,
        "ttft_seconds": prefill_seconds,
        "tpot_seconds": decode_seconds / after_first if after_first else None,
        "decode_seconds": decode_seconds,
        "stage_seconds": stage_seconds(rounds),
        "peak_memory_bytes": peak_memory_bytes,
    }


def first_divergence(ours: Sequence[int], plain: Sequence[int]) -> int | None:
    """Index of the first token that differs, None where the two outputs are the same."""
    for index, (a, b) in enumerate(zip(ours, plain, strict=False)):
        if a != b:
            return index
    return None if len(ours) == len(plain) else min(len(ours), len(plain))

"""Metrics by hand-made rounds: conventions, and what is undefined."""

import numpy as np
import pytest

from decoding.metrics import first_divergence, run_metrics
from decoding.types import Round, Source, Tree, Verdict


def a_round(drafted: int, accepted: int, emitted: int) -> Round:
    """A chain of `drafted` nodes of which `accepted` were accepted and `emitted` tokens came out."""
    count = drafted + 1
    tree = Tree(
        np.arange(count), np.arange(count) - 1, np.zeros(count), np.array([Source.ROOT] + [Source.DRAFT] * drafted)
    )
    zeros = np.zeros(count)
    top = np.zeros((count, 1))
    verdict = Verdict(np.arange(accepted + 1), 7, zeros, zeros, zeros, zeros, top, top)
    return Round(0, tree, verdict, (1,) * emitted, ("",) * emitted, 0, 0, {"draft": 0.5, "verify": 1.0})


def test_both_conventions_of_accepted_length() -> None:
    rounds = [a_round(4, 2, 3), a_round(4, 0, 1), a_round(4, 4, 5)]
    metrics = run_metrics(rounds, prefill_seconds=0.25, decode_seconds=3.0, peak_memory_bytes=9)
    assert metrics["tokens_per_round"] == pytest.approx(3.0)
    assert metrics["accepted_per_round"] == pytest.approx(2.0)
    assert metrics["acceptance_rate"] == pytest.approx(0.5)
    assert metrics["new_tokens"] == 10
    assert metrics["tokens_per_second"] == pytest.approx(3.0)
    assert metrics["tpot_seconds"] == pytest.approx(1 / 3)
    assert metrics["ttft_seconds"] == 0.25
    assert metrics["stage_seconds"] == {"draft": 1.5, "verify": 3.0}


def test_a_text_that_ends_inside_the_path_counts_only_what_came_out() -> None:
    metrics = run_metrics([a_round(4, 4, 2)], 0.1, 1.0, None)
    assert metrics["accepted_tokens"] == 2
    assert metrics["tokens_per_round"] == 2


def test_what_is_undefined_is_none() -> None:
    metrics = run_metrics([], 0.1, 0.0, None)
    undefined = ("tokens_per_round", "accepted_per_round", "acceptance_rate", "tokens_per_second", "tpot_seconds")
    assert all(metrics[name] is None for name in undefined)
    assert run_metrics([a_round(0, 0, 1)], 0.1, 1.0, None)["acceptance_rate"] is None


def test_the_first_divergence() -> None:
    assert first_divergence([1, 2, 3], [1, 2, 3]) is None
    assert first_divergence([1, 9, 3], [1, 2, 3]) == 1
    assert first_divergence([1, 2], [1, 2, 3]) == 2

"""How thresholds are fitted, by hand and by trying every threshold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding.strategies.graft_gates import LEAST_SAMPLES, PAPER_THRESHOLDS, Sample, fit_block, fit_gate, fit_gates

many = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.7, 0.9]), st.booleans()), min_size=LEAST_SAMPLES)


def test_the_gate_of_the_docstring():
    fit = fit_gate([0.1, 0.2, 0.6, 0.8] * 5, [False, False, True, True] * 5, 0.5)
    assert fit == (0.2, 1.0, 20)


@given(many)
def test_no_threshold_does_better(pairs: list[tuple[float, bool]]):
    confidence, worth_it = np.array([c for c, _ in pairs]), np.array([w for _, w in pairs])

    def share(threshold: float) -> float:
        passes = confidence > threshold
        rights = [(passes[worth_it == kind] == kind).mean() for kind in (True, False) if (worth_it == kind).any()]
        return float(sum(rights))

    fit = fit_gate(confidence.tolist(), worth_it.tolist(), 0.5)
    best = max(share(threshold) for threshold in (0, 0.1, 0.2, 0.5, 0.7, 0.9))
    assert share(fit.threshold) == pytest.approx(best)
    assert all(share(lower) < best - 1e-12 for lower in (0, 0.1, 0.2, 0.5, 0.7, 0.9) if lower < fit.threshold)
    if worth_it.all():
        assert fit.threshold == 0
    if fit.discrimination is not None:
        pairs_right = [(g > b) + (g == b) / 2 for g in confidence[worth_it] for b in confidence[~worth_it]]
        assert fit.discrimination == pytest.approx(np.mean(pairs_right))


def test_too_few_rounds_keep_what_was_there():
    assert fit_gate([0.5] * (LEAST_SAMPLES - 1), [True] * (LEAST_SAMPLES - 1), 0.33).threshold == 0.33
    assert {name: fit.threshold for name, fit in fit_gates([]).items()} == PAPER_THRESHOLDS


def test_a_deeper_gate_sees_what_passed_the_shallower_ones():
    """Unsure rounds fail at once; sure ones go to the end. d1 and d5 meet only the sure ones and let all pass."""
    unsure = Sample([0.1, 0.01, 0.001, 0, 0, 0, 0, 0], 0)
    sure = Sample([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2], 8)
    fits = fit_gates([unsure, sure] * 30)
    assert fits["tau_d0"] == (0.1, 1.0, 60)
    assert (fits["tau_d1"].threshold, fits["tau_d1"].rounds) == (0.0, 30)
    assert (fits["tau_d5"].threshold, fits["tau_d5"].discrimination) == (0.0, None)


def test_a_draft_that_ended_with_the_text_says_nothing_of_deeper_gates():
    short = Sample([0.9, 0.8], 2)
    fits = fit_gates([short] * 30)
    assert fits["tau_d0"].rounds == 30
    assert fits["tau_d1"].rounds == 0


def test_blocks_are_judged_position_by_position():
    """The target came to the first two positions: it took the first and not the second."""
    fits = fit_block([Sample([0.9, 0.2, 0.8], 1)] * 15)
    assert fits["tau_block"] == (0.2, 1.0, 30)

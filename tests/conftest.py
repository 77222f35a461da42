"""What holds for every test."""

import pytest
import torch
from hypothesis import settings

from tests.hardening_counts import effort, pytest_terminal_summary, tally

__all__ = ["effort", "pytest_collection_modifyitems", "pytest_terminal_summary", "tally"]

# Tiny models gain nothing from a second thread, and waiting for it on a busy machine takes most of the time.
torch.set_num_threads(1)

# How long an example takes says more of the machine's load than of the code; pytest's own timeout stays.
settings.register_profile("canopy", deadline=None)
settings.load_profile("canopy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a CUDA device are skipped where there is none."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("cuda"):
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))

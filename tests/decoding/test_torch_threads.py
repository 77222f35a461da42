"""Rounds on a CPU leave torch's threads asleep: once awake they look for work for milliseconds, where kernels run."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from decoding.model_store import ModelStore
from decoding.run import RunSettings, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux tells of them"),
]

CASES: list[tuple[str, str, dict[str, Any], str | None]] = [
    ("ddtree", "smollm2-135m-dflash", {"budget": 80}, None),
    ("auto", "smollm2-135m-dflash", {}, None),
    ("eagle", "smollm2-135m-eagle3", {}, None),
    ("eagle", "smollm2-135m-llama", {}, None),
    ("graft", "smollm2-135m-eagle3", {}, None),
    ("recycle", "transition-matrix", {"budget": 60}, None),
    ("sampled", "smollm2-135m-dflash", {}, "traversal"),
    ("sampled", "smollm2-135m-llama", {"budget": 16}, "without-replacement"),
    ("ddtree", "smollm2-135m-dflash", {"budget": 16}, "eagle"),
]
"""Strategy, drafter, settings, and the verifier above temperature 0."""


def seconds_of_others() -> float:
    """Processor time of the threads that Python does not know of."""
    ours = {str(thread.native_id) for thread in threading.enumerate()}
    ticks = 0
    for task in Path("/proc/self/task").iterdir():
        if task.name not in ours:
            user, system = (task / "stat").read_text().rpartition(")")[2].split()[11:13]
            ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def models() -> Iterator[ModelStore]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield ModelStore()
    torch.set_num_threads(before)


@pytest.mark.parametrize(("strategy", "drafter", "settings", "verifier"), CASES)
def test_no_round_wakes_them(
    strategy: str, drafter: str, settings: dict[str, Any], verifier: str | None, models: ModelStore
) -> None:
    asked = RunSettings(
        prompt="Tell me about the sea.", strategy=strategy, drafter=drafter, settings=settings,
        verifier=verifier, temperature=1.0 if verifier else 0.0, max_new_tokens=80, dtype="float32", seed=0,
    )  # fmt: skip
    spent = [seconds_of_others() for event in run(asked, models) if event["kind"] == "round"]
    assert len(spent) > 12
    # Reading the prompt wakes them, and they may still be up in the first rounds. One wake takes some 5 ms.
    assert spent[-1] - spent[3] < 0.002 * (len(spent) - 4)

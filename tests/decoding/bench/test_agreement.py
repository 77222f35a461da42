"""Agreement by position against brute force; calibration by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch

from decoding.bench.agreement import Agreement, judge_marginals, judge_steps
from decoding.bench.calibration import Calibration
from decoding.bench.position_marginals import PositionMarginals
from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.base import Observation, OnePassDrafter, no_next
from decoding.drafters.prompt_lookup import PromptLookup
from decoding.loop import Request
from decoding.replay import Recording, record, replay
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.target import Target
from decoding.tree import TreeBuilder
from decoding.verifiers import make_verifier
from tests.decoding.test_replay import PROMPT, assert_same, block_drafter, blurred
from tests.tiny_models import VOCAB, tiny_target

NEW_TOKENS = 20


def recorded(target: Target, taps: tuple[int, ...] = ()) -> Recording:
    return record(target, make_verifier(None, Sampling()), Request("", PROMPT, NEW_TOKENS), taps)


def shares(hits: dict[int, list[bool]]) -> list[float]:
    return [sum(hits[position]) / len(hits[position]) for position in sorted(hits)]


@pytest.mark.parametrize("stride", [1, 3])
def test_marginals_against_a_fresh_drafter_at_every_place(stride: int, tmp_path: Path) -> None:
    """The judge reads each prefix anew: features from one pass of the stock model, a drafter that knows no more."""
    target = tiny_target("llama")
    drafter = block_drafter(target, tmp_path)
    assert isinstance(drafter, OnePassDrafter)
    recording = recorded(target, drafter.taps)
    output = recording.output_ids
    agreement = Agreement(drafter.positions)
    judge_marginals(agreement, PositionMarginals(drafter, recording, 5), recording, stride)

    first: dict[int, list[bool]] = {}
    among: dict[int, list[bool]] = {}
    for place in range(0, len(output) - 1, stride):
        prefix = np.array([*PROMPT, *output[:place]], np.int32)
        with torch.inference_mode():
            states = target.model(
                input_ids=torch.from_numpy(prefix.astype(np.int64))[None], use_cache=False, output_hidden_states=True
            ).hidden_states
            features = torch.cat([states[tap][0] for tap in drafter.taps], dim=-1)
        drafter.begin(100)
        drafter.observe(Observation(prefix, features, prefix, no_next(len(prefix))))
        rows = drafter.marginals(output[place], 5).token.tolist()
        for position, actual in enumerate(output[place + 1 : place + 1 + drafter.positions]):
            first.setdefault(position, []).append(rows[position][0] == actual)
            among.setdefault(position, []).append(actual in rows[position])
    result = agreement.result()
    assert result["judged"] == [len(first[position]) for position in sorted(first)]
    assert result["top1"] == shares(first)
    assert result["top5"] == shares(among)
    assert max(result["top5"]) > 0, "no draft was ever right, so this shows nothing"


@pytest.mark.parametrize("stride", [1, 4])
def test_steps_against_the_stock_model_on_the_whole_text(stride: int) -> None:
    """Given the true tokens before, a causal drafter's proposals at any depth are those of a plain pass."""
    target, model = tiny_target("llama"), blurred("llama")
    recording = recorded(target)
    output, depth = recording.output_ids, 4
    agreement = Agreement(depth)
    judge_steps(agreement, Autoregressive(model, VOCAB), recording, depth, stride)
    with torch.inference_mode():
        logits = model.model(input_ids=torch.tensor([[*PROMPT, *output]]), use_cache=False).logits[0]
    best = logits.topk(5).indices.tolist()
    first: dict[int, list[bool]] = {}
    among: dict[int, list[bool]] = {}
    for place in range(0, len(output) - 1, stride):
        for position, actual in enumerate(output[place + 1 : place + 1 + depth]):
            row = best[len(PROMPT) + place + position]
            first.setdefault(position, []).append(row[0] == actual)
            among.setdefault(position, []).append(actual in row)
    result = agreement.result()
    assert result["top1"] == shares(first)
    assert result["top5"] == shares(among)
    assert max(result["top5"]) > 0
    everything = Agreement(depth)
    judge_steps(everything, Autoregressive(target, VOCAB), recording, depth, stride)
    assert everything.result()["top1"] == [1.0] * depth, "the target agrees with itself"


def test_a_lookup_that_finds_nothing_is_a_miss() -> None:
    recording = Recording((1, 2, 3, 4), (1, 2, 3, 9, 9), 5, 256, (), None)
    agreement = Agreement(3)
    judge_steps(agreement, PromptLookup(10), recording, 3, 1)
    # After 4, 1: 2, 3, 4 is proposed (2 and 3 are right). After 2: 3 (then 4, wrong). After 3: 4, wrong. After 9: 9.
    # The last has no known successor but itself: a 9 that was never seen before proposes nothing.
    assert agreement.result() == {"top1": [0.5, 1 / 3, 0.0], "top5": [0.5, 1 / 3, 0.0], "judged": [4, 3, 2]}


def test_nothing_judged_is_undefined() -> None:
    assert Agreement(2).result() == {"top1": [None, None], "top5": [None, None], "judged": [0, 0]}


@pytest.mark.parametrize(("strategy", "budget"), [("linear", 64), ("ddtree", 8), ("ddtree", 32)])
def test_one_table_serves_every_budget(strategy: str, budget: int, tmp_path: Path) -> None:
    target = tiny_target("qwen3")
    drafter = block_drafter(target, tmp_path)
    assert isinstance(drafter, OnePassDrafter)
    recording = recorded(target, drafter.taps)
    table = PositionMarginals(drafter, recording, 64)
    make = lambda: make_strategy(strategy, {"budget": budget})  # noqa: E731
    assert_same(list(replay(recording, table, make())), list(replay(recording, drafter, make())))
    with pytest.raises(ValueError, match="65 columns"):
        table.marginals(0, 65)


def test_calibration_by_hand() -> None:
    builder = TreeBuilder(0)
    sure = builder.add(0, 1, float(np.log(0.75)))
    builder.add(0, 2, float(np.log(0.15)))
    below = builder.add(sure, 3, float(np.log(0.6)))  # .45 in all
    builder.add(below, 4, float(np.log(0.4)))  # .18 in all
    tree, path = builder.build(), np.array([0, sure, below], np.int32)
    calibration = Calibration()
    calibration.add(tree, path, 3)
    result = calibration.result()
    assert result["expected_accepted"] == pytest.approx(0.75 + 0.15 + 0.45 + 0.18)
    assert result["accepted"] == 2
    # Bins: .1 to .2 (.15 and .18: none right), .4 to .5 (right), .7 to .8 (right).
    assert result["ece"] == pytest.approx((0.33 + 0.55 + 0.25) / 4)
    assert [entry["nodes"] for entry in result["bins"]] == [0, 2, 0, 0, 1, 0, 0, 1, 0, 0]
    assert result["bins"][4]["predicted"] == pytest.approx(0.45)
    assert result["bins"][4]["right"] == 1
    assert result["bins"][0] == {"nodes": 0, "predicted": None, "right": None}
    cut = Calibration()
    cut.add(tree, path, 1)
    assert cut.result()["expected_accepted"] == pytest.approx(0.9), "what the text does not reach is not judged"
    assert cut.result()["accepted"] == 1
    assert Calibration().result()["ece"] is None


def test_perfect_and_hopeless_predictions() -> None:
    sure, wrong = Calibration(), Calibration()
    for length in (1, 3, 4):
        builder = TreeBuilder(7)
        for node in range(length):
            builder.add(node, node, 0.0)
        sure.add(builder.build(), np.arange(length + 1, dtype=np.int32), 9)
        wrong.add(builder.build(), np.zeros(1, np.int32), 9)
    assert sure.result()["ece"] == 0
    assert sure.result()["expected_accepted"] == sure.result()["accepted"] == pytest.approx(8 / 3)
    assert wrong.result()["ece"] == 1
    assert wrong.result()["accepted"] == 0

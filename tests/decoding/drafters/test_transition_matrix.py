"""The transition matrix against a dictionary."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from decoding.drafters.base import Observation, StepwiseDrafter, below, no_next
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.errors import BadRequest, Incompatible
from decoding.template import CHOICES, RECYCLE_WIDTHS, scaled_template, template_of_widths

VOCAB = 24
row = st.lists(st.integers(0, VOCAB - 1), min_size=CHOICES, max_size=CHOICES, unique=True)
observations = st.lists(st.lists(st.tuples(st.integers(0, VOCAB - 1), row), max_size=12), max_size=5)


def observation(pairs: list[tuple[int, list[int]]]) -> Observation:
    seen = np.array([token for token, _ in pairs], np.int32)
    following = np.array([next_ for _, next_ in pairs], np.int32).reshape(len(pairs), -1 if pairs else CHOICES)
    return Observation(seen[:1], None, seen, following)


def learnt(rounds: list[list[tuple[int, list[int]]]]) -> tuple[TransitionMatrix, dict[int, list[int]]]:
    drafter, model = TransitionMatrix(VOCAB), {}
    for pairs in rounds:
        drafter.begin(10)
        drafter.observe(observation(pairs))
        model.update(pairs)
        drafter.end()
    return drafter, model


@given(observations, st.integers(1, 12))
def test_equals_a_dictionary(rounds: list[list[tuple[int, list[int]]]], k: int):
    drafter, model = learnt(rounds)
    expected = np.array([(model.get(token, [-1] * 8) + [-1] * 8)[:k] for token in range(VOCAB)])
    found = drafter.expand(np.arange(VOCAB, dtype=np.int32), np.zeros(VOCAB, np.int32), k)
    assert found.token.tolist() == expected.tolist()
    assert np.isnan(found.logprob).all()
    assert drafter.start(3, k).token.tolist() == expected[3:4].tolist()
    assert drafter.matrix.shape == (VOCAB, CHOICES)


@given(observations, st.integers(0, 120), st.integers(0, VOCAB - 1))
def test_fill_equals_depth_by_depth(rounds: list[list[tuple[int, list[int]]]], budget: int, root: int):
    drafter, _ = learnt(rounds)
    template = scaled_template(RECYCLE_WIDTHS, budget)
    one = drafter.fill(root, template)
    other = template.tree(*StepwiseDrafter.look_up(drafter, below(root, template), template), drafter.source)
    assert one.token.tolist() == other.token.tolist()
    assert one.parent.tolist() == other.parent.tolist()
    assert one.source.tolist() == other.source.tolist()


@given(observations, st.integers(1, 40), st.data())
def test_given_tokens_stay_and_the_rest_is_filled_below_them(
    rounds: list[list[tuple[int, list[int]]]], budget: int, data: st.DataObject
):
    drafter, model = learnt(rounds)
    template = scaled_template(RECYCLE_WIDTHS, budget)
    given = np.array(data.draw(st.lists(st.integers(-1, VOCAB - 1), min_size=budget + 1, max_size=budget + 1)))
    given[0] = max(given[0], 0)
    expected = given.tolist()
    for node in range(1, budget + 1):
        if expected[node] < 0:
            expected[node] = model.get(expected[template.parent[node]], [-1] * 8)[template.rank[node]]
    for filled in (drafter.look_up(given, template), drafter.look_up_soon(given, template)()):
        assert filled.token.tolist() == expected
    generic = StepwiseDrafter.look_up(drafter, given, template).token
    there = [True] + [False] * budget
    for node in range(1, budget + 1):
        there[node] = there[template.parent[node]] and expected[node] >= 0
    assert generic[there].tolist() == np.array(expected)[there].tolist()


def test_the_last_row_of_a_token_wins_and_clear_forgets():
    drafter = TransitionMatrix(VOCAB)
    drafter.observe(observation([(4, [1, *range(10, 17)]), (5, list(range(8))), (4, [2, *range(10, 17)])]))
    assert drafter.start(4, 1).token.tolist() == [[2]]
    drafter.clear()
    assert drafter.start(4, 1).token.tolist() == [[-1]]


def test_fewer_or_more_next_tokens_than_it_keeps():
    drafter = TransitionMatrix(VOCAB)
    seen = np.array([4, 5], np.int32)
    drafter.observe(Observation(seen, None, seen, np.array([[1, 2], [3, 4]], np.int32)))
    assert drafter.start(4, 3).token.tolist() == [[1, 2, -1]]
    drafter.observe(Observation(seen, None, seen, np.tile(np.arange(10, dtype=np.int32), (2, 1))))
    assert drafter.start(4, 9).token.tolist() == [[*range(8), -1]]
    drafter.observe(Observation(seen, None, seen, no_next(2)))
    assert drafter.start(4, 1).token.tolist() == [[0]]


def test_save_and_load(tmp_path: Path):
    drafter, _ = learnt([[(3, list(range(8))), (7, list(range(8, 16)))]])
    drafter.save(tmp_path / "m.safetensors")
    other = TransitionMatrix(VOCAB)
    other.load(tmp_path / "m.safetensors")
    assert torch.equal(drafter.matrix, other.matrix)
    assert other.fill(3, template_of_widths((2,))).drafted == 2
    with pytest.raises(Incompatible, match=r"24.*25"):
        TransitionMatrix(25).load(tmp_path / "m.safetensors")
    with pytest.raises(BadRequest, match="not a transition matrix"):
        other.load(tmp_path / "none.safetensors")
    for bad in (torch.zeros(VOCAB, 8), torch.full((VOCAB, 8), VOCAB, dtype=torch.int32), torch.zeros(VOCAB, 8).int()):
        save_file({"successors": bad}, tmp_path / "bad.safetensors")
        with pytest.raises(BadRequest):
            other.load(tmp_path / "bad.safetensors")
    assert torch.equal(drafter.matrix, other.matrix)


def test_a_template_beyond_its_width_is_refused():
    with pytest.raises(ValueError, match="rank"):
        TransitionMatrix(VOCAB).fill(0, template_of_widths((9,), choices=9))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_repeated_tokens_on_cuda():
    rng = np.random.default_rng(0)
    seen = rng.integers(0, VOCAB, 4000).astype(np.int32)
    following = np.argsort(rng.random((4000, VOCAB)), axis=1)[:, :CHOICES].astype(np.int32)
    host, device = TransitionMatrix(VOCAB), TransitionMatrix(VOCAB, "cuda")
    for drafter in (host, device):
        drafter.observe(Observation(seen, None, seen, following))
    assert torch.equal(host.matrix, device.matrix.cpu())
    template = scaled_template(RECYCLE_WIDTHS, 80)
    assert host.fill(1, template).token.tolist() == device.fill(1, template).token.tolist()

"""Losses against the target by their definition, and the part of the vocabulary that they are taken over."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decoding.training.corpus import Example
from decoding.training.teacher import Teacher
from decoding.training.vocabulary import common_tokens
from tests.decoding.training.material import generator

VOCAB, HIDDEN = 12, 6


def teacher_of(kept: list[int]) -> Teacher:
    head = torch.randn(VOCAB, HIDDEN, generator=generator())
    return Teacher(head, common_tokens([Example("test", 0.0, (1,), tuple(kept))], len(set(kept)), VOCAB))


@given(soft=st.sampled_from([0.0, 0.3, 1.0]), more=st.integers(0, 4), seed=st.integers(0, 50))
def test_the_loss_is_what_it_says(soft: float, more: int, seed: int) -> None:
    kept = [1, 4, 5, 9, 10]
    teacher, rng = teacher_of(kept), generator(seed)
    logits = 3 * torch.randn(7, len(kept), generator=rng)
    final = torch.randn(7, HIDDEN, generator=rng)
    labels = torch.randint(VOCAB, (7,), generator=rng)
    others = torch.randn(7, more, generator=rng) if more else None
    each, right = teacher.loss_of_logits(logits, labels, final, soft, others)
    for row in range(7):
        whole = logits[row] if others is None else torch.cat([logits[row], others[row]])
        said = whole.log_softmax(-1)[: len(kept)]
        wanted = (teacher.head @ final[row]).softmax(-1)
        label = int(labels[row])
        hard = float(-said[kept.index(label)]) if label in kept else 0.0
        distance = float(-(wanted * said).sum())
        assert float(each[row]) == pytest.approx((1 - soft) * hard + soft * distance, abs=1e-4)
        assert bool(right[row]) == (kept[int(logits[row].argmax())] == label)


def test_states_go_through_the_target_s_own_head() -> None:
    teacher = teacher_of([2, 3, 7])
    states, final = torch.randn(2, 4, HIDDEN, generator=generator())
    labels = torch.tensor([2, 3, 7, 0])
    wanted = teacher.loss_of_logits(states @ teacher.head.T, labels, final, 0.5)
    found = teacher.loss(states, labels, final, 0.5)
    assert all(torch.equal(one, two) for one, two in zip(found, wanted, strict=True))


def test_the_soft_loss_is_least_where_the_drafter_says_what_the_target_says() -> None:
    teacher = teacher_of([1, 4, 5, 9])
    final = torch.randn(1, HIDDEN, generator=generator())
    logits = (final @ teacher.head.T).requires_grad_()
    teacher.loss_of_logits(logits, torch.tensor([4]), final, 1.0)[0].sum().backward()
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, torch.zeros_like(logits), atol=1e-6, rtol=0)


def test_common_tokens_are_the_commonest_of_the_responses() -> None:
    examples = [Example("test", 0.0, (8, 8, 8, 8), (5, 3, 5, 7)), Example("test", 0.0, (1,), (3, 5, 2))]
    common = common_tokens(examples, 4, 10, always=(9,))
    assert common.ids.tolist() == [2, 3, 5, 9]  # of 2 and 7, seen once each, the lower; 8 stands in prompts alone
    assert common.place.tolist() == [-1, -1, 0, 1, -1, 2, -1, -1, -1, 3]
    assert common.coverage == pytest.approx(6 / 7)
    assert len(common) == 4


@given(st.lists(st.integers(0, 19), min_size=1, max_size=60), st.integers(1, 20))
def test_no_other_choice_of_tokens_covers_more(tokens: list[int], size: int) -> None:
    common = common_tokens([Example("test", 0.0, (0,), tuple(tokens))], size, 20)
    counts = sorted((tokens.count(token) for token in range(20)), reverse=True)
    assert common.coverage == pytest.approx(sum(counts[:size]) / len(tokens))
    assert common.ids.tolist() == sorted(set(common.ids.tolist()))
    assert common.place[common.ids].tolist() == list(range(size))
    assert int((common.place < 0).sum()) == 20 - size

"""The warmed matrix holds what the target likes best on the mean."""

from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decoding.template import CHOICES
from decoding.training import matrix
from decoding.training.features import LiveFeatures
from decoding.training.matrix import LOOK, heaviest, warmed_successors
from tests.decoding.training.material import target, texts
from tests.tiny_models import VOCAB


def looks(*each: tuple[int, int, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    tokens, following, weight = zip(*each, strict=True)
    return np.array(tokens, np.int64), np.array(following, np.int64), np.array(weight, np.float32)


def test_the_worked_example() -> None:
    found = heaviest(*looks((5, 7, 0.4), (5, 9, 0.3), (5, 9, 0.2)), 10)
    assert found[5].tolist() == [9, 7, -1, -1, -1, -1, -1, -1]
    assert (np.delete(found, 5, 0) == -1).all()
    assert found.dtype == np.int32


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 14), st.sampled_from([0.125, 0.25, 0.5])), min_size=1, max_size=90
    )
)
def test_the_heaviest_successors_by_brute_force(each: list[tuple[int, int, float]]) -> None:
    found = heaviest(*looks(*each), 15)
    summed: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for token, successor, weight in each:
        summed[token][successor] += weight
    for token in range(15):
        best = sorted(summed[token], key=lambda successor: (-summed[token][successor], successor))[:CHOICES]
        assert found[token].tolist() == best + [-1] * (CHOICES - len(best))


@pytest.mark.parametrize("at_once", [30, 10_000])
def test_a_row_is_the_mean_of_the_target_s_looks(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "TOKENS_AT_ONCE", at_once)
    examples = texts(4)
    found = warmed_successors(target(), examples, LiveFeatures(target(), examples), rows=7)
    summed = torch.zeros(VOCAB, VOCAB)
    with torch.inference_mode():
        for example in examples:
            ids = torch.tensor(example.tokens)
            chance, best = target().model(input_ids=ids[None]).logits[0].softmax(-1).topk(LOOK)
            for token, row, columns in zip(example.tokens, chance, best, strict=True):
                summed[token][columns] += row
    weights, wanted = summed.topk(CHOICES)
    seen = summed.sum(1) > 0
    assert 20 < int(seen.sum()) < VOCAB
    assert bool((found[~seen] == -1).all())
    clear = (weights[:, :-1] - weights[:, 1:]).min(1).values > 1e-5
    assert int((seen & clear).sum()) > 20
    assert torch.equal(found[seen & clear], wanted[seen & clear].int())

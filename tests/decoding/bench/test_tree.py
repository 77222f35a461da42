"""The benchmark runs, and its two builds agree; its figures are not judged here."""

import argparse
import json

import numpy as np
import pytest
import torch

from decoding.bench import tree as bench


def arguments(*words):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args(words)


def test_small_run():
    before = torch.get_num_threads()
    result = bench.run(arguments("--vocab", "3000", "--positions", "5", "--budgets", "16", "64", "--repeats", "2"))
    assert torch.get_num_threads() == before
    assert json.loads(json.dumps(result)) == result
    assert [row["budget"] for row in result["rows"]] == [16, 64]
    assert set(result["other_kinds"]) == {"sharp", "gaussian"}
    for row in result["rows"]:
        assert all(row[name] > 0 for name in ("ours_ms", "plain_ms", "ours_selection_ms", "plain_selection_ms"))


@pytest.mark.parametrize("kind", bench.KINDS)
def test_both_builds_give_the_same_tree(kind):
    logits = bench.realistic_logits(kind, 15, 5000, np.random.default_rng(0))
    ours, plain = bench.OurBuild(200)(logits), bench.PlainBuild(200)(logits)
    np.testing.assert_allclose(ours.score, plain.score, atol=1e-4)
    mask, plain_mask = ours.layout.masks[None], plain.layout.masks[None]
    assert mask.shape == plain_mask.shape
    assert (mask == 0).sum() == (plain_mask == 0).sum()
    assert sorted(ours.layout.position_ids[0].tolist()) == sorted(plain.layout.position_ids[0].tolist())

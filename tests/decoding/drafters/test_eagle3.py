"""The EAGLE-3 drafter equals a plain implementation on every path of every round, whatever was committed before."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from decoding.drafters.base import Candidates, Observation, no_next
from decoding.drafters.eagle3 import Eagle3Drafter, load_eagle3
from decoding.drafters.fitting import Fitting
from decoding.errors import Incompatible, NonFiniteLogits
from tests.decoding.drafters.eagle3_checkpoint import SHAPE, write_eagle3_checkpoint
from tests.decoding.drafters.eagle3_reference import reference_logprobs

VOCAB, HIDDEN, LAYERS = SHAPE["vocab_size"], SHAPE["hidden_size"], 9
VARIANTS: dict[str, dict[str, Any]] = {
    "published": {},
    "norm before residual": {"norm_before_residual": True},
    "bias": {"attention_bias": True},
    "whole vocabulary": {"draft_vocab_size": None},
    "two taps": {"taps": 2, "eagle_aux_hidden_state_layer_ids": [1, 6]},
    "own embedding": {"own_embedding": True},
    "narrower than the target": {"own_embedding": True, "hidden_size": 24, "target_hidden_size": HIDDEN},
    "one head per key": {"num_key_value_heads": 4},
}


@pytest.fixture(autouse=True, params=["kernels", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What runs the drafter's layer on a CPU in float32."""
    if request.param == "torch":
        monkeypatch.setattr("decoding.drafters.eagle3.host_eagle3", lambda _: None)
    return str(request.param)


def target_embedding() -> nn.Embedding:
    torch.manual_seed(9)
    return nn.Embedding(VOCAB, HIDDEN)


def load(folder: Path, dtype: torch.dtype = torch.float32, device: str = "cpu", **changed: int) -> Eagle3Drafter:
    fitting = replace(Fitting(VOCAB, HIDDEN, LAYERS, dtype, torch.device(device)), **changed)
    return load_eagle3(folder, fitting, target_embedding().to(device, dtype))


class Text:
    """A text as the target would commit it, and what the drafter should then say."""

    def __init__(self, folder: Path, seed: int) -> None:
        raw = json.loads((folder / "config.json").read_text())
        self.config, self.weights = raw, load_file(folder / "model.safetensors")
        self.embedding = self.weights.get("embed_tokens.weight", target_embedding().weight.detach())
        self.rng = np.random.default_rng(seed)
        self.width = self.weights["fc.weight"].shape[1]
        self.tokens: list[int] = []
        self.features = torch.zeros(0, self.width)

    def commit(self, tokens: list[int]) -> Observation:
        features = torch.from_numpy(self.rng.normal(0, 1, (len(tokens), self.width)).astype(np.float32))
        self.tokens += tokens
        self.features = torch.cat([self.features, features])
        return Observation(np.array(tokens, np.int32), features, np.zeros(0, np.int32), no_next())

    def check(self, root: int, path: list[int], token: np.ndarray, logprob: np.ndarray, atol: float = 2e-5) -> None:
        """Compares one row of candidates with the plain implementation."""
        expected = reference_logprobs(
            self.config, self.weights, self.embedding, self.features, [*self.tokens, root], path
        )
        there = token >= 0
        assert (there == (np.arange(len(token)) < len(expected))).all()
        assert len(set(token[there].tolist())) == there.sum()
        np.testing.assert_allclose(logprob[there], [expected[t] for t in token[there].tolist()], atol=atol)
        best = sorted(expected.values(), reverse=True)[: there.sum()]
        np.testing.assert_allclose(logprob[there], best, atol=atol)


def rows_read(drafter: Eagle3Drafter) -> list[int]:
    """Grows by the number of rows of every forward pass of a drafter that has an embedding of its own."""
    rows: list[int] = []
    assert drafter.model.embed_tokens is not None
    drafter.model.embed_tokens.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0])))
    return rows


def draft_round(drafter: Eagle3Drafter, text: Text, root: int) -> list[list[int]]:
    """Expands random frontiers for some depths, parents from any depth, checking every row; all proposed paths."""
    rng = text.rng
    k = int(rng.integers(1, 5))
    candidates: Candidates = drafter.start(root, k)
    text.check(root, [], candidates.token[0], candidates.logprob[0])
    nodes: list[list[int]] = [[]]
    open_paths = {(token,): 0 for token in candidates.token[0].tolist()}
    proposed = list(open_paths)
    for _ in range(int(rng.integers(0, 4))):
        options = list(open_paths)
        chosen = [options[i] for i in rng.permutation(len(options))[: rng.integers(1, 4)]]
        parents = np.array([open_paths.pop(path) for path in chosen], np.int32)
        candidates = drafter.expand(np.array([path[-1] for path in chosen], np.int32), parents, k)
        for place, path in enumerate(chosen):
            text.check(root, list(path), candidates.token[place], candidates.logprob[place])
            new = {(*path, token): len(nodes) for token in candidates.token[place].tolist()}
            nodes.append(list(path))
            open_paths |= new
            proposed += list(new)
        if not open_paths:
            break
    return [[], *map(list, proposed)]


@pytest.mark.parametrize("layer", ["midlayer.", "layers.0."])
def test_both_layouts_of_the_tensors_load_alike(tmp_path: Path, layer: str) -> None:
    drafter = load(write_eagle3_checkpoint(tmp_path / "tiny_eagle3", layer=layer))
    assert (drafter.name, drafter.taps, drafter.vocab_size) == ("tiny_eagle3", (2, 4, 6), VOCAB)
    text = Text(write_eagle3_checkpoint(tmp_path / "same"), seed=1)
    drafter.begin(20)
    drafter.observe(text.commit([4, 8, 15]))
    found = drafter.start(16, 5)
    text.check(16, [], found.token[0], found.logprob[0])


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_candidate_equals_a_plain_forward(tmp_path: Path, variant: str) -> None:
    folder = write_eagle3_checkpoint(tmp_path, **VARIANTS[variant])
    drafter = load(folder)
    for seed in range(2):  # two runs, so that begin must forget
        text = Text(folder, seed)
        rng = text.rng
        drafter.begin(64)  # fewer entries than the rounds evaluate: the slab must grow
        drafter.observe(text.commit(rng.integers(0, VOCAB, int(rng.integers(1, 7))).tolist()))
        root = int(rng.integers(VOCAB))
        for _ in range(4):
            paths = draft_round(drafter, text, root) if rng.random() < 0.8 else [[]]
            drafter.observe(text.commit([root, *paths[rng.integers(len(paths))]]))
            root = int(rng.integers(VOCAB))
        drafter.end()


def test_committed_positions_are_read_with_the_targets_own_features(tmp_path: Path) -> None:
    """What was drafted in a round leaves no trace: the same as if the committed text had come at once."""
    folder = write_eagle3_checkpoint(tmp_path)
    drafter, text = load(folder), Text(folder, 3)
    drafter.begin(30)
    drafter.observe(text.commit([1, 2, 3]))
    first = drafter.start(7, 3).token[0]
    second = drafter.expand(first, np.zeros(3, np.int32), 2).token
    drafter.observe(text.commit([7, int(first[1]), int(second[1, 0])]))
    ours = drafter.start(9, 20)
    drafter.begin(30)
    drafter.observe(Observation(np.array(text.tokens, np.int32), text.features, np.zeros(0, np.int32), no_next()))
    at_once = drafter.start(9, 20)
    np.testing.assert_array_equal(ours.token, at_once.token)
    np.testing.assert_allclose(ours.logprob, at_once.logprob, atol=1e-5)


def test_the_kernels_run_what_they_can(tmp_path: Path, way: str) -> None:
    folder = write_eagle3_checkpoint(tmp_path)
    assert load(folder).runs_on_kernels == (way == "kernels")
    assert not load(folder, torch.bfloat16).runs_on_kernels


def test_one_forward_pass_for_each_depth(tmp_path: Path) -> None:
    folder = write_eagle3_checkpoint(tmp_path, own_embedding=True)
    drafter, text = load(folder), Text(folder, 0)
    rows = rows_read(drafter)
    drafter.begin(40)
    drafter.observe(text.commit([1, 2, 3, 4]))
    first = drafter.start(5, 3).token[0]
    drafter.expand(first, np.zeros(3, np.int32), 2)
    assert rows == [3, 1, 3]  # the prompt's last position waits for the root
    drafter.observe(text.commit([5, int(first[0])]))
    drafter.start(6, 1)
    assert rows[3:] == [2]  # the accepted token and the new root; the old root's entry was right already
    drafter.start(8, 1)
    drafter.observe(text.commit([6]))  # another root was tried: its entry does not count
    drafter.start(9, 1)
    assert rows[4:] == [1, 2]


def test_a_second_start_replaces_the_first(tmp_path: Path) -> None:
    folder = write_eagle3_checkpoint(tmp_path)
    drafter, text = load(folder), Text(folder, 0)
    drafter.begin(40)
    drafter.observe(text.commit([1, 2, 3]))
    for root in (4, 5):
        found = drafter.start(root, 3)
        text.check(root, [], found.token[0], found.logprob[0])


def test_a_long_prompt_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_eagle3_checkpoint(tmp_path, own_embedding=True)
    whole, text = load(folder), Text(folder, 0)
    observation = text.commit(text.rng.integers(0, VOCAB, 21).tolist())
    whole.begin(40)
    whole.observe(observation)
    expected = whole.start(7, 4)
    monkeypatch.setattr("decoding.drafters.eagle3.PREFILL_CHUNK", 8)
    drafter = load(folder)
    rows = rows_read(drafter)
    drafter.begin(40)
    drafter.observe(observation)
    found = drafter.start(7, 4)
    assert rows == [8, 8, 4, 1]
    np.testing.assert_array_equal(found.token, expected.token)
    np.testing.assert_allclose(found.logprob, expected.logprob, atol=1e-5)


def test_beyond_its_context_it_proposes_nothing(tmp_path: Path) -> None:
    folder = write_eagle3_checkpoint(tmp_path, max_position_embeddings=12)
    drafter, text = load(folder), Text(folder, 0)
    assert drafter.max_context == 12
    drafter.begin(100)
    drafter.observe(text.commit(list(range(10))))
    first = drafter.start(10, 2).token
    second = drafter.expand(first[0], np.zeros(2, np.int32), 2).token
    third = drafter.expand(second[0], np.ones(2, np.int32), 2).token
    assert (first >= 0).all()
    assert (second >= 0).all()  # at positions 10 and 11
    assert (third >= 0).all()
    assert (drafter.expand(third[0], np.array([3, 3], np.int32), 2).token == -1).all()
    drafter.observe(text.commit([10, int(first[0, 0]), int(second[0, 0])]))
    assert (drafter.start(11, 2).token == -1).all()
    drafter.observe(text.commit([11]))
    assert (drafter.start(12, 2).token == -1).all()
    drafter.begin(100)
    drafter.observe(text.commit(list(range(30))))
    assert (drafter.start(11, 2).token == -1).all()


def test_more_candidates_than_draft_tokens(tmp_path: Path) -> None:
    folder = write_eagle3_checkpoint(tmp_path)
    drafter, text = load(folder), Text(folder, 0)
    drafter.begin(10)
    drafter.observe(text.commit([1]))
    found = drafter.start(2, 25)
    assert (found.token[0, 20:] == -1).all()
    np.testing.assert_allclose(np.exp(found.logprob[0, :20]).sum(), 1, rtol=1e-5)
    assert set(found.token[0, :20].tolist()) == set(text.weights["t2d"].nonzero()[:, 0].tolist())


def test_features_are_checked(tmp_path: Path) -> None:
    drafter = load(write_eagle3_checkpoint(tmp_path))
    drafter.begin(4)
    two = np.zeros(2, np.int32)
    with pytest.raises(Incompatible, match=r"\[2, 96\].*\[2, 4, 6\].*\[2, 64\]"):
        drafter.observe(Observation(two, torch.zeros(2, 64), two, no_next(2)))
    with pytest.raises(Incompatible, match="none"):
        drafter.observe(Observation(two, None, two, no_next(2)))


def test_broken_weights_are_named(tmp_path: Path) -> None:
    drafter = load(write_eagle3_checkpoint(tmp_path / "tiny"))
    with torch.no_grad():
        drafter.model.norm.weight.fill_(float("nan"))
    drafter.begin(10)
    drafter.observe(Text(tmp_path / "tiny", 0).commit([1]))
    with pytest.raises(NonFiniteLogits, match="tiny"):
        drafter.start(2, 2)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_bfloat16_stays_near(tmp_path: Path, device: str) -> None:
    folder = write_eagle3_checkpoint(tmp_path)
    drafter, text = load(folder, torch.bfloat16, device), Text(folder, 0)
    assert drafter.model.d2t.dtype == torch.int64
    drafter.begin(30)
    observation = text.commit([1, 2, 3, 4])
    on_device = observation.features.to(device, torch.bfloat16)  # type: ignore[union-attr]
    drafter.observe(Observation(observation.tokens, on_device, observation.seen_token, observation.seen_next))
    token = int(drafter.start(5, 1).token[0, 0])
    found = drafter.expand(np.array([token], np.int32), np.zeros(1, np.int32), 20)
    rounded = {name: tensor if name == "d2t" else tensor.bfloat16() for name, tensor in text.weights.items()}
    expected = reference_logprobs(
        text.config, rounded, text.embedding.bfloat16(), on_device.cpu(), [*text.tokens, 5], [token]
    )
    np.testing.assert_allclose(found.logprob[0], [expected[t] for t in found.token[0].tolist()], atol=0.1)


@pytest.mark.cuda
def test_every_candidate_equals_a_plain_forward_on_cuda(tmp_path: Path) -> None:
    folder = write_eagle3_checkpoint(tmp_path)
    drafter, text = load(folder, device="cuda"), Text(folder, 0)
    drafter.begin(64)
    observation = text.commit([3, 1, 4, 1, 5])
    drafter.observe(Observation(observation.tokens, _on_cuda(observation.features), observation.tokens, no_next(5)))
    root = 9
    for _ in range(3):
        path = max(draft_round(drafter, text, root), key=len)
        observation = text.commit([root, *path])
        drafter.observe(Observation(observation.tokens, _on_cuda(observation.features), observation.tokens, no_next()))
        root = int(text.rng.integers(VOCAB))


def _on_cuda(features: Tensor | None) -> Tensor:
    assert features is not None
    return features.to("cuda")

"""The autoregressive drafter against from-scratch forward passes of tiny random models."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM

from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.base import Candidates, Observation, no_next
from decoding.errors import Incompatible, NonFiniteLogits
from decoding.layout import Layout
from decoding.target import Target

VOCAB = 48
SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
}


def make_model(kind: str, **changes: Any) -> Target:
    torch.manual_seed(0)
    shape = SHAPE | changes
    model = (
        LlamaForCausalLM(LlamaConfig(**shape, num_key_value_heads=2))
        if kind == "llama"
        else GPTNeoXForCausalLM(GPTNeoXConfig(**shape))
    )
    return Target(model.eval(), None, f"tiny-{kind}")


@pytest.fixture(scope="module", params=["llama", "neox"])
def model(request: pytest.FixtureRequest) -> Target:
    return make_model(request.param)


def committed(tokens: list[int]) -> Observation:
    array = np.array(tokens, np.int32)
    return Observation(array, None, array, no_next(len(array)))


@torch.inference_mode()
def from_scratch(model: Target, text: list[int]) -> np.ndarray:
    return model.model(torch.tensor([text])).logits[0, -1].float().log_softmax(-1).numpy()


def check_row(model: Target, text: list[int], token: np.ndarray, logprob: np.ndarray) -> None:
    """Compares one row of candidates with the model run anew over the whole text."""
    expected = from_scratch(model, text)
    np.testing.assert_allclose(logprob, expected[token], atol=1e-5)
    np.testing.assert_allclose(logprob, np.sort(expected)[::-1][: len(token)], atol=1e-5)


class Forwards:
    """Counts the forward passes of a model and the tokens of each."""

    def __init__(self, model: Target) -> None:
        self.widths: list[int] = []
        self.model, self.forward = model, model.forward

    def _counted(self, layout: Layout, *others: Any) -> Any:
        self.widths.append(layout.input_ids.shape[1])
        return self.forward(layout, *others)

    def __enter__(self) -> "Forwards":
        self.model.forward = self._counted
        return self

    def __exit__(self, *_: object) -> None:
        self.model.forward = self.forward


def draft_round(drafter: Autoregressive, model: Target, text: list[int], root: int, rng: np.random.Generator) -> dict:
    """Expands random frontiers for some depths, checking every row; returns all proposed paths."""
    k = int(rng.integers(1, 5))
    candidates: Candidates = drafter.start(root, k)
    check_row(model, [*text, root], candidates.token[0], candidates.logprob[0])
    layer = {0: ((), candidates.token[0])}
    proposed: dict[tuple[int, ...], bool] = {(token,): False for token in candidates.token[0].tolist()}
    count = 1
    for _ in range(int(rng.integers(0, 5))):
        options = [((*path, token), node) for node, (path, row) in layer.items() for token in row.tolist()]
        chosen = [options[i] for i in rng.permutation(len(options))[: rng.integers(1, 5)]]
        tokens = np.array([path[-1] for path, _ in chosen], np.int32)
        candidates = drafter.expand(tokens, np.array([node for _, node in chosen], np.int32), k)
        layer = {}
        for place, (path, _) in enumerate(chosen):
            check_row(model, [*text, root, *path], candidates.token[place], candidates.logprob[place])
            proposed[path] = True
            proposed |= {(*path, token): False for token in candidates.token[place].tolist()}
            layer[count + place] = (path, candidates.token[place])
        count += len(chosen)
    return proposed


@pytest.mark.parametrize("seed", range(2))
def test_every_candidate_equals_a_forward_from_scratch(model: Target, seed: int):
    rng = np.random.default_rng(seed)
    drafter = Autoregressive(model, VOCAB)
    accepted_unevaluated = 0
    for _ in range(2):  # two runs, so that begin must forget
        text = rng.integers(0, VOCAB, int(rng.integers(1, 20))).tolist()
        drafter.begin(80)  # too small for what the rounds evaluate: the cache must grow
        drafter.observe(committed(text))
        root = int(rng.integers(VOCAB))
        for _ in range(6):
            proposed = draft_round(drafter, model, text, root, rng) if rng.random() < 0.9 else {}
            paths = [(), *proposed]
            path = paths[rng.integers(len(paths))]
            accepted_unevaluated += not proposed.get(path, True)
            drafter.observe(committed([root, *path]))
            text += [root, *path]
            root = int(rng.integers(VOCAB))
        drafter.end()
    assert accepted_unevaluated


def test_one_forward_for_each_depth(model: Target):
    drafter = Autoregressive(model, VOCAB)
    drafter.begin(100)
    with Forwards(model) as forwards:
        drafter.observe(committed([1, 2, 3]))
        first = drafter.start(4, 3).token[0]
        second = drafter.expand(first, np.zeros(3, np.int32), 2).token
        drafter.expand(second[:2].ravel(), np.array([1, 1, 2, 2], np.int32), 2)
        assert forwards.widths == [3, 1, 3, 4]
        # The leaf below the last evaluated node was never evaluated: it comes with the next root, in one pass.
        drafter.observe(committed([4, int(first[2]), int(second[2, 0])]))
        drafter.start(5, 1)
        assert forwards.widths[4:] == [2]
        drafter.observe(committed([5]))
        drafter.start(6, 1)
        assert forwards.widths[5:] == [1]


def test_prompt_is_prefilled_in_chunks(model: Target, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("decoding.drafters.autoregressive.PREFILL_CHUNK", 8)
    drafter = Autoregressive(model, VOCAB)
    text = np.random.default_rng(0).integers(0, VOCAB, 21).tolist()
    with Forwards(model) as forwards:
        drafter.begin(40)
        drafter.observe(committed(text))
        drafter.start(7, 4)
        assert forwards.widths == [8, 8, 5, 1]
        # Many committed tokens at once, none drafted: chunks again.
        drafter.observe(committed([7, *text]))
        found = drafter.start(9, 4)
        assert max(forwards.widths) <= 9
    check_row(model, [*text, 7, *text, 9], found.token[0], found.logprob[0])


def test_sliding_window_model():
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(0)
    config = MistralConfig(**SHAPE, num_key_value_heads=2, sliding_window=6)
    model = Target(MistralForCausalLM(config).eval(), None, "tiny-mistral")
    rng = np.random.default_rng(1)
    drafter = Autoregressive(model, VOCAB)
    drafter.begin(100)
    text, root = [3, 1, 4, 1, 5, 9, 2, 6], 5
    drafter.observe(committed(text))
    for _ in range(4):
        path = max(draft_round(drafter, model, text, root, rng), key=len)
        drafter.observe(committed([root, *path]))
        text, root = [*text, root, *path], int(rng.integers(VOCAB))


def test_beyond_its_context_it_proposes_nothing():
    model = make_model("llama", max_position_embeddings=12)
    drafter = Autoregressive(model, VOCAB)
    drafter.begin(100)
    drafter.observe(committed(list(range(10))))
    first = drafter.start(10, 2).token
    assert (first >= 0).all()
    second = drafter.expand(first[0], np.zeros(2, np.int32), 2).token
    assert (second >= 0).all()
    assert (drafter.expand(second[0], np.ones(2, np.int32), 2).token == -1).all()
    drafter.observe(committed([10, int(first[0, 0]), int(second[0, 0])]))
    assert (drafter.start(11, 2).token == -1).all()
    drafter.begin(100)
    drafter.observe(committed(list(range(30))))
    assert (drafter.start(11, 2).token == -1).all()


def test_refusals(model: Target):
    with pytest.raises(Incompatible, match=r"48.*50"):
        Autoregressive(model, 50)


def test_more_candidates_than_tokens(model: Target):
    drafter = Autoregressive(model, VOCAB)
    drafter.begin(10)
    drafter.observe(committed([1]))
    token = drafter.start(2, VOCAB + 3).token[0]
    assert sorted(token[:VOCAB].tolist()) == list(range(VOCAB))
    assert (token[VOCAB:] == -1).all()


def test_broken_weights_are_named():
    model = make_model("llama")
    with torch.no_grad():
        model.model.model.layers[0].mlp.up_proj.weight.fill_(float("nan"))
    drafter = Autoregressive(model, VOCAB)
    drafter.begin(10)
    drafter.observe(committed([1]))
    with pytest.raises(NonFiniteLogits, match="tiny-llama"):
        drafter.start(2, 2)

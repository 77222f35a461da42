"""What Medusa heads compute, and which token each of them tells."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from decoding.drafter_loading import load_drafter
from decoding.drafters.base import Observation, no_next
from decoding.drafters.fitting import Fitting
from decoding.drafters.medusa import MedusaDrafter, load_medusa
from decoding.errors import Incompatible
from decoding.target import Target
from tests.decoding.drafters.medusa_checkpoint import LAYOUTS, write_medusa_checkpoint
from tests.decoding.test_lossless import run
from tests.tiny_models import FAMILIES, tiny_target

FITTING = Fitting(vocab=48, hidden=32, layers=6)


def target_head(seed: int = 9) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(32, 48, bias=False)


def load(folder: Path, name: str | None = None, **changed: int) -> MedusaDrafter:
    return load_medusa(folder, replace(FITTING, **changed), target_head(), name=name)


def observation(features: Tensor | None, rows: int | None = None) -> Observation:
    count = rows if features is None else len(features)
    return Observation(np.zeros(count, np.int32), features, np.zeros(0, np.int32), no_next())


def features_of(rows: int, seed: int = 3) -> Tensor:
    return torch.randn(rows, 32, generator=torch.Generator().manual_seed(seed))


def reference(weights: dict[str, Tensor], layout: str, heads: int, layers: int, hidden: Tensor) -> Tensor:
    """Section 2.1.1 written out, one number of one head at a time: logits `[heads, vocab]` in float64."""
    rows = []
    for head in range(heads):
        state = hidden.double()
        for layer in range(layers):
            at = f"blocks.{head}.layers.{layer}" if layout.startswith("vllm") else f"{head}.{layer}.linear"
            bias = weights.get(f"{at}.bias", torch.zeros(len(state)))
            inner = torch.stack([(row.double() * state).sum() for row in weights[f"{at}.weight"]]) + bias
            state = state + inner / (1 + (-inner).exp())
        own = f"lm_heads.{head}.weight" if layout == "vllm" else f"{head}.{layers}.weight"
        output = target_head().weight.detach() if "shared" in layout else weights[own]
        rows.append(output.double() @ state)
    return torch.stack(rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_medusa_checkpoint(tmp_path / "tiny-medusa")


def test_it_says_what_it_is(folder: Path) -> None:
    drafter = load(folder)
    assert (drafter.name, drafter.positions, drafter.taps, drafter.vocab_size) == ("tiny-medusa", 3, (6,), 48)
    assert load(folder, name="other").name == "other"


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_logits_are_those_of_the_paper_s_formula(tmp_path: Path, layout: str, layers: int) -> None:
    folder = write_medusa_checkpoint(tmp_path, layout=layout, layers=layers, heads=4)
    weights = load_file(next(folder.glob("*.safetensors")))
    drafter = load(folder)
    drafter.begin(20)
    features = features_of(9)
    for start, stop in ((0, 5), (5, 6), (6, 9)):
        drafter.observe(observation(features[start:stop]))
        expected = reference(weights, layout, 4, layers, features[stop - 1])
        torch.testing.assert_close(drafter.logits(7).double(), expected, atol=1e-5, rtol=1e-5)


def test_marginals_are_the_sorted_top_of_the_normalised_logits(folder: Path) -> None:
    drafter = load(folder)
    drafter.begin(8)
    drafter.observe(observation(features_of(8)))
    marginals, expected = drafter.marginals(5, 7), drafter.logits(5).log_softmax(-1)
    assert marginals.token.shape == (3, 7)
    chosen = expected.gather(1, torch.tensor(marginals.token, dtype=torch.int64))
    np.testing.assert_allclose(marginals.logprob, chosen, atol=1e-5)
    np.testing.assert_array_equal(marginals.token[:, 0], expected.argmax(-1))
    np.testing.assert_allclose(np.exp(drafter.marginals(5, 1000).logprob).sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(drafter.marginals(6, 7).logprob, marginals.logprob)  # no head knows the root


def test_a_run_knows_nothing_of_the_last_one(folder: Path) -> None:
    drafter = load(folder)
    drafter.begin(4)
    with pytest.raises(RuntimeError, match=r"observe\(\)"):
        drafter.logits(5)
    drafter.observe(observation(features_of(4)))
    first = drafter.logits(5)
    drafter.observe(observation(features_of(0)))
    assert torch.equal(drafter.logits(5), first)
    drafter.begin(4)
    with pytest.raises(RuntimeError, match=r"observe\(\)"):
        drafter.logits(5)
    drafter.observe(observation(features_of(4)))
    drafter.end()
    with pytest.raises(RuntimeError, match=r"begin\(\)"):
        drafter.logits(5)


def test_features_are_checked_and_not_kept(folder: Path) -> None:
    drafter = load(folder)
    drafter.begin(4)
    with pytest.raises(Incompatible, match=r"features \[2, 32\] of the target's hidden states \[6\].*\[2, 64\]"):
        drafter.observe(observation(torch.zeros(2, 64)))
    with pytest.raises(Incompatible, match=r"\[2, 32\].*\[3, 32\]"):
        drafter.observe(Observation(np.zeros(2, np.int32), torch.zeros(3, 32), np.zeros(0, np.int32), no_next()))
    with pytest.raises(Incompatible, match="none"):
        drafter.observe(observation(None, rows=2))
    features = features_of(4)
    drafter.observe(observation(features))
    before = drafter.logits(5)
    features.zero_()
    assert torch.equal(drafter.logits(5), before)


def test_bfloat16_is_near_float32(folder: Path) -> None:
    results = []
    narrow = load_medusa(folder, replace(FITTING, dtype=torch.bfloat16), target_head().bfloat16())
    for drafter in (load(folder), narrow):
        drafter.begin(3)
        drafter.observe(observation(features_of(3)))
        results.append(drafter.logits(5))
    assert results[1].dtype == torch.float32
    torch.testing.assert_close(results[1], results[0], atol=0.15, rtol=0.1)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_tapped_state_is_the_one_that_the_target_s_head_reads(family: str, tmp_path: Path) -> None:
    """The last of the hidden states, after the final norm: through the target's head it gives the root."""
    target = tiny_target(family)
    folder = write_medusa_checkpoint(tmp_path, vocab=target.vocab_size)
    context = target.open(12, 1, load_drafter(str(folder), target, print).taps)
    said = context.prefill((5, 17, 33, 8, 60))
    assert said.features is not None
    torch.testing.assert_close(target.head(said.features[-1:])[0], said.logits, atol=1e-5, rtol=1e-5)


CYCLE = 31


def scripted_target(order: Tensor) -> Target:
    """A Llama that goes round a cycle: after the token order[i] it always says order[i + 1].

    Its hidden state at a token is that token alone, as one number out of many: nothing flows between positions.
    """
    config = LlamaConfig(vocab_size=CYCLE, hidden_size=32, intermediate_size=8, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                         tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)  # fmt: skip
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    model.model.embed_tokens.weight.copy_(torch.eye(CYCLE, 32))
    model.lm_head.weight.copy_(ahead(order, 1))
    return Target(model, None, "scripted")


def ahead(order: Tensor, steps: int) -> Tensor:
    """`[vocab, hidden]` the matrix that says, of a state that is the token order[i] alone, order[i + steps]."""
    matrix = torch.zeros(CYCLE, 32)
    matrix[order.roll(-steps), order] = 1.0
    return matrix


def scripted_heads(folder: Path, order: Tensor, heads: int, shift: int) -> Path:
    """Head k tells the token `k + shift` places after the one at the state that it reads."""
    weights = {}
    for head in range(heads):
        weights[f"{head}.0.linear.weight"] = torch.zeros(32, 32)
        weights[f"{head}.0.linear.bias"] = torch.zeros(32)
        weights[f"{head}.1.weight"] = ahead(order, head + 1 + shift)
    return write_medusa_checkpoint(folder, heads=heads, weights=weights)


@pytest.mark.parametrize(("shift", "right"), [(1, True), (0, False), (2, False)])
def test_head_k_tells_the_token_k_places_after_the_root(tmp_path: Path, shift: int, right: bool) -> None:
    """Paper: from h_t the target's head tells t + 1, here the root, and head k tells t + k + 1."""
    order = torch.randperm(CYCLE, generator=torch.Generator().manual_seed(4))
    target = scripted_target(order)
    drafter = load_drafter(str(scripted_heads(tmp_path, order, 4, shift)), target, print)
    begun = 7
    prompt = tuple(order[torch.arange(begun - 2, begun + 1)].tolist())
    context = target.open(8, 1, drafter.taps)
    said = context.prefill(prompt)
    drafter.begin(8)
    drafter.observe(Observation(np.array(prompt, np.int32), said.features, np.zeros(0, np.int32), no_next()))
    root = int(said.logits.argmax())
    assert root == order[begun + 1]
    assert drafter.marginals(root, 1).token[:, 0].tolist() == order[begun + 1 + shift :][:4].tolist()
    assert (drafter.marginals(root, 1).token[:, 0].tolist() == order[begun + 2 :][:4].tolist()) is right
    drafter.end()
    _, rounds, summary = run(target, drafter, "linear", {"budget": 4}, prompt_ids=prompt, max_new_tokens=29)
    assert list(summary.output_ids) == order.roll(-begun - 1)[:29].tolist()
    assert {item.verdict.accepted for item in rounds[:-1]} == {4 if right else 0}

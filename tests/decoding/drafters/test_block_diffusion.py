import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from decoding.drafters.base import Observation, no_next
from decoding.drafters.block_diffusion import BlockDiffusionDrafter, load_block_diffusion
from decoding.drafters.block_diffusion_config import BlockDiffusionConfig, default_target_layer_ids
from decoding.drafters.block_diffusion_model import block_mask
from decoding.drafters.fitting import Fitting
from decoding.drafters.network import rotation
from decoding.errors import BadRequest, Incompatible, ModelUnavailable, UnsupportedModel
from decoding.kernel_linear import KernelLinear
from decoding.kernels.crew import AVAILABLE
from decoding.kernels.pieces import PIECE
from decoding.sampling import Sampling, probabilities
from tests.decoding.drafters.dflash_checkpoint import write_dflash_checkpoint
from tests.decoding.drafters.dflash_reference import reference_hidden

SHAPE: dict[str, Any] = {
    "hidden": 32,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "layers": 3,
    "target_layers": 6,
    "target_layer_ids": [1, 2, 4],
    "block_size": 5,
    "mask_token_id": 40,
    "vocab": 48,
    "seed": 0,
}
FITTING = Fitting(SHAPE["vocab"], SHAPE["hidden"], SHAPE["target_layers"])
SLIDING = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "sliding_window": 6,
    "use_sliding_window": True,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"is_causal": True},
    "sliding": SLIDING,
    "sliding both ways": SLIDING | {"is_causal": False},
    "window below the block": SLIDING | {"sliding_window": 3},
    "bias": {"attention_bias": True},
}


def target_parts(seed: int = 9) -> tuple[nn.Embedding, nn.Linear]:
    torch.manual_seed(seed)
    return nn.Embedding(SHAPE["vocab"], SHAPE["hidden"]), nn.Linear(SHAPE["hidden"], SHAPE["vocab"], bias=False)


def load(folder: Path, name: str | None = None, plain: bool = False, **changed: int) -> BlockDiffusionDrafter:
    """With the head of a target on kernels, or a `plain` one, with which none of the drafter is on kernels."""
    embed, head = target_parts()
    return load_block_diffusion(
        folder, replace(FITTING, **changed), embed, head if plain else KernelLinear(head), name=name
    )


def observation(features: Tensor) -> Observation:
    return Observation(np.zeros(len(features), np.int32), features, np.zeros(0, np.int32), no_next())


def features_of(rows: int, seed: int = 3) -> Tensor:
    return torch.randn(rows, 3 * SHAPE["hidden"], generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_dflash_checkpoint(tmp_path / "tiny-DFlash-b5", **SHAPE)


def test_it_says_what_it_is(folder: Path) -> None:
    drafter = load(folder)
    assert (drafter.name, drafter.positions, drafter.taps, drafter.vocab_size) == ("tiny-DFlash-b5", 4, (2, 3, 5), 48)
    assert load(folder, name="other").name == "other"


@pytest.mark.parametrize("variant", VARIANTS)
def test_rounds_over_the_cache_equal_a_forward_from_scratch(tmp_path: Path, variant: str) -> None:
    folder = write_dflash_checkpoint(tmp_path, **SHAPE, extra=VARIANTS[variant])
    config, weights = json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")
    embed, head = target_parts()
    drafter = load(folder)
    drafter.begin(20)
    features = features_of(20)
    known = 0
    for root, committed in ((5, 3), (7, 1), (11, 5), (2, 4), (3, 1), (4, 6)):
        drafter.observe(observation(features[known : known + committed]))
        known += committed
        block = embed(torch.tensor([root, 40, 40, 40, 40]))
        expected = head(reference_hidden(config, weights, features[:known], block))[1:]
        torch.testing.assert_close(drafter.logits(root), expected, atol=1e-5, rtol=1e-5, check_stride=False)


def test_marginals_are_the_sorted_top_of_the_normalised_logits(folder: Path) -> None:
    drafter = load(folder)
    drafter.begin(8)
    drafter.observe(observation(features_of(8)))
    marginals = drafter.marginals(5, 7)
    expected = drafter.logits(5).log_softmax(-1)
    assert marginals.token.shape == (4, 7)
    np.testing.assert_allclose(np.exp(drafter.marginals(5, 1000).logprob).sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(marginals.token[:, 0], expected.argmax(-1))
    chosen = expected.gather(1, torch.tensor(marginals.token, dtype=torch.int64))
    np.testing.assert_allclose(marginals.logprob, chosen, atol=1e-5)


@pytest.mark.parametrize("variant", ["full", "sliding"])
def test_observing_in_pieces_equals_observing_at_once(tmp_path: Path, variant: str) -> None:
    folder = write_dflash_checkpoint(tmp_path, **SHAPE, extra=VARIANTS[variant])
    features = features_of(11)
    drafter = load(folder)
    drafter.begin(11)
    drafter.observe(observation(features))
    at_once = drafter.logits(5)
    drafter.begin(11)
    for piece in features.split([4, 1, 0, 6]):
        drafter.observe(observation(piece))
        drafter.logits(8)  # a round in between leaves no trace
    torch.testing.assert_close(drafter.logits(5), at_once, atol=1e-5, rtol=1e-5)
    assert drafter.runs_on_kernels is (variant == "full" and AVAILABLE)
    if drafter.runs_on_kernels:
        assert torch.equal(drafter.logits(5), at_once), "the kernels' rows do not depend on each other"


@pytest.mark.skipif(not AVAILABLE, reason="no kernels here")
@pytest.mark.parametrize("narrow", [False, True])
def test_the_kernels_draft_what_torch_drafts(folder: Path, narrow: bool) -> None:
    """Also with matrices that are kept in bfloat16, because they are exact in it."""
    if narrow:
        rounded = load_file(folder / "model.safetensors")
        rewrite_weights(folder, {name: value.bfloat16().float() for name, value in rounded.items()})
    kernels, plain = load(folder), load(folder, plain=True)
    assert (kernels.runs_on_kernels, plain.runs_on_kernels) == (True, False)
    assert (kernels.model.fc.weight.dtype == torch.bfloat16) is narrow
    for drafter in (kernels, plain):
        drafter.begin(9)
        drafter.observe(observation(features_of(9)))
    torch.testing.assert_close(kernels.logits(5), plain.logits(5), atol=1e-5, rtol=1e-5)
    ours, theirs = kernels.marginals(7, 6), plain.marginals(7, 6)
    np.testing.assert_array_equal(ours.token, theirs.token)
    np.testing.assert_allclose(ours.logprob, theirs.logprob, atol=1e-5)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    "sampling", [Sampling(1.0), Sampling(0.3), Sampling(1e-300), Sampling(0.9, top_p=0.6), Sampling(2.0, top_k=3)]
)
def test_its_distributions_are_what_the_sampling_makes_of_its_logits(
    folder: Path, plain: bool, sampling: Sampling
) -> None:
    drafter = load(folder, plain=plain)
    drafter.begin(9)
    drafter.observe(observation(features_of(9)))
    logits, best, probs, mass = drafter.distributions(5, 4, sampling)
    torch.testing.assert_close(logits, drafter.logits(5))
    torch.testing.assert_close(probs, probabilities(logits, sampling))
    np.testing.assert_allclose(best.logprob, logits.log_softmax(1).topk(4).values, atol=1e-5)
    if mass is not None:
        until = [slice(end + PIECE) for end in range(0, probs.shape[1], PIECE)]
        np.testing.assert_allclose(mass, [[float(row[part].sum()) for part in until] for row in probs], rtol=1e-6)
    assert (mass is None) == (plain or not sampling.whole)


def test_a_new_run_forgets_the_last_one(folder: Path) -> None:
    drafter = load(folder)
    drafter.begin(4)
    drafter.observe(observation(features_of(4)))
    first = drafter.logits(5)
    drafter.begin(30)
    drafter.observe(observation(features_of(20, seed=8)))
    assert not torch.allclose(drafter.logits(5), first, atol=1e-2)
    drafter.begin(4)
    drafter.observe(observation(features_of(4)))
    torch.testing.assert_close(drafter.logits(5), first)
    drafter.end()
    with pytest.raises(RuntimeError, match="begin"):
        drafter.logits(5)


def test_features_and_capacity_are_checked(folder: Path) -> None:
    drafter = load(folder)
    drafter.begin(4)
    with pytest.raises(Incompatible, match=r"\[2, 96\].*\[2, 64\]"):
        drafter.observe(observation(torch.zeros(2, 64)))
    with pytest.raises(Incompatible, match="none"):
        drafter.observe(Observation(np.zeros(2, np.int32), None, np.zeros(0, np.int32), no_next()))
    with pytest.raises(BadRequest, match="5 tokens does not fit into 4"):
        drafter.observe(observation(features_of(5)))


def test_scale_multiplier_and_soft_cap(tmp_path: Path) -> None:
    said = {"input_embedding_scale": 3.0, "output_multiplier": 0.5, "final_logit_softcapping": 0.7}
    folder = write_dflash_checkpoint(tmp_path, **SHAPE, extra={"dflash_config": said})
    config, weights = json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")
    embed, head = target_parts()
    drafter = load(folder)
    drafter.begin(6)
    drafter.observe(observation(features_of(6)))
    block = 3.0 * embed(torch.tensor([5, 40, 40, 40, 40]))
    plain = head(reference_hidden(config, weights, features_of(6), block))[1:]
    torch.testing.assert_close(drafter.logits(5), torch.tanh(plain * 0.5 / 0.7) * 0.7, atol=1e-5, rtol=1e-5)


def test_plain_callables_serve_as_embedding_and_head(folder: Path) -> None:
    embed, head = target_parts()
    plain = load_block_diffusion(
        folder, FITTING, lambda ids: embed.weight[ids].bfloat16(), lambda x: x.float() @ head.weight.T
    )
    plain.begin(2)
    plain.observe(observation(features_of(2).bfloat16()))
    logits = plain.logits(5)
    assert (logits.dtype, logits.shape) == (torch.float32, (4, 48))


def test_bfloat16_is_near_float32(folder: Path) -> None:
    embed, head = target_parts()
    wide = load(folder)
    narrow = load_block_diffusion(folder, replace(FITTING, dtype=torch.bfloat16), embed.bfloat16(), head.bfloat16())
    results = []
    for drafter in (wide, narrow):
        drafter.begin(9)
        drafter.observe(observation(features_of(9)))
        results.append(drafter.logits(5))
    assert results[1].dtype == torch.float32
    torch.testing.assert_close(results[1], results[0], atol=0.1, rtol=0.1)


def test_old_layout_and_shards_give_the_same_drafter(tmp_path: Path) -> None:
    logits = []
    for index, form in enumerate(({}, {"old_layout": True}, {"shards": 3})):
        drafter = load(write_dflash_checkpoint(tmp_path / str(index), **SHAPE, **form))
        drafter.begin(6)
        drafter.observe(observation(features_of(6)))
        logits.append(drafter.logits(5))
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])


def rewrite_weights(folder: Path, change: dict[str, Tensor | None]) -> None:
    weights = load_file(folder / "model.safetensors") | change
    save_file({name: tensor for name, tensor in weights.items() if tensor is not None}, folder / "model.safetensors")


def test_every_disagreement_of_the_tensors_is_in_one_error(folder: Path) -> None:
    rewrite_weights(
        folder, {"norm.weight": None, "model.norm.weight": torch.zeros(32), "fc.weight": torch.zeros(32, 64)}
    )
    with pytest.raises(UnsupportedModel) as caught:
        load(folder)
    said = str(caught.value)
    assert "missing: norm.weight" in said
    assert "unexpected: model.norm.weight" in said
    assert "fc.weight [32, 64] instead of [32, 96]" in said


@pytest.mark.parametrize(
    ("changed", "numbers"),
    [
        ({"hidden": 64}, "hidden size of 32.*64"),
        ({"layers": 7}, "number of layers of 6.*7"),
        ({"vocab": 50}, "vocabulary of 48.*50"),
    ],
)
def test_another_target_is_refused_with_both_numbers(folder: Path, changed: dict[str, int], numbers: str) -> None:
    with pytest.raises(Incompatible, match=numbers):
        load(folder, **changed)


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"architectures": ["DFlash2DraftModel"]}, "DFlash2DraftModel"),
        ({"model_type": "llama"}, "'llama'"),
        ({"dflash_config": {"selector_rank": 64}}, "candidate selector"),
        ({"dflash_config": {"new_trick": True}}, "new_trick"),
        ({"quantization_config": {"bits": 4}}, "quantized"),
        ({"target_hidden_size": 64}, "target_hidden_size 64"),
        ({"draft_vocab_size": 32}, "draft_vocab_size 32"),
        ({"dflash_config": {"mask_token_id": None}}, "mask_token_id"),
        ({"dflash_config": {"mask_token_id": 48}}, "mask_token_id 48"),
        ({"dflash_config": {"block_size": 1}}, "block_size is 1"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["linear_attention"] * 3}, "linear_attention"),
        ({"layer_types": ["sliding_attention"] * 3}, "sliding_window"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "rotates"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(tmp_path: Path, extra: dict[str, Any], named: str) -> None:
    folder = write_dflash_checkpoint(tmp_path, **SHAPE, extra=extra)
    with pytest.raises(UnsupportedModel, match=named):
        load(folder).begin(4)


def test_what_is_not_there_is_said(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelUnavailable, match=r"no config\.json"):
        load(tmp_path / "empty")
    with pytest.raises(ModelUnavailable, match="neither a folder nor a Hub id"):
        load(tmp_path / "not" / "there")
    (folder / "model.safetensors").write_bytes(b"not safetensors")
    with pytest.raises(ModelUnavailable, match="cannot be read"):
        load(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelUnavailable, match="found: none"):
        load(folder)


def test_an_index_cannot_point_out_of_the_folder(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../model.safetensors"}}))
    with pytest.raises(ModelUnavailable, match="weight_map"):
        load(folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}}))
    with pytest.raises(ModelUnavailable, match=r"gone\.safetensors"):
        load(folder)


def test_default_target_layers() -> None:
    assert default_target_layer_ids(36, 5) == (1, 9, 17, 25, 33)
    assert default_target_layer_ids(36, 1) == (18,)


def test_missing_target_layers_follow_the_formula(tmp_path: Path) -> None:
    extra = {"num_target_layers": 36, "dflash_config": {"target_layer_ids": None}}
    folder = write_dflash_checkpoint(tmp_path, **SHAPE, extra=extra)
    assert BlockDiffusionConfig.from_folder(folder).target_layer_ids == (1, 17, 33)


def test_the_worked_example_of_the_mask() -> None:
    mask = block_mask(window=2, causal=True, block=2, length=4, device=torch.device("cpu"))
    assert mask is not None
    assert mask.int().tolist() == [[0, 1, 1, 0], [0, 0, 1, 1]]
    assert block_mask(None, False, 2, 4, torch.device("cpu")) is None


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "default"},
        {"rope_type": "linear", "factor": 2.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
        {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 1024,
         "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        {"rope_type": "dynamic", "factor": 2.0},
        {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 1024,
         "short_factor": [1.0] * 8, "long_factor": [2.0] * 8},
    ],
    ids=lambda rope: rope["rope_type"],
)  # fmt: skip
@pytest.mark.parametrize("length", [500, 5000])
def test_rotation_is_the_one_of_transformers(tmp_path: Path, rope: dict[str, Any], length: int) -> None:
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding, rotate_half

    extra = {"rope_parameters": rope | {"rope_theta": 1e4}}
    config = BlockDiffusionConfig.from_folder(write_dflash_checkpoint(tmp_path, **SHAPE, extra=extra))
    cos, sin = Qwen3RotaryEmbedding(config.rope)(torch.zeros(1), torch.arange(length)[None])
    states = torch.randn(length, 2, 16)
    expected = states * cos[0][:, None] + rotate_half(states) * sin[0][:, None]
    ours = rotation(config, length, torch.float32, torch.device("cpu"))
    torch.testing.assert_close(ours.apply(states), expected, atol=1e-5, rtol=1e-5)

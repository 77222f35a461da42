"""Loading EAGLE-3 checkpoints: what fits loads exactly, what does not is refused by name with the way out."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from decoding.catalogue import drafter_info, drafters, target_info
from decoding.drafter_loading import load_drafter
from decoding.drafters.eagle3 import Eagle3Drafter
from decoding.drafters.eagle3_config import Eagle3Config
from decoding.drafters.eagle3_model import Eagle3Model
from decoding.drafters.network import rotation
from decoding.errors import CanopyError, Incompatible, ModelUnavailable, UnsupportedModel
from decoding.fit import misfit
from decoding.presets import PRESETS
from decoding.strategies import STRATEGIES
from tests.decoding.drafters.eagle3_checkpoint import write_eagle3_checkpoint
from tests.decoding.drafters.test_eagle3 import load, target_embedding
from tests.tiny_models import VOCAB, tiny_target


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_eagle3_checkpoint(tmp_path / "tiny_eagle3")


def rewrite(folder: Path, **change: Tensor | None) -> None:
    """Replaces, adds or (None) takes out tensors; `__` in a name stands for a dot."""
    weights = load_file(folder / "model.safetensors") | {name.replace("__", "."): new for name, new in change.items()}
    save_file({name: tensor for name, tensor in weights.items() if tensor is not None}, folder / "model.safetensors")


def state_of(folder: Path) -> dict[str, Tensor]:
    return load(folder).model.state_dict()


def same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_every_tensor_arrives_and_the_state_dict_is_a_checkpoint(folder: Path) -> None:
    """What training saves can be loaded: the module's own names are the published ones."""
    state = state_of(folder)
    assert same(state, load_file(folder / "model.safetensors"))
    save_file(state, folder / "model.safetensors")
    assert same(state_of(folder), state)


@pytest.mark.parametrize("layer", ["layers.0.", "model.layers.0."])
def test_other_layouts_hold_the_same(folder: Path, tmp_path: Path, layer: str) -> None:
    other = write_eagle3_checkpoint(tmp_path / "other", layer=layer)
    assert same(state_of(other), state_of(folder))


def test_the_config_of_speculators(tmp_path: Path) -> None:
    """Nested, and its residual starts from the normed hidden state unless it says otherwise."""
    assert not Eagle3Config.from_folder(write_eagle3_checkpoint(tmp_path / "flat")).norm_before_residual
    for asked, expected in (({}, True), ({"norm_before_residual": False}, False)):
        config = load(write_eagle3_checkpoint(tmp_path / str(expected), nested=True, layer="layers.0.", **asked)).config
        assert (config.norm_before_residual, config.hidden, config.draft_vocab) == (expected, 32, 20)
        assert config.taps(36) == (2, 18, 33)


@pytest.mark.parametrize(
    ("said", "taps"),
    [
        ({}, (2, 18, 33)),
        ({"eagle_aux_hidden_state_layer_ids": [3, 17, 30]}, (3, 17, 30)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 17, 32]}}, (2, 18, 33)),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [], "use_aux_hidden_state": True}}, (2, 18, 33)),
    ],
)
def test_which_hidden_states_are_fused(tmp_path: Path, said: dict[str, Any], taps: tuple[int, ...]) -> None:
    assert Eagle3Config.from_folder(write_eagle3_checkpoint(tmp_path, **said)).taps(36) == taps


def test_tensors_that_may_be_there_or_not(folder: Path) -> None:
    state = state_of(folder)
    rewrite(folder, midlayer__self_attn__rotary_emb__inv_freq=torch.zeros(8), t2d=None)
    assert same(state_of(folder), state)


def test_an_embedding_of_its_own_is_used_and_a_copy_of_the_targets_is_not_kept(folder: Path) -> None:
    rewrite(folder, embed_tokens__weight=torch.randn(48, 32))
    assert load(folder).model.embed_tokens is not None
    rewrite(folder, embed_tokens__weight=target_embedding().weight.detach().clone())
    assert load(folder).model.embed_tokens is None


def test_a_whole_vocabulary_needs_no_mapping(tmp_path: Path) -> None:
    model = load(write_eagle3_checkpoint(tmp_path, draft_vocab_size=None)).model
    assert model.target_ids(torch.arange(48)).tolist() == list(range(48))
    assert bool(model.t2d.all())


def test_every_disagreement_of_the_tensors_is_in_one_error(folder: Path) -> None:
    rewrite(folder, norm__weight=None, d2t=None, layers__1__mlp=torch.zeros(2), fc__weight=torch.zeros(32, 64))
    with pytest.raises(UnsupportedModel) as caught:
        load(folder)
    said = str(caught.value)
    assert "missing: d2t, norm.weight" in said
    assert "unexpected: layers.1.mlp" in said
    assert "fc.weight [32, 64] instead of [32, 96]" in said


def test_one_tensor_under_two_names(folder: Path) -> None:
    rewrite(folder, layers__0__hidden_norm__weight=torch.zeros(32))
    with pytest.raises(UnsupportedModel, match=r"both layers\.0\.hidden_norm\.weight and midlayer\.hidden_norm"):
        load(folder)


@pytest.mark.parametrize("d2t", [torch.full((20,), 40), torch.full((20,), -1), -torch.arange(20)])
def test_a_mapping_that_leads_nowhere_or_twice_to_one_token(folder: Path, d2t: Tensor) -> None:
    rewrite(folder, d2t=d2t)
    with pytest.raises(UnsupportedModel, match="d2t") as caught:
        load(folder)
    assert "offsets" in caught.value.hint


@pytest.mark.parametrize(
    ("said", "changed", "numbers"),
    [
        ({}, {"hidden": 64}, "hidden size of 32; this one's is 64"),
        ({"num_target_layers": 9}, {"layers": 12}, "number of layers of 9; this one's is 12"),
        ({}, {"vocab": 50}, "vocabulary of 48; this one's is 50"),
        ({}, {"layers": 6}, "at least 7 layers; this one has 6"),
        ({"eagle_aux_hidden_state_layer_ids": [1, 2, 9]}, {}, "hidden state 9; the target has 9 layers"),
    ],
)
def test_another_target_is_refused_with_both_numbers_before_the_weights_are_read(
    tmp_path: Path, said: dict[str, Any], changed: dict[str, int], numbers: str
) -> None:
    folder = write_eagle3_checkpoint(tmp_path, **said)
    (folder / "model.safetensors").write_bytes(b"never looked at")
    with pytest.raises(Incompatible, match=numbers):
        load(folder, **changed)


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"architectures": ["LlamaForCausalLMEagle"]}, "LlamaForCausalLMEagle'"),
        ({"model_type": "qwen3"}, "'qwen3'"),
        ({"norm_before_fc": True}, "norm before fc"),
        ({"fc_norm": True}, "norms before fc"),
        ({"norm_output": True}, "normed recurrent state"),
        ({"quantization_config": {"bits": 4}}, "quantized"),
        ({"sliding_window": 512, "use_sliding_window": None}, "window of 512"),
        ({"eagle_config": {"use_aux_hidden_state": False}}, "use_aux_hidden_state"),
        ({"draft_vocab_size": 60}, "draft_vocab_size is 60"),
        ({"eagle_aux_hidden_state_layer_ids": [-1, 2, 3]}, r"\[-1, 2, 3\]"),
        ({"num_key_value_heads": 3}, "3 kv heads"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps"),
        ({"rope_scaling": {"rope_type": "spiral"}}, "spiral"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(tmp_path: Path, extra: dict[str, Any], named: str) -> None:
    with pytest.raises(UnsupportedModel, match=named):
        load(write_eagle3_checkpoint(tmp_path, **extra))


def test_a_hidden_size_of_its_own_needs_an_embedding_of_its_own(tmp_path: Path) -> None:
    folder = write_eagle3_checkpoint(tmp_path, hidden_size=24, target_hidden_size=32)
    with pytest.raises(UnsupportedModel, match=r"no embed_tokens\.weight.*24.*32"):
        load(folder)


def test_damaged_files_are_named(folder: Path) -> None:
    weights = folder / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    with pytest.raises(ModelUnavailable, match=r"model\.safetensors cannot be read.*Fetch them again"):
        load(folder)
    weights.write_bytes(b"")
    with pytest.raises(ModelUnavailable, match=r"model\.safetensors cannot be read"):
        load(folder)
    weights.rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelUnavailable, match="safetensors") as caught:
        load(folder)
    assert "convert" in caught.value.hint
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelUnavailable, match=r"config\.json cannot be read"):
        load(folder)


def test_the_module_can_be_trained(folder: Path) -> None:
    """Gradients reach every parameter through a plain concatenation of keys, with a batch axis."""
    config = Eagle3Config.from_folder(folder)
    model = Eagle3Model(config)
    turn = rotation(config, 5, torch.float32, torch.device("cpu"))
    embedded, features = torch.randn(2, 5, 32), torch.randn(2, 5, 96)
    causal = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
    state = model(embedded, model.fuse(features), lambda new: new, turn, causal)
    again: Tensor = model(embedded, state, lambda new: new, turn, causal)
    model.logits(again).logsumexp(-1).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())
    alone = model(embedded[1], model.fuse(features[1]), lambda new: new, turn, causal[0, 0])
    torch.testing.assert_close(alone, state[1])


def test_the_catalogue_loads_it_by_its_folder(tmp_path: Path) -> None:
    taps = {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}
    folder = write_eagle3_checkpoint(tmp_path, vocab_size=VOCAB, **taps)
    info = drafter_info(str(folder))
    assert (info.kind, info.gives_logprobs, info.vocab_size, info.hidden_size) == ("stepwise", True, VOCAB, 32)
    assert isinstance(load_drafter(str(folder), tiny_target("llama"), print), Eagle3Drafter)
    nested = write_eagle3_checkpoint(tmp_path / "nested", nested=True, vocab_size=VOCAB)
    assert drafter_info(str(nested)).vocab_size == VOCAB
    with pytest.raises(CanopyError, match="at least 7 layers"):
        load_drafter(str(nested), tiny_target("llama"), print)


def test_published_ones_are_offered_for_their_targets() -> None:
    offered = {info.id: info for info in drafters()}
    for preset in PRESETS:
        for name in preset.drafters:
            if "eagle3" in name.lower():
                assert (offered[name].kind, offered[name].made_for) == ("stepwise", (preset.id,))
                assert "EAGLE-3" in offered[name].help
    served = {name for info in offered.values() if "EAGLE-3" in info.help for name in info.made_for}
    assert {"qwen3-4b", "qwen3-8b"} <= served


def test_without_log_probabilities_the_strategy_refuses(tmp_path: Path) -> None:
    target = target_info("smollm2-135m")
    assert "needs log-probabilities" in str(misfit(target, drafter_info("transition-matrix"), STRATEGIES["eagle"]))
    assert misfit(target, drafter_info("self"), STRATEGIES["eagle"]) is None
    narrow = drafter_info(str(write_eagle3_checkpoint(tmp_path, vocab_size=49_152)))
    assert "hidden states of size 32" in str(misfit(target, narrow, STRATEGIES["eagle"]))

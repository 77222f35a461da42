"""Loading Medusa heads: what fits loads exactly, what does not is refused by name with the way out."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from decoding.catalogue import drafter_info, drafter_kinds, target_info
from decoding.drafters.medusa_config import MOST, MedusaConfig
from decoding.errors import CanopyError, Incompatible, ModelUnavailable, UnsupportedModel
from decoding.fit import misfit
from decoding.model_config import read_config
from decoding.models import load_causal_lm
from decoding.strategies import STRATEGIES
from tests.decoding.drafters.medusa_checkpoint import FILE, LAYOUTS, write_medusa_checkpoint
from tests.decoding.drafters.test_medusa import load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_medusa_checkpoint(tmp_path / "tiny-medusa")


def rewrite(folder: Path, change: dict[str, Tensor | None]) -> None:
    """Replaces, adds or (None) takes out tensors."""
    weights = load_file(folder / FILE) | change
    save_file({name: tensor for name, tensor in weights.items() if tensor is not None}, folder / FILE)


def same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("layout", ["own", "shared"])
def test_every_tensor_arrives_under_its_published_name(tmp_path: Path, layout: str, layers: int) -> None:
    folder = write_medusa_checkpoint(tmp_path, layout=layout, layers=layers)
    assert same(load(folder).model.state_dict(), load_file(folder / FILE))


@pytest.mark.parametrize("prefix", ["medusa_head.", "medusa_heads."])
def test_other_names_hold_the_same(folder: Path, tmp_path: Path, prefix: str) -> None:
    other = write_medusa_checkpoint(tmp_path / "other", prefix=prefix)
    assert same(load(other).model.state_dict(), load(folder).model.state_dict())


def test_the_layout_of_vllm(tmp_path: Path) -> None:
    folder = write_medusa_checkpoint(tmp_path / "own", layout="vllm", layers=2)
    state, weights = load(folder).model.state_dict(), load_file(folder / "model.safetensors")
    assert torch.equal(state["1.0.linear.weight"], weights["blocks.1.layers.0.weight"])
    assert torch.equal(state["2.2.weight"], weights["lm_heads.2.weight"])
    assert len(state) == len(weights) == 9
    shared = load(write_medusa_checkpoint(tmp_path / "shared", layout="vllm shared"))
    assert list(shared.model.state_dict()) == [f"{head}.0.linear.weight" for head in range(3)]
    wanting = write_medusa_checkpoint(tmp_path / "bias", layout="vllm", medusa_fc_bias=True)
    with pytest.raises(UnsupportedModel, match=r"missing: 0\.0\.linear\.bias"):
        load(wanting)


def test_more_heads_than_the_config_counts_are_taken(tmp_path: Path) -> None:
    """As published for Vicuna 7B and 13B: the config says 2, and there are 5."""
    assert load(write_medusa_checkpoint(tmp_path, heads=5, medusa_num_heads=2)).positions == 5


def test_fewer_heads_than_the_config_counts_are_missed_by_name(tmp_path: Path) -> None:
    folder = write_medusa_checkpoint(tmp_path, heads=2, medusa_num_heads=3)
    with pytest.raises(UnsupportedModel, match=r"missing: 2\.0\.linear\.bias, 2\.0\.linear\.weight, 2\.1\.weight"):
        load(folder)


def test_every_disagreement_of_the_tensors_is_in_one_error(folder: Path) -> None:
    rewrite(
        folder,
        {
            "0.0.linear.bias": None,
            "1.1.weight": torch.zeros(47, 32),
            "2.0.linear.weight": torch.zeros(32, 31),
            "lm_head.weight": torch.zeros(48, 32),
            "model.norm.weight": torch.zeros(32),
        },
    )
    with pytest.raises(UnsupportedModel) as caught:
        load(folder)
    said = str(caught.value)
    assert "missing: 0.0.linear.bias;" in said
    assert "unexpected: lm_head.weight, model.norm.weight;" in said
    assert "1.1.weight [47, 32] instead of [48, 32]" in said
    assert "2.0.linear.weight [32, 31] instead of [32, 32]" in said


def test_a_head_without_its_matrix_is_missed(folder: Path) -> None:
    rewrite(folder, {"1.1.weight": None})
    with pytest.raises(UnsupportedModel, match=r"missing: 1\.1\.weight"):
        load(folder)


def test_a_gap_in_the_numbers_is_not_filled(folder: Path) -> None:
    held = load_file(folder / FILE)
    moved = {name.replace("2.", "1000000000.", 1): held[name] for name in held if name.startswith("2.")}
    rewrite(folder, moved | dict.fromkeys((name for name in held if name.startswith("2.")), None))
    with pytest.raises(UnsupportedModel, match=r"missing: 2\.0\.linear\.bias.*unexpected: 1000000000\."):
        load(folder)


def test_tensors_of_something_else_are_told_by_name(folder: Path) -> None:
    save_file({"model.norm.weight": torch.zeros(4)}, folder / FILE)
    with pytest.raises(UnsupportedModel, match=r"no matrix \{head\}.*there are: model\.norm\.weight"):
        load(folder)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("changed", "numbers"),
    [
        ({"hidden": 64}, "hidden size of 32; this one's is 64"),
        ({"vocab": 50}, "vocabulary of 48; this one's is 50"),
    ],
)
def test_another_target_is_refused_with_both_numbers(
    tmp_path: Path, layout: str, changed: dict[str, int], numbers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_medusa_checkpoint(tmp_path, layout=layout)
    monkeypatch.setattr("decoding.drafters.medusa.fill_module", lambda *_: pytest.fail("weights were read"))
    if layout == "shared" and "vocab" in changed:
        return  # nothing in it speaks of a vocabulary, and it takes on the target's
    with pytest.raises(Incompatible, match=numbers):
        load(folder, **changed)


@pytest.mark.parametrize(
    ("layout", "said", "named"),
    [
        ("own", {"medusa_num_heads": 0}, "0 for medusa_num_heads"),
        ("own", {"medusa_num_heads": "3"}, "'3' for medusa_num_heads"),
        ("own", {"medusa_num_heads": True}, "True for medusa_num_heads"),
        ("own", {"medusa_num_heads": 10**9}, f"must be 1 to {MOST}"),
        ("own", {"medusa_num_layers": 0}, "0 for medusa_num_layers"),
        ("own", {"medusa_num_layers": None}, "None for medusa_num_layers"),
        ("own", {"quantization_config": {"bits": 4}}, "quantized"),
        ("own", {"speculators_model_type": "medusa"}, "speculators"),
        ("own", {"hidden_size": "wide"}, "'wide' for hidden_size"),
        ("vllm", {"vocab_size": -1}, "-1 for vocab_size"),
        ("vllm", {"truncated_vocab_size": 20}, "cut to 20 tokens"),
        ("vllm", {"logit_scale": 0.5}, r"scaled by 0\.5"),
    ],
)
def test_what_is_not_implemented_or_garbled_is_refused_by_name(
    tmp_path: Path, layout: str, said: dict[str, Any], named: str
) -> None:
    with pytest.raises(UnsupportedModel, match=named):
        load(write_medusa_checkpoint(tmp_path, layout=layout, **said))


@pytest.mark.parametrize("pickled", ["medusa_lm_head.pt", "pytorch_model.bin"])
def test_pickled_heads_are_told_apart_from_none(folder: Path, pickled: str) -> None:
    (folder / FILE).rename(folder / pickled)
    for ask in (load, lambda folder: drafter_info(str(folder))):
        with pytest.raises(ModelUnavailable, match=f"found: none.*{pickled} can only be unpickled") as caught:
            ask(folder)
        assert "convert" in caught.value.hint
    (folder / pickled).unlink()
    with pytest.raises(ModelUnavailable, match=r"found: none\)\.") as caught:
        load(folder)
    assert "unpickled" not in caught.value.message


def test_damaged_files_are_named(folder: Path) -> None:
    (folder / FILE).write_bytes(b"not safetensors")
    with pytest.raises(ModelUnavailable, match=rf"{FILE} cannot be read"):
        load(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelUnavailable, match=r"config\.json cannot be read"):
        load(folder)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_heads_are_known_by_their_config(tmp_path: Path, layout: str) -> None:
    folder = write_medusa_checkpoint(tmp_path, layout=layout)
    config = read_config(str(folder))
    told = (48, 32) if layout.startswith("vllm") else (0, 0)
    assert (config.kind, config.vocab_size, config.hidden_size, config.layers) == ("medusa", *told, 1)
    with pytest.raises(CanopyError, match="drafter"):
        load_causal_lm(str(folder))


def test_a_whole_model_with_heads_is_a_target(tmp_path: Path) -> None:
    """Medusa-2 trains heads and model together and publishes them as one."""
    raw = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 97, "hidden_size": 32,
           "num_hidden_layers": 1, "medusa_num_heads": 5, "medusa_num_layers": 1}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(raw))
    assert read_config(str(tmp_path)).kind == "causal-lm"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_fit_is_judged_before_anything_loads(tmp_path: Path, layout: str) -> None:
    """What the config does not say, the headers of a local checkpoint do."""
    info = drafter_info(str(write_medusa_checkpoint(tmp_path, layout=layout, hidden=24)))
    vocab = None if layout == "shared" else 48
    assert (info.kind, info.gives_logprobs, info.vocab_size, info.hidden_size) == ("one-pass", True, vocab, 24)
    target = target_info("smollm2-135m")
    refused = "hidden states of size 24" if vocab is None else "vocabulary of 48"
    assert refused in str(misfit(target, info, STRATEGIES["ddtree"]))
    assert "one-pass drafter" in str(misfit(target, info, STRATEGIES["eagle"]))


def test_heads_made_for_one_preset_are_refused_for_another(tmp_path: Path) -> None:
    folder = write_medusa_checkpoint(tmp_path, base_model_name_or_path="Qwen/Qwen3-8B")
    info = drafter_info(str(folder))
    assert info.made_for == ("qwen3-8b",)
    assert "made for qwen3-8b" in str(misfit(target_info("smollm2-135m"), info, STRATEGIES["ddtree"]))
    assert misfit(target_info("qwen3-8b"), info, STRATEGIES["ddtree"]) is None


def test_the_kind_is_listed() -> None:
    assert ("medusa", "one-pass") in {(kind, steps) for kind, _, steps in drafter_kinds()}


def test_dimensions_that_the_config_says_are_held_against_the_tensors(tmp_path: Path) -> None:
    folder = write_medusa_checkpoint(tmp_path, layout="vllm", hidden_size=40)
    assert MedusaConfig.from_folder(folder).hidden == 40
    with pytest.raises(UnsupportedModel, match=r"0\.0\.linear\.weight \[32, 32\] instead of \[40, 40\]"):
        load(folder, hidden=40)

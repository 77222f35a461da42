"""Loading: what fits loads exactly, what does not is refused in one line with the way out."""

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from decoding import devices, presets
from decoding.errors import BadRequest, CanopyError, ModelUnavailable, OutOfMemory, UnknownName, UnsupportedModel
from decoding.model_config import EMBEDDED_CONFIG, read_config
from decoding.models import PRESETS, LoadedModel, load_causal_lm
from tests.decoding import tiny

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return tiny.save_model(tmp_path / "llama", transformers.LlamaForCausalLM, tiny.llama_config())


def load(folder: Path, dtype: str = "auto", device: str = "cpu") -> LoadedModel:
    return load_causal_lm(str(folder), dtype, device)


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_local_folder_loads_frozen_exact_and_with_sdpa(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = load(llama)
    assert (loaded.dtype, loaded.device, loaded.name, loaded.tokenizer_id) == ("float32", "cpu", str(llama), str(llama))
    assert "too small" in loaded.dtype_reason
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert loaded.model.config._attn_implementation == "sdpa"
    saved = load_file(llama / "model.safetensors")
    assert all(torch.equal(weight, saved[name]) for name, weight in loaded.model.state_dict().items() if name in saved)
    assert loaded.tokenizer.encode("w3 w4") == [5, 6]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_dtype_asked_for_is_the_dtype_given(dtype: str, llama: Path) -> None:
    loaded = load(llama, dtype)
    assert loaded.dtype == dtype == devices.dtype_name(loaded.model.dtype)
    assert "as asked" in loaded.dtype_reason


@pytest.mark.parametrize(
    ("model_class", "config_class", "attention"),
    [("Gemma2ForCausalLM", "Gemma2Config", "eager"), ("Qwen3ForCausalLM", "Qwen3Config", "sdpa"),
     ("GPTNeoXForCausalLM", "GPTNeoXConfig", "sdpa"), ("GPT2LMHeadModel", "GPT2Config", "sdpa")],
)  # fmt: skip
def test_other_families_and_the_one_that_refuses_sdpa(model_class, config_class, attention, tmp_path: Path) -> None:
    sizes = tiny.llama_config().to_dict()
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    config = getattr(transformers, config_class)(**{n: sizes[n] for n in names}, bos_token_id=0, eos_token_id=1)
    folder = tiny.save_model(tmp_path, getattr(transformers, model_class), config)
    loaded = load(folder)
    assert loaded.model.config._attn_implementation == attention
    assert (loaded.config.vocab_size, loaded.config.hidden_size, loaded.config.layers) == (97, 32, 2)
    assert loaded.config.architecture == model_class
    assert loaded.config.max_context > 0


def test_rows_of_the_head_count_not_the_length_of_the_tokenizer(tmp_path: Path) -> None:
    folder = tiny.save_model(tmp_path, transformers.LlamaForCausalLM, tiny.llama_config(vocab_size=128))
    loaded = load(folder)
    assert (loaded.config.vocab_size, len(loaded.tokenizer)) == (128, 97)


def test_a_cut_safetensors_file(llama: Path) -> None:
    weights = llama / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    with pytest.raises(ModelUnavailable, match="damaged"):
        load(llama)
    weights.write_bytes(b"")
    with pytest.raises(ModelUnavailable, match="damaged"):
        load(llama)


def test_missing_tensors_are_never_made_up(llama: Path) -> None:
    tensors = load_file(llama / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, llama / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelUnavailable, match=r"lack 1 tensors, model\.layers\.1\.mlp\.up_proj\.weight"):
        load(llama)


def test_tensors_of_another_shape(llama: Path) -> None:
    change_config(llama, intermediate_size=40)
    with pytest.raises(CanopyError) as caught:
        load(llama)
    assert caught.value.hint


def test_pickled_weights_are_not_read(llama: Path) -> None:
    torch.save(load_file(llama / "model.safetensors"), llama / "pytorch_model.bin")
    (llama / "model.safetensors").unlink()
    with pytest.raises(UnsupportedModel, match="no weights in safetensors"):
        load(llama)


def test_code_that_comes_with_a_checkpoint_is_not_run(llama: Path) -> None:
    (llama / "evil.py").write_text("open('/tmp/canopy-evil', 'w')\nclass Evil: pass\n")
    change_config(llama, model_type="evil", architectures=["Evil"], auto_map={"AutoModelForCausalLM": "evil.Evil"})
    with pytest.raises(UnsupportedModel, match="Evil"):
        load(llama)
    assert not Path("/tmp/canopy-evil").exists()


@pytest.mark.parametrize("gone", [["tokenizer.json"], ["tokenizer.json", "tokenizer_config.json"]])
def test_a_missing_tokenizer_is_noticed(gone: list[str], llama: Path) -> None:
    for name in gone:
        (llama / name).unlink()
    with pytest.raises((UnsupportedModel, ModelUnavailable), match="tokenizer"):
        load(llama)


def test_a_drafter_needs_no_tokenizer(llama: Path) -> None:
    for path in llama.glob("tokenizer*"):
        path.unlink()
    assert load_causal_lm(str(llama), "float32", "cpu", with_tokenizer=False).tokenizer is None


def test_a_missing_shard(llama: Path) -> None:
    sharded = llama / "sharded"
    load(llama).model.save_pretrained(sharded, max_shard_size="20KB")
    tiny.save_tokenizer(sharded)
    assert load(sharded).dtype == "float32"
    next(sharded.glob("model-00002-*")).unlink()
    with pytest.raises(ModelUnavailable, match="model-00002"):
        load(sharded)


@pytest.mark.parametrize(
    ("text", "error"), [("{", ModelUnavailable), ("[]", ModelUnavailable), ("{}", UnsupportedModel)]
)
def test_a_garbled_config(text: str, error: type[CanopyError], llama: Path) -> None:
    (llama / "config.json").write_text(text)
    with pytest.raises(error):
        load(llama)


def test_what_is_no_causal_language_model(tmp_path: Path) -> None:
    config = transformers.BertConfig(vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                                     num_attention_heads=4)  # fmt: skip
    folder = tiny.save_model(tmp_path, transformers.BertForMaskedLM, config)
    with pytest.raises(UnsupportedModel, match="BertForMaskedLM, which is not a causal language model"):
        load(folder)


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [("DFlashDraftModel", "block-diffusion"), ("LlamaForCausalLMEagle3", "eagle3"), ("MedusaModel", "medusa")],
)
def test_a_drafter_is_told_from_a_target_by_its_config_alone(architecture: str, kind: str, tmp_path: Path) -> None:
    raw = {"architectures": [architecture], "model_type": "qwen3", "vocab_size": 97, "hidden_size": 32,
           "num_hidden_layers": 1, "max_position_embeddings": 64, "auto_map": {"AutoModel": "x.X"}}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(raw))
    config = read_config(str(tmp_path))
    assert (config.kind, config.vocab_size, config.layers, config.max_context) == (kind, 97, 1, 64)
    with pytest.raises(UnsupportedModel, match="drafter"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["", "/nowhere/at/all", "./nowhere", "a/b/c", __file__])
def test_a_folder_that_is_not_there(name: str) -> None:
    with pytest.raises(BadRequest):
        load_causal_lm(name)


def test_a_misspelt_preset_is_told_with_the_options_and_without_network() -> None:
    with pytest.raises(UnknownName, match="smollm2-135m, qwen3-4b"):
        load_causal_lm("smolm")


def test_bad_dtype_and_device_names(llama: Path) -> None:
    with pytest.raises(UnknownName, match="dtype"):
        load(llama, dtype="float64")
    with pytest.raises(UnknownName, match="device"):
        load(llama, device="tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there(llama: Path) -> None:
    with pytest.raises(BadRequest, match="no CUDA GPU") as caught:
        load(llama, device="cuda")
    assert "--device" in caught.value.hint


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu(llama: Path) -> None:
    loaded = load(llama, device="auto")
    assert (loaded.device, loaded.dtype) == ("cuda", "bfloat16")
    assert load(llama, "float32", "cuda").model.device.type == "cuda"


def test_a_model_larger_than_the_memory_is_refused_before_it_loads(llama: Path) -> None:
    """Sparse files: a config that says 10^12 parameters, whose weights need never be read."""
    change_config(llama, hidden_size=400_000, num_attention_heads=4000, head_dim=100, intermediate_size=400_000)
    with pytest.raises(OutOfMemory, match="GB are free"):
        load(llama, dtype="float32")


def test_bfloat16_is_chosen_where_float32_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "free_bytes", lambda _: 3_000)
    choice = devices.first_choice("auto", torch.device("cpu"), parameters=1_000)
    assert choice.dtype == torch.bfloat16
    assert "free" in choice.reason


def test_the_measurement_says_its_figures_and_needs_twofold_in_every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(30)))
    parameters = sum(p.numel() for p in model.parameters())
    choice = devices.measured_choice(model, parameters)
    assert "1 row " in choice.reason
    assert "16 rows" in choice.reason
    for passes, expected in [([[(4.0, 1.0), (4.0, 1.0)]], torch.bfloat16),
                             ([[(4.0, 1.0), (4.0, 1.0)], [(4.0, 1.0), (1.9, 1.0)]], torch.float32)]:  # fmt: skip
        monkeypatch.setattr(devices, "_probe_passes", lambda *_, given=passes: iter(given))
        assert devices.measured_choice(model, parameters).dtype == expected


def test_a_container_s_own_limit_is_seen(tmp_path: Path) -> None:
    for name, text in {"memory.max": "1000", "memory.current": "900", "memory.stat": "inactive_file 300\n"}.items():
        (tmp_path / name).write_text(text)
    assert devices._cgroup_available(tmp_path) == 400
    (tmp_path / "memory.max").write_text("max")
    assert devices._cgroup_available(tmp_path) is None


class FaultyHub(BaseHTTPRequestHandler):
    """Answers as the Hub does for a repository that is not there or gated."""

    def do_HEAD(self) -> None:
        code = "GatedRepo" if "gated" in self.path else "RepoNotFound"
        self.send_response(403 if code == "GatedRepo" else 404)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()

    def log_message(self, *_: object) -> None:
        pass


def ask_the_hub(*model_ids: str, **environment: str) -> list[str]:
    """What `read_config` says of each in a fresh process: huggingface_hub reads its settings on import."""
    script = (
        "import sys\nfrom decoding.model_config import read_config\nfrom decoding.errors import CanopyError\n"
        "for name in sys.argv[1:]:\n"
        "    try: read_config(name)\n    except CanopyError as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", script, *model_ids], cwd=REPOSITORY, capture_output=True, text=True,
                          env={**os.environ, **environment}, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_the_hub_s_refusals(tmp_path: Path) -> None:
    with tiny.serving(FaultyHub) as address:
        absent, gated, bad = ask_the_hub("owner/absent", "owner/gated-model", "owner/bad name", HF_ENDPOINT=address,
                                         HF_HOME=str(tmp_path), HF_HUB_OFFLINE="0")  # fmt: skip
    assert absent.startswith("ModelUnavailable There is no model owner/absent on the Hub")
    assert gated.startswith("ModelUnavailable owner/gated-model is gated")
    assert bad.startswith("BadRequest")


@pytest.mark.slow
def test_no_network(tmp_path: Path) -> None:
    (said,) = ask_the_hub("owner/model", HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
    assert said.startswith("ModelUnavailable owner/model could not be fetched: the Hub was not reached")


def test_the_table_of_presets() -> None:
    assert PRESETS[0].id == presets.DEFAULT_TARGET == "smollm2-135m"
    assert len({preset.id for preset in PRESETS}) == len(PRESETS)
    assert presets.find_preset("Qwen/Qwen3-8B") is presets.find_preset("qwen3-8b")
    assert read_config("smollm2-135m") is EMBEDDED_CONFIG


def test_presets_need_no_torch() -> None:
    script = "import sys, decoding.presets; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, timeout=60).returncode == 0

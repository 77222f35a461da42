"""From folders in the published layouts to a verified trace, through everything that a first load on a GPU runs."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from decoding.fit import DrafterInfo
from decoding.model_store import ModelStore
from decoding.run import RunSettings, run
from decoding.survey import survey_pair
from decoding.thinking import Thinking, thinking_of, thinking_warning
from decoding.trace import Trace, read_trace
from tests.decoding.drafters.dflash_checkpoint import write_dflash_checkpoint
from tests.decoding.drafters.eagle3_checkpoint import write_eagle3_checkpoint
from tests.decoding.published import CONFIGS, NAMES, tensor_names, write_target
from tests.tiny_models import VOCAB

NEW_TOKENS = 24
PROMPT = "w5 w17 w33 w8 w5 w17"


def dflash(folder: Path, target: Path) -> Path:
    """As the b16 drafters: the old layout of the config, a block of 16, five layers' worth of context."""
    layers = json.loads((target / "config.json").read_text())["num_hidden_layers"]
    return write_dflash_checkpoint(
        folder, hidden=32, heads=4, kv_heads=2, head_dim=8, layers=2, target_layers=layers,
        target_layer_ids=[1, 2, layers - 3], block_size=16, mask_token_id=4, vocab=VOCAB, seed=0, old_layout=True,
        extra={"max_window_layers": 5, "torch_dtype": "bfloat16", "use_sliding_window": False, "sliding_window": None},
    )  # fmt: skip


def dflash_in_shards(folder: Path, target: Path) -> Path:
    """As what is trained here: the newer layout, a block of 8, several files."""
    layers = json.loads((target / "config.json").read_text())["num_hidden_layers"]
    return write_dflash_checkpoint(
        folder, hidden=32, heads=4, kv_heads=2, head_dim=8, layers=3, target_layers=layers,
        target_layer_ids=[1, layers - 2], block_size=8, mask_token_id=4, vocab=VOCAB, seed=0, shards=3,
    )  # fmt: skip


def eagle3(folder: Path, target: Path) -> Path:
    """As RedHatAI's: the nested config of speculators, an embedding of its own, offsets into the target's tokens."""
    known = sorted(set(range(2, VOCAB, 2)) | set(stock_greedy(target, prompt_ids(target))))
    return write_eagle3_checkpoint(
        folder, nested=True, layer="layers.0.", own_embedding=True, vocab_size=VOCAB, known=known
    )


def small_neox(folder: Path, _: Path) -> Path:
    return write_target(folder, "pythia", seed=2, num_hidden_layers=1)


def small_llama(folder: Path, _: Path) -> Path:
    return write_target(folder, "smollm2", seed=2, num_hidden_layers=1)


WIDE = {"ddtree": {"budget": 130}, "eagle": {"top_k": 60, "depth": 1, "budget": 200}, "linear": {"budget": 4}}
PAIRS = {
    "SmolLM2 with a block drafter": ("smollm2", dflash_in_shards, ("ddtree", "linear")),
    "SmolLM2 with a small Llama": ("smollm2", small_llama, ("eagle", "linear")),
    "Qwen3-4B with DFlash b16": ("qwen3-tied", dflash, ("ddtree", "linear")),
    "Qwen3-8B with DFlash b16": ("qwen3", dflash, ("ddtree", "linear")),
    "Qwen3-8B with EAGLE-3": ("qwen3", eagle3, ("eagle", "linear")),
    "Qwen3-Coder-30B-A3B with DFlash": ("qwen3-moe", dflash, ("ddtree", "linear")),
    "Pythia-2.8B with 70M": ("pythia", small_neox, ("eagle", "linear")),
}


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """With a seed at which none of them ends its text early."""
    return {layout: write_target(tmp_path_factory.mktemp("published") / layout, layout, seed=2) for layout in CONFIGS}


def prompt_ids(target: Path) -> list[int]:
    """What the published template makes of the prompt, by hand: token wN has id N + 2, an unknown word that of w0."""
    words = {"w7": 9, "w8": 10, "w9": 11}
    body = [int(word[1:]) + 2 for word in PROMPT.split()]
    template = json.loads((target / "tokenizer_config.json").read_text()).get("chat_template", "")
    if not template:
        return body
    thoughts = [2, 2] if "<think>" in template else []
    return [words["w7"], *body, words["w8"], words["w9"], *thoughts]


def stock_greedy(folder: Path, prompt: list[int]) -> list[int]:
    """The judge: the stock model from the same folder, one full forward pass a token, nothing of ours."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ends = set(json.loads((folder / "generation_config.json").read_text())["eos_token_id"])
    ids = list(prompt)
    with torch.no_grad():
        while len(ids) < len(prompt) + NEW_TOKENS and (len(ids) == len(prompt) or ids[-1] not in ends):
            ids.append(int(model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return ids[len(prompt) :]


def traced(lines: Iterator[Mapping[str, Any]], path: Path) -> Trace:
    path.write_text("".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))
    return read_trace(path)


@pytest.mark.parametrize("layout", CONFIGS)
def test_the_layouts_are_the_published_ones(layout: str, targets: Mapping[str, Path]) -> None:
    folder = targets[layout]
    names = tensor_names(folder)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"]) == names
    assert len(set(index["weight_map"].values())) > 1
    assert NAMES[layout] in names
    tied = CONFIGS[layout]["tie_word_embeddings"]
    assert ({"lm_head.weight", "embed_out.weight"} & names == set()) == tied
    assert not any("gate_up_proj" in name for name in names)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_pair_of_the_menu_is_lossless_from_folder_to_trace(
    pair: str, targets: Mapping[str, Path], tmp_path: Path
) -> None:
    layout, write_drafter, strategies = PAIRS[pair]
    target = targets[layout]
    drafter = write_drafter(tmp_path / "drafter", target)
    expected = stock_greedy(target, prompt_ids(target))
    assert len(expected) == NEW_TOKENS
    found = survey_pair(str(target), str(drafter))
    assert found.needed_bytes > 0
    assert found.to_fetch == 0
    store, accepted = ModelStore(), 0
    for strategy in strategies:
        settings = RunSettings(
            PROMPT, str(target), str(drafter), strategy, WIDE[strategy], max_new_tokens=NEW_TOKENS, dtype="float32"
        )
        trace = traced(run(settings, store), tmp_path / f"{strategy}.jsonl")
        assert list(trace.header.prompt_ids) == prompt_ids(target)
        assert trace.summary is not None
        assert list(trace.summary.output_ids) == expected, strategy
        assert all(item.tree.drafted > 0 for item in trace.rounds[:-1])
        accepted += sum(item.verdict.accepted for item in trace.rounds)
    assert accepted > 0, "nothing was ever accepted, so the drafter could be anything"


def test_thinking_is_turned_off_where_a_template_can(targets: Mapping[str, Path]) -> None:
    def tokenizer(layout: str) -> Any:
        return AutoTokenizer.from_pretrained(targets[layout])

    assert thinking_of(tokenizer("qwen3")) is Thinking.TURNED_OFF
    assert thinking_of(tokenizer("qwen3-moe")) is Thinking.NONE
    assert thinking_of(tokenizer("pythia")) is Thinking.NONE
    always = tokenizer("qwen3")
    always.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}<think>"
    assert thinking_of(always) is Thinking.ALWAYS
    without, unsure = made_for("z-lab/Qwen3-8B-DFlash-b16"), made_for("RedHatAI/Qwen3-8B-speculator.eagle3")
    assert thinking_warning(tokenizer("qwen3"), "Qwen3-8B", without) == ""
    assert "asked not to think" in thinking_warning(tokenizer("qwen3"), "Qwen3-8B", unsure)
    assert "always thinks first" in thinking_warning(always, "Qwen3-8B-Thinking", without)
    assert thinking_warning(always, "Qwen3-8B-Thinking", unsure) == ""
    assert thinking_warning(tokenizer("qwen3-moe"), "Qwen3-Coder", unsure) == ""
    retrieval = DrafterInfo("prompt-lookup", "Prompt lookup", "stepwise", False, "")
    assert thinking_warning(tokenizer("qwen3"), "Qwen3-8B", retrieval) == ""
    assert thinking_warning(tokenizer("qwen3"), "Qwen3-8B", None) == ""


def made_for(name: str) -> DrafterInfo:
    return DrafterInfo(name, name.rpartition("/")[2], "stepwise", True, "", made_for=("qwen3-8b",))

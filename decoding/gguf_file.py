"""Reads the one kind of GGUF file that this project embeds: a Llama with a byte-level BPE tokenizer.

transformers can read GGUF too, and a test holds that both give the same weights, bit for bit. It is not used here for
two measured reasons: it parses the 98,000 strings of the vocabulary three times over (40 s against 4 s, on every cold
start of a Space), and it ignores `tokenizer.ggml.pre`, so numbers after two spaces would be cut differently from how
the model was trained.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (version 3, little-endian).
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"GGUF"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_CONTROL = 3
"""`tokenizer.ggml.token_type` of a special token."""


class GgufError(ValueError):
    """The bytes are not a GGUF file that this reader understands."""


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies in the file."""

    shape: tuple[int, ...]
    """As torch orders it (GGUF writes the fastest dimension first)."""
    quantisation: int
    """A `gguf.GGMLQuantizationType`."""
    start: int
    """Offset of its first byte in the file."""


@dataclass(frozen=True)
class GgufFile:
    """A parsed GGUF file: metadata, and tensors that are dequantised when asked for."""

    data: bytes
    metadata: dict[str, Any]
    tensors: dict[str, StoredTensor]

    def tensor(self, name: str) -> NDArray[np.float32]:
        """The tensor `name` in float32, in the shape that torch expects."""
        import gguf

        stored = self.tensors[name]
        kind = gguf.GGMLQuantizationType(stored.quantisation)
        row = gguf.quant_shape_to_byte_shape(stored.shape, kind)
        raw = np.frombuffer(self.data, np.uint8, prod(row), stored.start).reshape(row)
        values = raw.view(np.float32) if kind == gguf.GGMLQuantizationType.F32 else gguf.quants.dequantize(raw, kind)
        return np.ascontiguousarray(values, dtype=np.float32)


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def scalar(self, code: str) -> Any:
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += struct.calcsize("<" + code)
        return value

    def string(self) -> str:
        length = self.scalar("Q")
        if self.at + length > len(self.data):
            raise GgufError("a string runs past the end of the file")
        text = self.data[self.at : self.at + length].decode()
        self.at += length
        return text

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            inner, count = self.scalar("I"), self.scalar("Q")
            return [self.value(inner) for _ in range(count)]
        return self.scalar(_SCALARS[kind])


def parse(data: bytes) -> GgufFile:
    """Parses the bytes of a GGUF file; raises GgufError where they are cut or of another format."""
    if data[:4] != MAGIC:
        raise GgufError("it does not start with GGUF")
    cursor = _Cursor(data)
    cursor.at = len(MAGIC)
    try:
        version, tensor_count, entry_count = cursor.scalar("I"), cursor.scalar("Q"), cursor.scalar("Q")
        if version != 3:
            raise GgufError(f"it is GGUF version {version}, not 3")
        metadata = {cursor.string(): cursor.value(cursor.scalar("I")) for _ in range(entry_count)}
        entries = []
        for _ in range(tensor_count):
            name = cursor.string()
            shape = tuple(cursor.scalar("Q") for _ in range(cursor.scalar("I")))[::-1]
            entries.append((name, shape, cursor.scalar("I"), cursor.scalar("Q")))
    except (struct.error, KeyError, UnicodeDecodeError) as error:
        raise GgufError(f"its header is damaged ({error})") from None
    alignment = metadata.get("general.alignment", 32)
    start = -(-cursor.at // alignment) * alignment
    return GgufFile(data, metadata, {n: StoredTensor(s, kind, start + offset) for n, s, kind, offset in entries})


_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def llama_weights(file: GgufFile) -> Iterator[tuple[str, tuple[int, ...], str]]:
    """For each tensor its Hugging Face name, shape and GGUF name, sorted by the first."""
    names = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    if "output.weight" in file.tensors:
        names["lm_head.weight"] = "output.weight"
    for layer in range(file.metadata["llama.block_count"]):
        for theirs, ours in _LAYER_NAMES.items():
            names[f"model.layers.{layer}.{ours}.weight"] = f"blk.{layer}.{theirs}.weight"
    for ours, theirs in sorted(names.items()):
        yield ours, file.tensors[theirs].shape, theirs


def llama_tensor(file: GgufFile, stored_name: str) -> NDArray[np.float32]:
    """A weight as Hugging Face's Llama wants it: the rows of q and k in halves, not in pairs.

    llama.cpp rotates neighbouring rows (0, 1), Hugging Face rows (0, half): with one head of 4 rows,
    the stored order 0 1 2 3 becomes 0 2 1 3.
    """
    weight = file.tensor(stored_name)
    heads = {
        "attn_q": file.metadata["llama.attention.head_count"],
        "attn_k": file.metadata["llama.attention.head_count_kv"],
    }.get(stored_name.split(".")[-2])
    if heads is None:
        return weight
    pairs = weight.reshape(heads, -1, 2, weight.shape[1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(weight.shape))


def llama_config(file: GgufFile) -> dict[str, Any]:
    """The `config.json` of the Hugging Face model."""
    meta = file.metadata
    heads, hidden = meta["llama.attention.head_count"], meta["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": meta["llama.vocab_size"],
        "hidden_size": hidden,
        "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "head_dim": hidden // heads,
        "max_position_embeddings": meta["llama.context_length"],
        "rope_parameters": {"rope_type": "default", "rope_theta": meta["llama.rope.freq_base"]},
        "rms_norm_eps": meta["llama.attention.layer_norm_rms_epsilon"],
        "hidden_act": "silu",
        "tie_word_embeddings": "output.weight" not in file.tensors,
        **special_ids(file),
    }


def special_ids(file: GgufFile) -> dict[str, int]:
    """Begin, end and padding ids, as `generation_config.json` names them."""
    return {f"{ours}_token_id": file.metadata[f"tokenizer.ggml.{theirs}_token_id"]
            for ours, theirs in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))}  # fmt: skip


def save_tokenizer(file: GgufFile, folder: Path) -> None:
    """Writes `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja`.

    `smollm` stands for: every digit alone, then GPT-2's byte-level split. The first half matters: "a  1" is
    `a`, two spaces, `1`, where the GPT-2 split alone gives `a`, space, space, `1`.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    meta = file.metadata
    if (meta["tokenizer.ggml.model"], meta["tokenizer.ggml.pre"]) != ("gpt2", "smollm"):
        raise GgufError(f"its tokenizer is {meta['tokenizer.ggml.model']}/{meta['tokenizer.ggml.pre']}")
    tokens: list[str] = meta["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in meta["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [t for t, kind in zip(tokens, meta["tokenizer.ggml.token_type"], strict=True) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": meta["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "bos_token": tokens[meta["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[meta["tokenizer.ggml.eos_token_id"]],
        "pad_token": tokens[meta["tokenizer.ggml.padding_token_id"]],
        "unk_token": tokens[meta["tokenizer.ggml.unknown_token_id"]],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(meta["tokenizer.chat_template"], encoding="utf-8")


def save_weights(file: GgufFile, path: Path) -> None:
    """Writes the weights as float32 safetensors, one tensor at a time, so that memory stays small.

    Layout: the header's length in 8 bytes, the header in JSON padded with spaces to 8 bytes, the tensors.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape, _ in llama_weights(file):
        start, end = end, end + 4 * prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, _, stored_name in llama_weights(file):
            out.write(llama_tensor(file, stored_name).data)


def save_as_hugging_face(file: GgufFile, folder: Path) -> None:
    """Writes a complete Hugging Face checkpoint into `folder`; raises GgufError where something is missing."""
    try:
        (folder / "config.json").write_text(json.dumps(llama_config(file), indent=1), encoding="utf-8")
        (folder / "generation_config.json").write_text(json.dumps(special_ids(file), indent=1), encoding="utf-8")
        save_tokenizer(file, folder)
        save_weights(file, folder / "model.safetensors")
    except KeyError as error:
        raise GgufError(f"it lacks {error}") from None

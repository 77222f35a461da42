"""What the training tests train on: a tiny random target, and texts that it may or may not have written."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from decoding.target import Target
from decoding.training.corpus import Example
from decoding.training.features import FeatureStore, make_features
from decoding.training.teacher import Teacher
from decoding.training.vocabulary import common_tokens
from tests.tiny_models import VOCAB, tiny_target

LAYERS = 8
"""EAGLE-3 reads the hidden states 2, n // 2 and n - 3."""
TAPS = (2, 4, 5, 6)


@cache
def target() -> Target:
    """A Llama of eight layers with 101 tokens, of which 2 ends a text."""
    return tiny_target("llama", num_hidden_layers=LAYERS)


def texts(count: int, seed: int = 0, longest: int = 24) -> list[Example]:
    """Random tokens, none of them the ending one; prompts and responses of different lengths, all greedy."""
    rng = random.Random(seed)

    def tokens(least: int) -> tuple[int, ...]:
        return tuple(rng.randrange(3, VOCAB) for _ in range(rng.randint(least, longest)))

    return [Example("test", 0.0, tokens(3), tokens(6)) for _ in range(count)]


def store_of(folder: Path, examples: list[Example], tokens_per_batch: int = 120) -> FeatureStore:
    return make_features(target(), examples, TAPS, folder, tokens_per_batch)


def teacher_of(examples: list[Example], size: int = VOCAB) -> Teacher:
    whole = target()
    common = common_tokens(examples, size, whole.vocab_size, always=whole.end_ids)
    return Teacher(whole.model.get_output_embeddings().weight.detach(), common)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def shake(model: torch.nn.Module, seed: int = 0, by: float = 0.2) -> None:
    """Moves every weight a little, so that no part of the network is without effect."""
    rng = generator(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += by * weight.abs().mean().clamp(min=0.1) * torch.randn(weight.shape, generator=rng)


@cache
def chat_tokenizer() -> Any:
    """97 words, w0 to w94, in a chat template of its own."""
    words = ["<s>", "</s>", *(f"w{n}" for n in range(95))]
    inner = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="w0"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = "<s> w1 {{ messages[0]['content'] }} w2"
    return tokenizer

"""Looked-up rotary embeddings are those that transformers computes, to the bit."""

from typing import Any

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from decoding import host_rotary
from decoding.host_rotary import HostRotary

TYPES: list[dict[str, Any]] = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 2.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    {"rope_type": "dynamic", "factor": 2.0},
]


@pytest.mark.parametrize("parameters", TYPES, ids=lambda parameters: parameters["rope_type"])
def test_positions_in_any_order_near_and_far(parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_rotary, "FIRST", 16)
    config = LlamaConfig(
        hidden_size=32,
        num_attention_heads=4,
        max_position_embeddings=64,
        rope_parameters={"rope_theta": 10_000.0, **parameters},
    )
    ours, theirs = HostRotary(LlamaRotaryEmbedding(config)), LlamaRotaryEmbedding(config)
    for positions in ([0, 1, 2], [15, 3, 3, 9], [16], [40, 1, 63], [200, 100], [5]):
        cos, sin = ours(torch.tensor(positions))
        wanted = [table[0] for table in theirs(torch.empty(0), torch.tensor([positions]))]
        assert torch.equal(cos, wanted[0])
        assert torch.equal(torch.cat([-sin[:, :4], sin[:, 4:]], dim=1), wanted[1])

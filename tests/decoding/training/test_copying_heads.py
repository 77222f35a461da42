"""Built heads attend where they should before anything is learnt."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from decoding.training.copying_heads import give_copying_heads

WORDS = 40


def fresh(layers: int = 2, heads: int = 6, keys: int = 6) -> LlamaForCausalLM:
    """Eager attention shows its shares; an embedding whose dimensions say less and less."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=2000,
        hidden_size=192,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        head_dim=64,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(torch.randn(2000, 192) * torch.linspace(1.3, 0.5, 192))
    return model


@torch.inference_mode()
def attentions(model: LlamaForCausalLM, gap: int) -> list[torch.Tensor]:
    """Shares `[heads, positions, positions]` of each layer over words, `gap` others, and the words once more."""
    ids = torch.randperm(2000, generator=torch.Generator().manual_seed(1))[: WORDS + gap]
    ids = torch.cat([ids, ids[:WORDS]])[None]
    return [layer[0] for layer in model(ids, output_attentions=True).attentions]


@pytest.mark.parametrize("gap", [0, 300])
def test_they_attend_to_the_token_before_and_to_what_followed_the_present_one(gap: int):
    model = fresh()
    give_copying_heads(model)
    first, second = attentions(model, gap)
    assert first[-1].diagonal(-1).min() > 0.95
    again = torch.arange(WORDS + gap, len(second[0]) - 1)
    for head in second[3:]:
        assert head[again, again - WORDS - gap + 1].mean() > 0.5


def test_what_is_attended_to_becomes_likelier():
    model = fresh()
    give_copying_heads(model)
    ids = torch.randperm(2000, generator=torch.Generator().manual_seed(1))[:WORDS].repeat(2)[None]
    with torch.inference_mode():
        last = model(ids[:, :-1]).logits[0, WORDS:]
    rank = (last > last.gather(1, ids[0, WORDS + 1 :, None])).sum(1)
    assert rank.float().median() < 100  # of 2,000, by its own and the present token's embedding alone


@pytest.mark.parametrize("shape", [{"layers": 1}, {"heads": 4, "keys": 4}, {"keys": 3}])
def test_a_shape_without_room_for_them_is_refused(shape: dict[str, int]):
    with pytest.raises(ValueError, match="two layers"):
        give_copying_heads(fresh(**shape))

"""The part of a drafter's config.json that follows from the target whose layers it begins with."""

from typing import Any

from decoding.target import Target


def layer_config(target: Target, layers: int) -> dict[str, Any]:
    """Sizes and rotary embedding of `layers` layers like the target's own, in the published layout."""
    text = target.model.config.get_text_config(decoder=True)
    return {
        "attention_bias": False,
        "dtype": "bfloat16",
        "head_dim": target.head_dim,
        "hidden_act": text.hidden_act,
        "hidden_size": target.hidden_size,
        "intermediate_size": text.intermediate_size,
        "max_position_embeddings": target.max_context,
        "num_attention_heads": text.num_attention_heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": text.num_key_value_heads,
        "num_target_layers": target.layers,
        "rms_norm_eps": text.rms_norm_eps,
        "rope_theta": float(text.rope_parameters["rope_theta"]),
        "tie_word_embeddings": False,
        "vocab_size": target.vocab_size,
    }

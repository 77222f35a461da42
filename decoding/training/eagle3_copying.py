"""Gives an EAGLE-3 drafter heads that copy: where its token stood before, they see what followed it there.

An entry pairs a token with the hidden state before it, so one layer can be a whole induction head (Olsson et al., arXiv
2209.11895): a query of the entry's own token, a key of the token before, a value of the entry's token. All that is
missing is the token before, which the fused states hardly hold: it comes in as one more tap, the target's embedding
(hidden state 0), and takes the place of the directions of the state that the drafter's head reads least.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from decoding.drafters.checkpoint import read_json
from decoding.drafters.eagle3_config import Eagle3Config
from decoding.drafters.eagle3_model import Eagle3Model

EMBEDDING_TAP = 0
MATCH = 40.0
"""Nats by which a match is ahead of a chance meeting."""
COPIED = 0.4
"""Length of what is copied, as a part of the state's."""
FREE = 0.005
"""Standard deviation of the queries that are new but not built: they are free to learn something else."""


def copying_config(raw: dict[str, Any], taps: tuple[int, ...]) -> dict[str, Any]:
    """The content of config.json with as many heads again and one more tap."""
    return {
        **raw,
        "num_key_value_heads": 2 * raw["num_key_value_heads"],
        "num_attention_heads": 2 * raw["num_attention_heads"],
        "eagle_aux_hidden_state_layer_ids": [EMBEDDING_TAP, *taps],
    }


def copies(folder: Path) -> bool:
    """Whether the checkpoint in `folder` reads the embedding, as one with heads that copy does."""
    return EMBEDDING_TAP in (read_json(folder / "config.json").get("eagle_aux_hidden_state_layer_ids") or ())


@torch.no_grad()
def with_copying_heads(model: Eagle3Model, config: Eagle3Config, embedding: Tensor, length: float) -> Eagle3Model:
    """A drafter of `config` (see `copying_config`) that is `model` but for its new heads, which copy.

    `embedding` `[vocab, hidden]` is the target's, `length` the root mean square of the entries of a fused state.
    """
    grown = Eagle3Model(config).to(embedding.device)
    size, hidden = config.head_dim, config.hidden
    count = min(model.config.kv_heads, hidden // size)  # together they copy no more than the whole embedding
    _take_over(grown, model)
    centred = embedding - embedding.mean(0)
    spread, directions = torch.linalg.eigh(centred.T @ centred / len(centred))
    spread, directions = spread.flip(0), directions.flip(1)
    code = directions[:, :size] / spread[:size].sqrt()  # [hidden, size], of about unit size
    least = torch.linalg.svd(grown.lm_head.weight * grown.norm.weight, full_matrices=False).Vh[-size:].T

    fc, layer = grown.fc.weight, grown.midlayer
    fc -= least @ (least.T @ fc)
    fc[:, :hidden] = length * (least @ code.T)

    attention, usual = layer.self_attn, embedding.square().mean().sqrt()
    group, half = config.heads // config.kv_heads, size // 2
    pairs = torch.arange(half // 2, half)  # those that turn slowly: a match counts nearly the same at every distance
    place = torch.cat([pairs, pairs + half])
    strength = (MATCH * size**0.5 / len(place)) ** 0.5
    for number in range(count):
        keys = slice((model.config.kv_heads + number) * size, (model.config.kv_heads + number + 1) * size)
        queries = slice(group * keys.start, group * keys.start + size)  # the first of the group is built
        compared = (number * half + torch.arange(len(place))) % size
        part = directions[:, number * size : (number + 1) * size].T
        attention.q_proj.weight[queries].zero_()[place, :hidden] = (
            strength * usual * code[:, compared].T / layer.input_layernorm.weight
        )
        attention.k_proj.weight[keys].zero_()[place, hidden:] = (
            strength * least[:, compared].T / layer.hidden_norm.weight
        )
        attention.v_proj.weight[keys].zero_()[:, :hidden] = part / layer.input_layernorm.weight
        attention.o_proj.weight[:, queries] = COPIED * length * part.T
    return grown


def _take_over(grown: Eagle3Model, model: Eagle3Model) -> None:
    """What `model` has, in its place; new queries near zero, all else that is new zero."""
    ours = model.state_dict()
    for name, tensor in grown.state_dict().items():
        theirs = ours[name]
        if name == "fc.weight":
            tensor.zero_()[:, -theirs.shape[1] :] = theirs
        elif name.endswith("o_proj.weight"):
            tensor.zero_()[:, : theirs.shape[1]] = theirs
        elif tensor.shape == theirs.shape:
            tensor.copy_(theirs)
        else:
            tensor.normal_(0.0, FREE) if name.endswith("weight") else tensor.zero_()
            tensor[: len(theirs)] = theirs

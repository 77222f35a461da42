"""Trains a DFlash drafter (arXiv 2602.06036): many blocks of a text at once, each after its own anchor.

An anchor is a position whose token is the block's root: context are the target's features of all tokens before it, and
the block predicts what follows. Layers begin as copies of the target's last ones, with the context they know: `fc`
begins as the features of the last tap alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from decoding.drafters.block_diffusion_config import BlockDiffusionConfig
from decoding.drafters.block_diffusion_model import Attention, BlockDiffusionModel, Layer
from decoding.drafters.network import Rotation, rotation
from decoding.target import Target
from decoding.training.corpus import Example
from decoding.training.export import Checkpoint, in_bfloat16
from decoding.training.features import Features
from decoding.training.layer_config import layer_config
from decoding.training.teacher import Teacher

SHOWN_POSITIONS = 4


@dataclass(frozen=True)
class BlockRecipe:
    """What belongs to the drafter and to its loss."""

    layers: int = 3
    block_size: int = 8
    taps: tuple[int, ...] = (2, 9, 15, 21, 27)
    """Indices into the target's `hidden_states`."""
    mask_token_id: int = 3
    """A token that the target never reads or writes in a chat."""
    vocabulary: int = 16_384
    """Common tokens in the softmax while training."""
    examples_per_step: int = 4
    anchors: int = 32
    """Blocks of one example in a step."""
    decay: float = 4.0
    """Loss weight of position p: exp(-(p - 1) / decay)."""
    soft: float = 0.5
    """Part of the loss that is the distance to the target's distribution; the rest is that to its token."""


def published_config(target: Target, recipe: BlockRecipe) -> dict[str, Any]:
    """The content of config.json in the published layout."""
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "block_size": recipe.block_size,
        "dflash_config": {
            "mask_token_id": recipe.mask_token_id,
            "target_layer_ids": [tap - 1 for tap in recipe.taps],
        },
        "layer_types": ["full_attention"] * recipe.layers,
        **layer_config(target, recipe.layers),
    }


@torch.no_grad()
def from_target(config: BlockDiffusionConfig, target: Target) -> BlockDiffusionModel:
    """A drafter whose layers are copies of the target's last ones, in float32 on the target's device."""
    model = BlockDiffusionModel(config).to(target.device)
    sources = list(target.body.layers)[-config.layers :]
    for layer, source in zip(model.layers, sources, strict=True):
        state = {name: value.float() for name, value in source.state_dict().items()}
        layer.load_state_dict(state, strict=False)
    model.norm.weight.copy_(target.body.norm.weight)
    # Every layer reads one context: the last tap, normed as the layer above it expects.
    model.fc.weight.zero_()
    model.fc.weight[:, -config.hidden :] = torch.eye(config.hidden, device=target.device)
    model.hidden_norm.weight.copy_(target.body.layers[min(config.taps[-1], target.layers - 1)].input_layernorm.weight)
    return model


@torch.no_grad()
def settle_norms(model: BlockDiffusionModel, features: Tensor) -> None:
    """Begins the query and key norms, which a Llama lacks, at the size that its keys have over `features`."""
    context = model.hidden_norm(model.fc(features))
    for layer in model.layers:
        attention: Attention = layer.self_attn  # type: ignore[assignment]
        for projection, norm in ((attention.q_proj, attention.q_norm), (attention.k_proj, attention.k_norm)):
            norm.weight.fill_(float(projection(context).view(-1, attention.head_dim).square().mean(-1).sqrt().mean()))


@dataclass(frozen=True, eq=False)
class Blocks:
    """One step's blocks: `examples` texts, `anchors` blocks in each."""

    features: Tensor
    """`[examples, tokens, taps * hidden]`, padded on the right."""
    anchor: Tensor
    """`[examples, anchors]` positions of the roots."""
    tokens: Tensor
    """`[examples, anchors, block]` the text from each anchor on; 0 beyond its end."""
    known: Tensor
    """bool, as `tokens`: where there is text to be right about."""
    final: Tensor
    """`[examples, anchors, block - 1, hidden]` the target's final states that speak of `tokens[..., 1:]`."""

    def to(self, device: torch.device) -> "Blocks":
        """The same on another device."""
        return Blocks(*(getattr(self, field.name).to(device) for field in fields(self)))


def sample_blocks(
    examples: Sequence[Example],
    store: Features,
    indices: Sequence[int],
    recipe: BlockRecipe,
    generator: torch.Generator,
) -> Blocks:
    """Blocks at random anchors of the given examples; the last anchor still has one token behind it."""
    block, shape = recipe.block_size, (len(indices), recipe.anchors)
    anchor = torch.zeros(shape, dtype=torch.int64)
    tokens = torch.zeros(*shape, block, dtype=torch.int64)
    known = torch.zeros(*shape, block, dtype=torch.bool)
    for row, index in enumerate(indices):
        example = examples[index]
        first, last = len(example.prompt), len(example) - 2
        anchor[row] = torch.randint(min(first, last), last + 1, (recipe.anchors,), generator=generator)
        text = functional.pad(torch.tensor(example.tokens), (0, block))
        at = anchor[row][:, None] + torch.arange(block)
        tokens[row], known[row] = text[at], at < len(example)
    features, final = store.padded(indices, recipe.taps)
    at = (anchor[..., None] + torch.arange(block - 1)).clamp(max=final.shape[1] - 1).to(final.device)
    speaking = final[torch.arange(len(indices), device=final.device)[:, None, None], at]
    return Blocks(features, anchor, tokens, known, speaking)


def block_states(model: BlockDiffusionModel, blocks: Blocks, embedded: Tensor, table: Rotation) -> Tensor:
    """Normed output `[examples, anchors, block, hidden]` for the blocks' embeddings of that shape.

    What the drafter computes block by block over its cache, for all blocks at once; a test holds the two together.
    """
    context = model.hidden_norm(model.fc(blocks.features))
    positions = torch.arange(context.shape[1], device=context.device)
    block_at = blocks.anchor[..., None] + torch.arange(embedded.shape[2], device=context.device)
    hidden_from_anchor = positions >= blocks.anchor[..., None]  # [examples, anchors, tokens]
    states = embedded
    for layer in model.layers:
        states = _layer_states(layer, states, context, positions, block_at, hidden_from_anchor, table)  # type: ignore[arg-type]
    result: Tensor = model.norm(states)
    return result


def _layer_states(
    layer: Layer, states: Tensor, context: Tensor, positions: Tensor, block_at: Tensor, unseen: Tensor, table: Rotation
) -> Tensor:
    attention = layer.self_attn
    normed = layer.input_layernorm(states)
    query = _heads(attention.q_norm, attention.q_proj(normed), attention.head_dim, block_at, table)
    own_key = _heads(attention.k_norm, attention.k_proj(normed), attention.head_dim, block_at, table)
    own_value = attention.v_proj(normed).unflatten(-1, (-1, attention.head_dim))
    far_key = _heads(attention.k_norm, attention.k_proj(context), attention.head_dim, positions, table)
    far_value = attention.v_proj(context).unflatten(-1, (-1, attention.head_dim))
    # e examples, a anchors, b and c places of a block, t context positions, k key heads, g query heads of each, d
    query = query.unflatten(-2, (attention.kv_heads, -1)) * attention.head_dim**-0.5
    far = torch.einsum("eabkgd,etkd->ekgabt", query, far_key)
    far = far.masked_fill(unseen[:, None, None, :, None], float("-inf"))
    own = torch.einsum("eabkgd,eackd->ekgabc", query, own_key)
    weights = torch.cat([far, own], dim=-1).softmax(-1)
    far_weights, own_weights = weights.split([far.shape[-1], own.shape[-1]], dim=-1)
    out = torch.einsum("ekgabt,etkd->eabkgd", far_weights, far_value)
    out = out + torch.einsum("ekgabc,eackd->eabkgd", own_weights, own_value)
    states = states + attention.o_proj(out.flatten(-3))
    result: Tensor = states + layer.mlp(layer.post_attention_layernorm(states))
    return result


def _heads(norm: nn.Module, flat: Tensor, head_dim: int, at: Tensor, table: Rotation) -> Tensor:
    """`[..., heads, head_dim]`, normed and rotated to the positions `at`."""
    states: Tensor = norm(flat.unflatten(-1, (-1, head_dim)))
    rolled = states.roll(head_dim // 2, -1)
    return states * table.cos[at][..., None, :] + rolled * table.sin[at][..., None, :]


class BlockTrainer:
    """The model, its data and its loss."""

    def __init__(
        self, target: Target, examples: Sequence[Example], store: Features, recipe: BlockRecipe, teacher: Teacher
    ) -> None:
        self.raw_config = published_config(target, recipe)
        self.config = BlockDiffusionConfig.from_dict(self.raw_config)
        self.examples, self.store, self.recipe, self.teacher = examples, store, recipe, teacher
        self.examples_per_step = recipe.examples_per_step
        self.device = target.device
        self.model = from_target(self.config, target)
        settle_norms(self.model, store.padded([0], recipe.taps)[0].to(self.device))
        longest = max(len(example) for example in examples) + recipe.block_size
        self.table = rotation(self.config, longest, torch.float32, target.device)
        self.embedding = target.embed.weight.detach().float()
        self.weight = torch.exp(-torch.arange(recipe.block_size - 1, device=self.device) / recipe.decay)

    def loss(self, indices: Sequence[int], generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Of blocks at random places of some examples."""
        blocks = sample_blocks(self.examples, self.store, indices, self.recipe, generator)
        return self.loss_of(blocks.to(self.device))

    def checkpointed(self) -> tuple[nn.Module, Callable[[str], str | None]]:
        """The module whose tensors a checkpoint holds, and what a tensor of a checkpoint is called in it."""
        return self.model, lambda name: name

    def published(self) -> Checkpoint:
        """Its tensors in bfloat16, and the tokens that it learnt to tell apart."""
        whole = len(self.teacher.common) == self.embedding.shape[0]
        tokens = None if whole else self.teacher.common.ids
        return Checkpoint(in_bfloat16(self.model.state_dict()), self.raw_config, tokens)

    def loss_of(self, blocks: Blocks) -> tuple[Tensor, dict[str, Tensor]]:
        """Weighted mean over positions, and top-1 agreement by position."""
        states = block_states(self.model, blocks, self.embedded(blocks), self.table)[..., 1:, :]
        return weighted(self, states, blocks)

    def embedded(self, blocks: Blocks) -> Tensor:
        """What the drafter reads `[examples, anchors, block, hidden]`: the roots, and masks behind them."""
        embedded: Tensor = self.embedding[self.recipe.mask_token_id].expand(*blocks.tokens.shape, -1).clone()
        embedded[..., 0, :] = self.embedding[blocks.tokens[..., 0]]
        return embedded


def weighted(trainer: BlockTrainer, states: Tensor, blocks: Blocks) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of `states` `[examples, anchors, block - 1, hidden]` that the target's head reads, earlier ones first,
    and how often its best token is right."""
    known = blocks.known[..., 1:]
    labels = blocks.tokens[..., 1:][known]
    each, right = trainer.teacher.loss(states[known], labels, blocks.final[known], trainer.recipe.soft)
    weight = trainer.weight.expand(known.shape)[known]
    hits = torch.zeros(known.shape, device=states.device).masked_scatter_(known, right.float())
    by_position = hits.sum((0, 1)) / known.sum((0, 1)).clamp(min=1)
    numbers = {f"top1_{place}": rate for place, rate in enumerate(by_position[:SHOWN_POSITIONS], 1)}
    numbers["chain"] = 1 + hits.cumprod(-1).sum(-1).mean()
    return (each * weight).sum() / weight.sum(), numbers

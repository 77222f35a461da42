"""Trains an EAGLE-3 drafter (arXiv 2503.01840) with training-time test: it reads its own states, as when drafting.

Row t pairs the target's features of position t with token t + 1 and says token t + 2. In step 0 of the test every row
reads the target's features; in step k it reads the drafter's own output of row t - 1 in step k - 1, and attends to the
target's rows up to t - k and to the k rows of its own path after them (section 3.2).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from decoding.drafters.eagle3 import module_name
from decoding.drafters.eagle3_config import Eagle3Config
from decoding.drafters.eagle3_model import Eagle3Model
from decoding.drafters.network import rotation
from decoding.target import Target
from decoding.training.corpus import Example
from decoding.training.eagle3_copying import EMBEDDING_TAP, copying_config, with_copying_heads
from decoding.training.export import Checkpoint, in_bfloat16
from decoding.training.features import Features
from decoding.training.layer_config import layer_config
from decoding.training.teacher import Teacher

MEASURED_TEXTS = 8
"""Examples from which it is learnt how long a fused state is."""


@dataclass(frozen=True)
class Eagle3Recipe:
    """What belongs to the drafter and to its loss."""

    draft_vocab: int = 8192
    test_steps: int = 4
    """Depths of the training-time test, the first included."""
    examples_per_step: int = 8
    decay: float = 0.8
    """Loss weight of step k: decay to the k."""
    soft: float = 0.7
    """Part of the loss that is the distance to the target's distribution; the rest is that to its token."""
    copying: bool = True
    """Whether it is given heads that copy, as many as the target's layer has (see `eagle3_copying`)."""


def published_config(target: Target, recipe: Eagle3Recipe) -> dict[str, Any]:
    """The content of config.json in the published layout, without heads that copy."""
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "draft_vocab_size": recipe.draft_vocab,
        **layer_config(target, 1),
    }


@torch.no_grad()
def from_target(config: Eagle3Config, target: Target, teacher: Teacher, taps: int) -> Eagle3Model:
    """A drafter that begins with the target's last layer and with its head's rows for the draft vocabulary.

    The half that reads the hidden state is that layer's own; the half that reads the token begins near zero.
    """
    model = Eagle3Model(config).to(target.device)
    source, hidden = target.body.layers[-1], config.hidden
    layer = model.midlayer
    for name in ("q_proj", "k_proj", "v_proj"):
        weight = getattr(layer.self_attn, name).weight
        weight[:, :hidden] *= 0.5
        weight[:, hidden:] = getattr(source.self_attn, name).weight
    layer.self_attn.o_proj.weight.copy_(source.self_attn.o_proj.weight)
    layer.mlp.load_state_dict({name: value.float() for name, value in source.mlp.state_dict().items()})
    layer.hidden_norm.weight.copy_(source.input_layernorm.weight)
    layer.post_attention_layernorm.weight.copy_(source.post_attention_layernorm.weight)
    model.norm.weight.copy_(target.body.norm.weight)
    model.fc.weight.zero_()
    model.fc.weight[:, (taps - 1) * hidden :] = torch.eye(hidden, device=target.device)
    model.lm_head.weight.copy_(teacher.head)
    ids = teacher.common.ids
    model.d2t.copy_(ids - torch.arange(len(ids)))
    model.t2d.copy_(teacher.common.place >= 0)
    return model


@dataclass(frozen=True, eq=False)
class Texts:
    """Some examples side by side, padded on the right."""

    features: Tensor
    """`[examples, rows, taps * hidden]` the target's features of the first `rows` positions."""
    tokens: Tensor
    """`[examples, rows]` the token after each of them."""
    labels: Tensor
    """`[examples, rows]` the token after that: what the row has to say."""
    final: Tensor
    """`[examples, rows, hidden]` the target's final states that speak of the labels."""
    counted: Tensor
    """bool `[examples, rows]`: rows whose label is in a response."""

    def to(self, device: torch.device) -> "Texts":
        """The same on another device."""
        return Texts(*(getattr(self, field.name).to(device) for field in fields(self)))


def gather_texts(
    examples: Sequence[Example], store: Features, indices: Sequence[int], taps: Sequence[int], embedding: Tensor
) -> Texts:
    """Rows of the given examples: one for every token but the last two.

    Hidden state 0, where the `taps` begin with it, is looked up in the `embedding` `[vocab, hidden]`.
    """
    rows = max(len(examples[i]) for i in indices) - 2
    text = torch.zeros(len(indices), rows + 2, dtype=torch.int64)
    counted = torch.zeros(len(indices), rows, dtype=torch.bool)
    for row, index in enumerate(indices):
        example = examples[index]
        count = len(example) - 2
        text[row, : len(example)] = torch.tensor(example.tokens)
        # The first token of the response comes from the prefill: the first that is drafted is the one after it.
        counted[row, len(example.prompt) - 1 : count] = True
    features, final = store.padded(indices, [tap for tap in taps if tap != EMBEDDING_TAP])
    features = features[:, :-2]
    if EMBEDDING_TAP in taps:
        features = torch.cat([embedding[text[:, :-2].to(embedding.device)].to(features), features], dim=-1)
    return Texts(features, text[:, 1:-1], text[:, 2:], final[:, 1:-1], counted)


def test_mask(rows: int, step: int, device: torch.device) -> Tensor:
    """bool `[rows, (step + 1) * rows]`: what each row sees of the entries of the steps 0 to `step`.

    With 3 rows, step 1: row 2 sees rows 0 and 1 of step 0 and itself of step 1; row 1 sees row 0 and itself.
    """
    row = torch.arange(rows, device=device)[:, None]
    column = torch.arange(rows, device=device)
    parts = [column <= row - step] + [column == row - step + own for own in range(1, step + 1)]
    parts[-1] = parts[-1] | (column == row)  # the first rows have no path of this length: they see themselves
    return torch.cat(parts, dim=1)


class Eagle3Trainer:
    """The model, its data and its loss."""

    def __init__(
        self, target: Target, examples: Sequence[Example], store: Features, recipe: Eagle3Recipe, teacher: Teacher
    ) -> None:
        self.raw_config = published_config(target, recipe)
        self.config = Eagle3Config.from_dict(self.raw_config)
        self.taps = self.config.taps(target.layers)
        self.examples, self.store, self.recipe, self.teacher = examples, store, recipe, teacher
        self.examples_per_step = recipe.examples_per_step
        self.device = target.device
        self.model = from_target(self.config, target, teacher, len(self.taps))
        self.embedding = target.embed.weight.detach().float()
        longest = max(len(example) for example in examples)
        self.table = rotation(self.config, longest, torch.float32, target.device)
        if recipe.copying:
            self.give_copying_heads()

    @torch.no_grad()
    def give_copying_heads(self) -> None:
        """Replaces the model, which has none, by one with twice as many heads; see `with_copying_heads`."""
        self.recipe = replace(self.recipe, copying=True)
        texts = self._texts(range(min(len(self.examples), MEASURED_TEXTS))).to(self.device)
        states = self.model.fuse(texts.features)[texts.counted]
        length = float(states.square().mean(-1).sqrt().median())
        self.raw_config = copying_config(self.raw_config, self.taps)
        self.config = Eagle3Config.from_dict(self.raw_config)
        self.taps = (EMBEDDING_TAP, *self.taps)
        self.model = with_copying_heads(self.model, self.config, self.embedding, length)

    def loss(self, indices: Sequence[int], generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Of some whole examples; nothing is chosen at random."""
        return self.loss_of(self._texts(indices).to(self.device))

    def _texts(self, indices: Sequence[int]) -> Texts:
        return gather_texts(self.examples, self.store, indices, self.taps, self.embedding)

    def checkpointed(self) -> tuple[nn.Module, Callable[[str], str | None]]:
        """The module whose tensors a checkpoint holds, and what a tensor of a checkpoint is called in it."""
        return self.model, module_name

    def published(self) -> Checkpoint:
        """Its tensors in bfloat16, d2t and t2d as they are."""
        return Checkpoint(in_bfloat16(self.model.state_dict()), self.raw_config)

    def loss_of(self, texts: Texts) -> tuple[Tensor, dict[str, Tensor]]:
        """The weighted mean over the steps of the test, and top-1 agreement by step."""
        rows, counted = texts.tokens.shape[1], texts.counted
        embedded = self.embedding[texts.tokens]
        hidden = self.model.fuse(texts.features)
        table = self.table[slice(0, rows)]
        entries: list[Tensor] = []

        def remember(keys_values: Tensor) -> Tensor:
            entries.append(keys_values)
            return torch.cat(entries, dim=-2)

        losses: list[Tensor] = []
        numbers: dict[str, Tensor] = {}
        chain = torch.ones((), device=self.device)
        unbroken = counted.float()
        for step in range(self.recipe.test_steps):
            hidden = self.model(embedded, hidden, remember, table, test_mask(rows, step, self.device)[None, None])
            live = counted & _later(counted, step)  # row t was started by row t - step: counted where that one was
            logits = self.model.logits(hidden[live])
            each, right = self.teacher.loss_of_logits(logits, texts.labels[live], texts.final[live], self.recipe.soft)
            rows_live = live.sum().clamp(min=1)  # short responses may have none at this depth
            losses.append(each.sum() / rows_live * self.recipe.decay**step)
            hits = torch.zeros(live.shape, device=self.device).masked_scatter_(live, right.float())
            unbroken = hits * (_later(unbroken, 1) if step else 1.0)
            numbers[f"top1_{step + 1}"] = right.sum() / rows_live
            chain = chain + unbroken.sum() / counted.sum().clamp(min=1)
            hidden = functional.pad(hidden[:, :-1], (0, 0, 1, 0))
        weights = sum(self.recipe.decay**step for step in range(self.recipe.test_steps))
        return torch.stack(losses).sum() / weights, {**numbers, "chain": chain}


def _later(rows: Tensor, steps: int) -> Tensor:
    """`[examples, rows]` moved `steps` rows on, zeros before."""
    return functional.pad(rows, (steps, 0))[:, : rows.shape[1]]

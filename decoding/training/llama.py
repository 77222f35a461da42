"""Distils a small Llama with the target's vocabulary: the drafter of linear, fixed and confidence-adaptive trees.

The embedding, tied to the head, begins as the target's own projected onto its first principal directions, so that
tokens that mean alike begin alike; the layers begin at random, but for heads that copy (`copying_heads`). It learns the
target's distribution after every token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from decoding.target import Target
from decoding.training.copying_heads import give_copying_heads
from decoding.training.corpus import Example
from decoding.training.export import Checkpoint, in_bfloat16
from decoding.training.features import Features
from decoding.training.teacher import Teacher
from decoding.training.vocabulary import common_tokens

CHAIN = 5
EMBEDDING = "model.embed_tokens.weight"


@dataclass(frozen=True)
class LlamaRecipe:
    """What belongs to the drafter and to its loss."""

    hidden: int = 192
    """49,152 rows of it in 8-bit floats are 9.4 MB: one file."""
    layers: int = 4
    heads: int = 3
    """As wide as the model together; as many again copy, or are free to, see `copying_heads`."""
    intermediate: int = 768
    examples_per_step: int = 16
    vocabulary: int = 8192
    """Common tokens in the softmax while training."""
    negatives: int = 2048
    """Random tokens of the whole vocabulary beside the common ones in each step's softmax."""
    soft: float = 0.7
    """Part of the loss that is the distance to the target's distribution; the rest is that to its token."""
    draft_vocab: int = 16384
    """Common tokens that it drafts with: its head over all of them takes longer than its layers."""


def small_llama(target: Target, recipe: LlamaRecipe, seed: int) -> Any:
    """A `LlamaForCausalLM` in float32 whose embedding is the target's, projected and scaled to a mean square of 1.

    Its last dimension is a constant then, and its heads copy from the start. Raises ValueError as
    `give_copying_heads` does.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    text = target.model.config.get_text_config(decoder=True)
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=target.vocab_size,
            hidden_size=recipe.hidden,
            intermediate_size=recipe.intermediate,
            num_hidden_layers=recipe.layers,
            num_attention_heads=2 * recipe.heads,
            num_key_value_heads=2 * recipe.heads,
            head_dim=recipe.hidden // recipe.heads,
            max_position_embeddings=target.max_context,
            rms_norm_eps=text.rms_norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": float(text.rope_parameters["rope_theta"])},
            tie_word_embeddings=True,
            bos_token_id=text.bos_token_id,
            eos_token_id=text.eos_token_id,
            pad_token_id=text.pad_token_id,
        )
    )
    with torch.no_grad():
        table = target.embed.weight.float()
        centred = table - table.mean(0)
        _, directions = torch.linalg.eigh(centred.T @ centred)
        projected = centred @ directions[:, -recipe.hidden :].flip(1)
        model.model.embed_tokens.weight.copy_(projected / projected.square().mean().sqrt())
        # Logits are sums over `hidden` products of about unit size: begin with those of a softmax that is nearly flat.
        model.model.norm.weight.fill_(recipe.hidden**-0.5)
    give_copying_heads(model)
    return model


class LlamaTrainer:
    """The model, its data and its loss."""

    def __init__(
        self,
        target: Target,
        examples: Sequence[Example],
        store: Features,
        recipe: LlamaRecipe,
        teacher: Teacher,
        seed: int,
    ) -> None:
        self.model = small_llama(target, recipe, seed).to(target.device)
        self.examples, self.store, self.recipe, self.teacher = examples, store, recipe, teacher
        self.common = teacher.common.ids.to(target.device)
        self.draft_tokens = common_tokens(examples, recipe.draft_vocab, target.vocab_size, target.end_ids).ids
        self.examples_per_step = recipe.examples_per_step
        self.vocab, self.device = target.vocab_size, target.device

    def loss(self, indices: Sequence[int], generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Of some examples: every token but the first is a label; agreement is counted in responses."""
        width = max(len(self.examples[i]) for i in indices)
        ids = torch.zeros(len(indices), width, dtype=torch.int64)
        known = torch.zeros(len(indices), width - 1, dtype=torch.bool)
        response = torch.zeros_like(known)
        for row, index in enumerate(indices):
            example = self.examples[index]
            count = len(example) - 1
            ids[row, : count + 1] = torch.tensor(example.tokens)
            known[row, len(example.prompt) - 1 : count] = True
            response[row, len(example.prompt) : count] = True
        _, final = self.store.padded(indices, ())
        ids, final, known, response = (part.to(self.device) for part in (ids, final[:, :-1], known, response))
        states = self.model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state[known]
        labels, table = ids[:, 1:][known], self.model.model.embed_tokens.weight
        negatives = torch.randint(self.vocab, (self.recipe.negatives,), generator=generator).to(self.device)
        negatives = negatives[self.teacher.place[negatives] < 0]
        logits = functional.linear(states, table[self.common])
        others = functional.linear(states, table[negatives])
        each, right = self.teacher.loss_of_logits(logits, labels, final[known], self.recipe.soft, others)
        hits = torch.zeros(known.shape, device=self.device).masked_scatter_(known, right.float())
        hits = hits * response
        top1 = hits.sum() / response.sum().clamp(min=1)
        return each.mean(), {"top1": top1, "chain": _chain(hits, response)}

    def checkpointed(self) -> tuple[nn.Module, Callable[[str], str | None]]:
        """The module whose tensors a checkpoint holds, and what a tensor of a checkpoint is called in it."""
        return self.model.model, lambda name: name.removeprefix("model.")

    def published(self) -> Checkpoint:
        """The embedding in 8-bit floats (e4m3), the rest in bfloat16."""
        tensors = in_bfloat16(self.model.state_dict())
        del tensors["lm_head.weight"]
        tensors[EMBEDDING] = self.model.model.embed_tokens.weight.detach().to(torch.float8_e4m3fn)
        config = {**self.model.config.to_dict(), "architectures": [type(self.model).__name__], "dtype": "bfloat16"}
        return Checkpoint(tensors, config, self.draft_tokens)


def _chain(hits: Tensor, counted: Tensor) -> Tensor:
    """Tokens per round of a chain of `CHAIN` begun at a random counted place, bonus included."""
    total, alive = hits.new_ones(()), torch.ones_like(hits)
    for step in range(CHAIN):
        alive = alive * functional.pad(hits[:, step:], (0, step))
        total = total + (alive * counted).sum() / counted.sum().clamp(min=1)
    return total

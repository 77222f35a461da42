"""What a drafter is told to say: the target's token, and the target's distribution, over the common tokens."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from decoding.training.vocabulary import CommonTokens

ROWS = {"cpu": 128, "cuda": 4096}
"""Rows that are looked at together: on a CPU what they need stays in its cache."""


class Teacher:
    """Losses against the target, whose distributions are its final hidden states through its own head."""

    def __init__(self, head_weight: Tensor, common: CommonTokens) -> None:
        self.common = common
        self.head = head_weight[common.ids.to(head_weight.device)].float()
        """`[kept, hidden]` the target's head, for the common tokens."""
        self.place = common.place.to(head_weight.device)

    def loss(self, states: Tensor, labels: Tensor, final: Tensor, soft: float) -> tuple[Tensor, Tensor]:
        """For states `[rows, hidden]` that the target's own head reads; see `loss_of_logits`."""
        return self.loss_of_logits(functional.linear(states, self.head), labels, final, soft)

    def loss_of_logits(
        self, logits: Tensor, labels: Tensor, final: Tensor, soft: float, others: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Loss `[rows]` (nats) and whether the best token is the label `[rows]`, for logits `[rows, kept]`.

        `soft` parts cross-entropy to the target's distribution after its `final` states `[rows, hidden]`, the rest to
        the `labels` `[rows]`; a label outside the common tokens leaves the soft part alone. `others` `[rows, more]`
        are logits of further tokens, which the target does not want.
        """
        whole = logits if others is None else torch.cat([logits, others], dim=-1)
        final, head = final.to(whole.dtype), self.head.to(whole.dtype)  # autocast would do so for every few rows
        losses, right = _SoftLoss.apply(whole, self.place[labels], final, head, soft)
        return losses, right


class _SoftLoss(torch.autograd.Function):
    """Loss and gradient a few rows at a time: what is as wide as the vocabulary is written once, as the gradient."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, place: Tensor, final: Tensor, head: Tensor, soft: float
    ) -> tuple[Tensor, Tensor]:
        rows, kept = len(logits), len(head)
        gradient = torch.empty_like(logits)
        losses = logits.new_empty(rows, dtype=torch.float32)
        right = place.new_empty(rows, dtype=torch.bool)
        for start in range(0, rows, ROWS[logits.device.type]):
            at = slice(start, start + ROWS[logits.device.type])
            label = place[at, None].clamp(min=0)
            hard = (place[at, None] >= 0) * (1 - soft)
            wanted = functional.linear(final[at], head).float().softmax(-1) * soft
            said = logits[at].float().log_softmax(-1)
            losses[at] = -(wanted * said[:, :kept]).sum(-1) - (said.gather(1, label) * hard)[:, 0]
            right[at] = said[:, :kept].argmax(-1) == place[at]
            # The gradient of a cross-entropy is what is said less what is wanted.
            chance = said.exp_().mul_(hard + soft)
            chance[:, :kept] -= wanted
            gradient[at] = chance.scatter_add_(1, label, -hard)
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(right)
        return losses, right

    @staticmethod
    def backward(ctx: Any, losses: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * losses[:, None].to(gradient.dtype), None, None, None, None

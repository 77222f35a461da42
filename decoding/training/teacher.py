"""What a drafter is told to say: the target's token, and the target's distribution, over the common tokens."""

import torch
from torch import Tensor
from torch.nn import functional

from decoding.training.vocabulary import CommonTokens


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
        logits = logits.float()
        place = self.place[labels]
        kept = place >= 0
        normaliser = (logits if others is None else torch.cat([logits, others], dim=-1)).logsumexp(-1)
        hard = (normaliser - logits.gather(1, place.clamp(min=0)[:, None])[:, 0]) * kept
        right = (logits.argmax(-1) == place) & kept
        if soft == 0:
            return hard, right
        with torch.no_grad():
            wanted = functional.linear(final, self.head).float().softmax(-1)
        distance = normaliser - (wanted * logits).sum(-1)
        return (1 - soft) * hard + soft * distance, right

"""Gives a fresh Llama the heads with which transformers copy: a previous-token head and induction heads.

Where a token stood before, induction heads predict what followed it there (Olsson et al., arXiv 2209.11895). Much of
what a target writes it copies, but a model learns that only from far more text than a drafter sees. So these heads are
built: one of the first layer tells every position the token before it, and those of the second layer attend where that
is the present token and pass on the token that stands there. Training goes on from there.
"""

import math
from typing import Any

import torch
from torch import Tensor

CONSTANT = 6.0
"""The last dimension of every embedding. As part of the head it adds to all logits alike, which changes nothing."""
CONTRAST = 12.0
"""Nats by which the token before is ahead of its neighbours in the previous-token head."""
MATCH = 40.0
"""Nats by which a match is ahead of a chance meeting in an induction head."""
MOVED = 2.0
"""Strength of the token before, in standard deviations of the dimensions to which it is written."""
COPIED = 1.5
"""Part of the copied token's embedding that is added."""


@torch.no_grad()
def give_copying_heads(model: Any) -> None:
    """Makes the last heads of the first two layers of a fresh `LlamaForCausalLM` copy.

    The dimensions of its embedding stand in falling order of their spread; the last one becomes a constant. All heads
    together are twice as wide as the model. Raises ValueError where they are not, or where there is one layer only.
    """
    config = model.config
    size, heads = config.head_dim, config.num_attention_heads
    copying = config.hidden_size // size
    if config.num_hidden_layers < 2 or {heads, config.num_key_value_heads} != {2 * copying} or copying < 3:
        raise ValueError("copying takes two layers, and six heads or more that together are twice as wide as the model")
    table: Tensor = model.model.embed_tokens.weight
    spread = table.std(0)
    table[:, -1] = CONSTANT
    first, second = (layer.self_attn for layer in model.model.layers[:2])
    turn = config.rope_parameters["rope_theta"] ** (-torch.arange(size // 2) / (size // 2))  # radians a token
    own = torch.arange(size)
    moved = config.hidden_size - 1 - size + own  # the dimensions that say least of the token itself
    before = _Head(first, heads - 1)
    before.look_back(turn)
    before.carry(own, moved, MOVED * spread[moved] / spread[own])
    for number in range(copying):
        part = number * size + own
        part = part[part < config.hidden_size - 1]
        head = _Head(second, heads - copying + number)
        compared = (number * (size // 2) + own[: size // 2]) % size
        head.compare(compared, moved[compared], spread)
        head.carry(part, part, torch.full((len(part),), COPIED))


class _Head:
    """One head's parts of the projections, all zero at first."""

    def __init__(self, attention: Any, number: int) -> None:
        self.size: int = attention.head_dim
        rows = slice(number * self.size, (number + 1) * self.size)
        self.query, self.key, self.value = (
            projection.weight[rows].zero_() for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        self.out = attention.o_proj.weight[:, rows].zero_()

    def carry(self, read: Tensor, written: Tensor, strength: Tensor) -> None:
        """Adds the dimensions `read` of what is attended to, so much stronger, to the dimensions `written`."""
        place = torch.arange(len(read))
        self.value[place, read] = 1.0
        self.out[written, place] = strength

    def look_back(self, turn: Tensor) -> None:
        """Attends to the token before, for rotary embeddings that `turn` `[size / 2]` radians a token.

        Query and key are constants. With a query turned back by one token, a pair of dimensions that turns by `t` gives
        cos(t * (distance - 1)). The fast pairs are added and as many slow ones subtracted, which keeps the sum at 0 for
        the token before and below it elsewhere: no key that is a little longer can win.
        """
        count = max(len(turn) // 4, 1)
        fast, slow = torch.arange(count), torch.arange(len(turn) - count, len(turn))
        needed = CONTRAST * math.sqrt(self.size) / float((1 - turn[fast].cos()).sum())
        strength = math.sqrt(needed) / CONSTANT
        for pairs, sign in ((fast, 1.0), (slow, -1.0)):
            self.key[pairs, -1] = strength
            self.query[pairs, -1] = sign * strength * turn[pairs].cos()
            self.query[pairs + len(turn), -1] = -sign * strength * turn[pairs].sin()

    def compare(self, own: Tensor, moved: Tensor, spread: Tensor) -> None:
        """Attends where the dimensions `moved` hold what the dimensions `own` of the present token hold.

        Only the pairs that turn slowly are used: with them a match counts nearly the same at every distance.
        """
        pairs = torch.arange(self.size // 4, self.size // 2)
        place = torch.cat([pairs, pairs + self.size // 2])
        strength = math.sqrt(MATCH * math.sqrt(self.size) / len(place))
        self.query[place, own] = strength / spread[own]
        self.key[place, moved] = strength / (MOVED * spread[moved])

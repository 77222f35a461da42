"""A smaller causal LM as drafter, expanded layer by layer in tree attention (SpecInfer; DynaTree, section 3.2).

Every depth of the draft is one forward pass over its whole frontier. What was evaluated in a round stays in the
drafter's own KV cache, known by its token path: when the target commits, the entries on the committed path are
moved together in place and the others dropped. A committed token that was never evaluated (mostly the last accepted
leaf) waits and is fed together with the next root in one forward pass.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoding.drafters.base import Observation
from decoding.drafters.stepwise_model import StepwiseModel
from decoding.errors import Incompatible
from decoding.kv_cache import PreallocatedCache, free_memory
from decoding.layout import Layout, chain_layout, nodes_layout
from decoding.target import PREFILL_CHUNK, Target, memory_guard
from decoding.types import Ints


class Autoregressive(StepwiseModel):
    """Drafts with any causal LM that has the target's vocabulary (`model` may even be the target itself)."""

    def __init__(self, model: Target, vocab_size: int, draft_tokens: Tensor | None = None) -> None:
        """`draft_tokens` `[kept]` are the ids of the tokens that it drafts with (see `draft_tokens`), where these are
        not all.

        Raises Incompatible where the drafter's vocabulary is not the target's `vocab_size`.
        """
        if model.vocab_size != vocab_size:
            raise Incompatible(
                f"The drafter {model.name} has {model.vocab_size} tokens, the target {vocab_size}.",
                "Choose a drafter of the target's own family: both must share one vocabulary.",
            )
        self.model = model
        self.name = model.name
        self.vocab_size = vocab_size
        self.draft_tokens = None if draft_tokens is None else draft_tokens.int().numpy()
        self._head = model.head if draft_tokens is None else model.head_over(draft_tokens)
        self.begin(0)

    @property
    def runs_on_kernels(self) -> bool:
        return self.model.runs_on_kernels

    def begin(self, capacity: int) -> None:
        self._cache = PreallocatedCache(capacity, self.model.layers)
        self._length = 0
        """Committed entries in the cache. Those of the round in flight stand behind, in the order of its nodes."""
        self._waiting: list[int] = []
        """Committed tokens that were never evaluated."""
        self._forget_round()

    def _forget_round(self) -> None:
        self._cache.rewind(self._length)
        self._depth: Ints = np.zeros(0, np.int32)
        self._seen: NDArray[np.bool_] = np.zeros((0, 0), np.bool_)  # [nodes, nodes]: ancestors and self
        self._index: dict[tuple[int, int], int] = {}  # (parent, token) -> node; the root's parent is -1

    def end(self) -> None:
        self.begin(0)
        free_memory(self.model.device)

    @torch.inference_mode()
    def observe(self, observation: Observation) -> None:
        """Keeps the evaluated part of the committed path; a prompt is evaluated here, in chunks."""
        tokens = observation.tokens.tolist()
        path: list[int] = []
        for token in tokens:
            node = self._index.get((path[-1] if path else -1, token))
            if node is None:
                break
            path.append(node)
        self._cache.rewind(self._length)
        self._cache.keep(path)
        self._length = self._cache.length
        self._waiting += tokens[len(path) :]
        self._forget_round()
        if self._length == 0:
            self._prefill(keep=0)

    @torch.inference_mode()
    def _start(self, root: int) -> Tensor | None:
        self._forget_round()
        if not self._fits(len(self._waiting) + 1):
            return None
        self._prefill(keep=PREFILL_CHUNK)
        tokens = np.array([*self._waiting, root], np.int32)
        hidden = self._forward(self._chain(tokens), len(tokens))
        self._length += len(self._waiting)
        self._waiting.clear()
        self._add_nodes(np.array([root]), np.array([-1]), np.ones((1, 1), np.bool_), np.zeros(1, np.int32))
        return self._head(hidden[-1:]).float()

    @torch.inference_mode()
    def _expand(self, tokens: Ints, parents: Ints) -> Tensor | None:
        depth = self._depth[parents] + 1
        if not self._fits(int(depth.max()) + 1):
            return None
        visible = np.concatenate([self._seen[parents], np.eye(len(tokens), dtype=np.bool_)], axis=1)
        model = self.model
        layout = nodes_layout(
            tokens, depth, visible, self._length, model.windows, model.device, model.dtype, earlier_depth=self._depth
        )
        hidden = self._forward(layout, len(tokens))
        self._add_nodes(tokens, parents, visible, depth)
        return self._head(hidden).float()

    def _add_nodes(self, tokens: Ints, parents: Ints, visible: NDArray[np.bool_], depth: Ints) -> None:
        before = len(self._depth)
        self._seen = np.concatenate([np.pad(self._seen, ((0, 0), (0, len(tokens)))), visible])
        self._depth = np.concatenate([self._depth, depth])
        keys = zip(parents.tolist(), tokens.tolist(), strict=True)
        self._index |= {key: before + place for place, key in enumerate(keys)}

    def _fits(self, positions: int) -> bool:
        """Whether the drafter's own context has room for so many positions behind the committed ones."""
        return self._length + positions <= self.model.max_context

    def _prefill(self, keep: int) -> None:
        """Evaluates waiting tokens in chunks until at most `keep` are left, or the context is full."""
        while len(self._waiting) > keep:
            chunk = self._waiting[: min(PREFILL_CHUNK, len(self._waiting) - keep)]
            if not self._fits(len(chunk)):
                return
            self._forward(self._chain(np.array(chunk, np.int32)), len(chunk))
            self._length += len(chunk)
            del self._waiting[: len(chunk)]

    def _chain(self, tokens: Ints) -> Layout:
        return chain_layout(tokens, self._length, self.model.windows, self.model.device, self.model.dtype)

    def _forward(self, layout: Layout, count: int) -> Tensor:
        """Hidden states `[count, hidden]`; the entries stand in the cache behind all earlier ones."""
        with memory_guard("the drafter"):
            if self._cache.length + count > self._cache.capacity:
                self._cache.reserve(self._cache.length + count + self._cache.capacity // 4)
            hidden, _ = self.model.forward(layout, self._cache, ())
        self._cache.advance(count)
        return hidden

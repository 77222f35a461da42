"""The target's memory of the text. The only file that touches the inside of a transformers cache.

Two kinds. `PreallocatedCache` writes new entries behind the committed ones and, at a commit, moves the accepted
nodes' entries together in place: a round never copies the context. `RebuiltCache` is the rollback-and-rebuild of
DynaTree (section 3.5, Algorithm 1 line 6), kept for comparison: drop every entry of the round, then run the
accepted tokens through the model again.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from decoding.errors import BadRequest, UnsupportedModel

CACHE_KINDS = ("preallocated", "rebuild")


def attention_windows(config: Any) -> tuple[int | None, ...]:
    """For each layer how many positions it sees, itself included; None where it sees all.

    Raises UnsupportedModel, naming the layer, where the cache of a layer cannot be taken back exactly.
    """
    windows: list[int | None] = []
    text_config = config.get_text_config(decoder=True)
    types = getattr(text_config, "layer_types", None) or []
    for index, layer in enumerate(DynamicCache(config=config).layers):
        named = types[index] if index < len(types) else type(layer).__name__
        if type(layer) is DynamicLayer:
            windows.append(None)
        elif type(layer) is DynamicSlidingWindowLayer and named != "chunked_attention":
            windows.append(layer.sliding_window)
        else:
            raise UnsupportedModel(
                f"Layer {index} of this {config.model_type} model is {named!r}: its cache cannot drop rejected nodes.",
                "Choose a model whose layers all use full or sliding-window attention (Llama, Qwen, Gemma, NeoX ...).",
            )
    return tuple(windows)


class RunCache(ABC):
    """The cache of one run: `length` committed entries, then those of the round in flight."""

    length: int
    """Committed positions."""
    past: Cache
    """What the model is called with."""

    @abstractmethod
    def keep(self, path: Sequence[int]) -> Sequence[int]:
        """Keeps the entries `path` (offsets into the round in flight, ascending, from 0) and drops the others.

        Returns the offsets that are not in the cache and must be run through the model again.
        """

    def advance(self, count: int) -> None:
        """Counts the `count` entries just written as committed, in order (a prefill, a drafter's layer)."""
        self.length += count


def make_cache(kind: str, capacity: int, layers: int) -> RunCache:
    """A cache of `kind` for at most `capacity` positions, drafted nodes included."""
    if kind == "preallocated":
        return PreallocatedCache(capacity, layers)
    if kind == "rebuild":
        return RebuiltCache()
    raise BadRequest(f"There is no cache named {kind!r}.", f"Choose one of: {', '.join(CACHE_KINDS)}.")


class PreallocatedCache(RunCache):
    """One slab of keys and one of values for all layers, `[layers, kv_heads, capacity, head_dim]`."""

    def __init__(self, capacity: int, layers: int) -> None:
        self.capacity = capacity
        self.length = 0
        self._slabs: list[Tensor] = []
        self.past = Cache(layers=[_SlabLayer(self, index) for index in range(layers)])

    def rows(self, like: Tensor, layer: int, which: int) -> Tensor:
        """The rows of one layer, `[kv_heads, capacity, head_dim]`; all layers' are allocated at the first call."""
        slab = self.slabs(like)[which]
        if slab.shape[1:] != (like.shape[1], self.capacity, like.shape[3]) or like.shape[0] != 1:
            raise UnsupportedModel(
                f"Layer {layer} keeps keys of another shape than layer 0.", "Use the cache 'rebuild' for this model."
            )
        return slab[layer]

    def slabs(self, like: Tensor) -> list[Tensor]:
        """Keys and values of all layers, `[layers, kv_heads, capacity, head_dim]`, for entries such as `like`
        `[1, kv_heads, positions, head_dim]`."""
        if not self._slabs:
            shape = (len(self.past.layers), like.shape[1], self.capacity, like.shape[3])
            self._slabs = [like.new_empty(shape) for _ in range(2)]
        return self._slabs

    def reserve(self, capacity: int) -> None:
        """Makes room for `capacity` positions, what is there kept: a drafter may evaluate more than the tree keeps."""
        if capacity <= self.capacity:
            return
        grown = []
        for slab in self._slabs:
            layers, heads, _, head_dim = slab.shape
            grown.append(slab.new_empty((layers, heads, capacity, head_dim)))
            grown[-1][:, :, : self.capacity] = slab
        self._slabs, self.capacity = grown, capacity
        for layer in self.past.layers:
            layer.is_initialized = False  # its views are of the old slabs

    def pretend(self, length: int) -> None:
        """Counts `length` positions as committed, with zeros in them, after at least one forward pass: for measuring
        time, which does not depend on what the entries are."""
        for slab in self._slabs:
            slab[:, :, :length].zero_()
        self.length = length

    def rewind(self, length: int) -> None:
        """Takes back an `advance`: entries from `length` on are those of the round in flight again."""
        self.length = length

    def keep(self, path: Sequence[int]) -> Sequence[int]:
        # One position at a time, in ascending order: a source is never overwritten before it is read, nothing is
        # gathered into a temporary, and no index has to travel to the device.
        for place, node in enumerate(path):
            if place != node:
                for slab in self._slabs:
                    slab[:, :, self.length + place].copy_(slab[:, :, self.length + node])
        self.length += len(path)
        return ()


class _SlabLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's window on the slabs; writes behind the committed length without advancing it."""

    is_croppable = True
    is_sliding = False

    def __init__(self, owner: PreallocatedCache, index: int) -> None:
        super().__init__()
        self.owner = owner
        self.index = index

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys = self.owner.rows(key_states, self.index, 0)
        self.values = self.owner.rows(value_states, self.index, 1)
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.owner.length
        end = start + key_states.shape[2]
        self.keys[:, start:end] = key_states[0]
        self.values[:, start:end] = value_states[0]
        return self.keys[None, :, :end], self.values[None, :, :end]

    def get_seq_length(self) -> int:
        return self.owner.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.owner.length + query_length, 0

    def get_max_length(self) -> int:
        return self.owner.capacity


class BatchedCache:
    """Many texts at once, all of one length: slabs `[rows, kv_heads, capacity, head_dim]` a layer, for making text."""

    def __init__(self, capacity: int, layers: int) -> None:
        self.capacity = capacity
        self.length = 0
        self.past = Cache(layers=[_BatchedLayer(self) for _ in range(layers)])

    def advance(self, count: int) -> None:
        """Counts the `count` entries just written."""
        self.length += count

    def select_rows(self, rows: Tensor) -> None:
        """Keeps the texts `rows` (ascending indices) and drops the others."""
        for layer in self.past.layers:
            layer.keys, layer.values = layer.keys[rows], layer.values[rows]


class _BatchedLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer of a `BatchedCache`."""

    is_croppable = False
    is_sliding = False

    def __init__(self, owner: BatchedCache) -> None:
        super().__init__()
        self.owner = owner

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        rows, heads, _, head_dim = key_states.shape
        self.keys, self.values = (key_states.new_empty((rows, heads, self.owner.capacity, head_dim)) for _ in range(2))
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, end = self.owner.length, self.owner.length + key_states.shape[2]
        self.keys[:, :, start:end] = key_states
        self.values[:, :, start:end] = value_states
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_seq_length(self) -> int:
        return self.owner.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.owner.length + query_length, 0

    def get_max_length(self) -> int:
        return self.owner.capacity


class RebuiltCache(RunCache):
    """transformers' growing cache, cropped back to the prefix after every round."""

    def __init__(self) -> None:
        self.length = 0
        self.past = DynamicCache()

    def keep(self, path: Sequence[int]) -> Sequence[int]:
        self.past.crop(self.length - self.past.get_seq_length())
        return path


def free_memory(device: torch.device) -> None:
    """Hands cached blocks of a finished run back to the device."""
    if device.type == "cuda":
        torch.cuda.empty_cache()

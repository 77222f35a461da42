"""EAGLE-3 (arXiv 2503.01840): drafts layer by layer from the target's fused hidden states and its own.

An entry of the drafter stands for a token and holds what came before it: the entry of token t[i + 1] reads hidden
state i and stands at position i. Once the target has read a token its hidden state is the target's, so a commit drops
every entry of the round but the root's and feeds the committed tokens again with the target's features, in the one
forward pass that also evaluates the next root. Below the root each node reads the recurrent state of its parent.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from decoding.drafters.base import Observation
from decoding.drafters.checkpoint import checkpoint_folder, fill_module, tensor_shapes
from decoding.drafters.eagle3_config import Eagle3Config
from decoding.drafters.eagle3_model import Eagle3Model
from decoding.drafters.fitting import Fitting
from decoding.drafters.host_eagle3 import host_eagle3
from decoding.drafters.network import Embed, Rotation, rotation, unscaled
from decoding.drafters.stepwise_model import StepwiseModel
from decoding.drafters.target_states import tapped
from decoding.errors import UnsupportedModel
from decoding.kv_cache import free_memory
from decoding.layout import Layout, chain_layout, nodes_layout
from decoding.target import PREFILL_CHUNK, memory_guard
from decoding.types import Ints

EMBEDDING = "embed_tokens.weight"
FULL_ATTENTION = (None,)


class Eagle3Drafter(StepwiseModel):
    """A loaded EAGLE-3 drafter. Between `begin` and `end` it holds the run's keys and values on the device."""

    def __init__(self, model: Eagle3Model, embed: Embed, target_layers: int, name: str) -> None:
        """`embed` gives the rows of the target's embedding; a model with an `embed_tokens` of its own uses that."""
        self.model = model
        self.config = model.config
        self.name = name
        self.vocab_size = self.config.vocab
        self.taps = self.config.taps(target_layers)
        self.max_context = self.config.max_context
        self._embed = embed if model.embed_tokens is None else model.embed_tokens
        weight = model.fc.weight
        self._dtype, self._device = weight.dtype, weight.device
        self._host = host_eagle3(model)
        every = torch.arange(self.config.draft_vocab, device=self._device)
        self.draft_tokens = model.target_ids(every).int().cpu().numpy()
        self.begin(0)

    @property
    def runs_on_kernels(self) -> bool:
        return self._host is not None

    @torch.inference_mode()
    def begin(self, capacity: int) -> None:
        self._room = min(capacity, self.max_context)
        """Positions that an entry can stand at."""
        self._slab = self._new_slab(capacity)
        """Keys and values `[2, kv_heads, entries, head_dim]`: the committed entries, then those of the round."""
        self._rotation = rotation(self.config, self._room, self._dtype, self._device)
        self._length = 0
        """Committed entries. Those of the round in flight stand behind, in the order of its nodes."""
        self._waiting: list[int] = []
        """Committed tokens whose hidden state no entry has read yet."""
        self._hidden = torch.empty((0, self.config.hidden), dtype=self._dtype, device=self._device)
        """`[waiting, hidden]` their fused hidden states."""
        self._full = False
        """Whether the text has outgrown the drafter's own context."""
        self._forget_round()

    def _new_slab(self, entries: int) -> Tensor:
        shape = (2, self.config.kv_heads, entries, self.config.head_dim)
        return torch.empty(shape, dtype=self._dtype, device=self._device)

    def _forget_round(self) -> None:
        self._token: Ints = np.zeros(0, np.int32)
        self._depth: Ints = np.zeros(0, np.int32)
        self._seen: NDArray[np.bool_] = np.zeros((0, 0), np.bool_)  # [nodes, nodes]: ancestors and self
        self._state = self._hidden[:0]
        """`[nodes, hidden]` recurrent states."""

    def end(self) -> None:
        self.begin(0)
        free_memory(self._device)

    @torch.inference_mode()
    def observe(self, observation: Observation) -> None:
        """Takes the features of the committed tokens and drops the round's entries; a prompt is evaluated here.

        Raises Incompatible for features of another width.
        """
        tokens = observation.tokens.tolist()
        fused = self._fused(observation.features, len(tokens))
        if len(self._token) and tokens[:1] == self._token[:1].tolist():
            self._length += 1  # the root's entry read the target's own features: it stays
            self._waiting, self._hidden = [], self._hidden[:0]
        self._forget_round()
        self._full = self._full or self._length + len(self._waiting) + len(tokens) > self._room
        if self._full:
            self._waiting, self._hidden = [], self._hidden[:0]
            return
        self._waiting += tokens
        self._hidden = torch.cat([self._hidden, fused])
        if self._length == 0:
            self._prefill(keep=1)

    @torch.inference_mode()
    def _start(self, root: int) -> Tensor | None:
        """Logits `[1, draft_vocab]` below the root; None where the drafter's own context is full."""
        self._forget_round()
        if self._full or not self._waiting:
            return None
        self._prefill(keep=PREFILL_CHUNK)
        tokens = np.array([*self._waiting[1:], root], np.int32)
        state = self._forward(self._chain(tokens), self._hidden, self._length)[-1:]
        self._length += len(tokens) - 1
        self._waiting, self._hidden = self._waiting[-1:], self._hidden[-1:]
        self._add_nodes(tokens[-1:], np.ones((1, 1), np.bool_), np.zeros(1, np.int32), state)
        return self.model.logits(state).float()

    @torch.inference_mode()
    def _expand(self, tokens: Ints, parents: Ints) -> Tensor | None:
        """Logits `[nodes, draft_vocab]` below the new nodes; None as in `_start`."""
        depth = self._depth[parents] + 1
        if self._length + int(depth.max()) >= self._room:
            return None
        visible = np.concatenate([self._seen[parents], np.eye(len(tokens), dtype=np.bool_)], axis=1)
        layout = nodes_layout(
            tokens, depth, visible, self._length, FULL_ATTENTION, self._device, self._dtype, earlier_depth=self._depth
        )
        above = torch.from_numpy(parents.astype(np.int64)).to(self._device)
        state = self._forward(layout, self._state.index_select(0, above), self._length + len(self._token))
        self._add_nodes(tokens, visible, depth, state)
        return self.model.logits(state).float()

    def _fused(self, features: Tensor | None, rows: int) -> Tensor:
        features = tapped(self, features, rows, self.config.target_hidden)
        return self.model.fuse(features.to(self._device, self._dtype))

    def _add_nodes(self, tokens: Ints, visible: NDArray[np.bool_], depth: Ints, state: Tensor) -> None:
        self._token = np.concatenate([self._token, tokens])
        self._depth = np.concatenate([self._depth, depth])
        self._seen = np.concatenate([np.pad(self._seen, ((0, 0), (0, len(tokens)))), visible])
        self._state = torch.cat([self._state, state])

    def _prefill(self, keep: int) -> None:
        """Evaluates committed tokens in chunks until at most `keep` hidden states wait (at least the last one)."""
        while len(self._waiting) > keep:
            count = min(PREFILL_CHUNK, len(self._waiting) - keep)
            tokens = np.array(self._waiting[1 : count + 1], np.int32)
            self._forward(self._chain(tokens), self._hidden[:count], self._length)
            self._length += count
            self._waiting, self._hidden = self._waiting[count:], self._hidden[count:]

    def _chain(self, tokens: Ints) -> Layout:
        return chain_layout(tokens, self._length, FULL_ATTENTION, self._device, self._dtype)

    def _forward(self, layout: Layout, hidden: Tensor, behind: int) -> Tensor:
        """Recurrent states `[rows, hidden]`; the entries are written behind the first `behind` of the slab."""
        rows = len(hidden)
        mask = layout.masks[None][0, 0] if layout.masks is not None else None
        with memory_guard("the drafter"):
            if behind + rows > self._slab.shape[2]:
                grown = self._new_slab(behind + rows + self._slab.shape[2] // 4)
                grown[:, :, :behind] = self._slab[:, :, :behind]
                self._slab = grown
            embedded = self._embed(layout.input_ids[0]).to(self._dtype)
            rotation = self._rotation[layout.position_ids[0]]
            if self._host is not None:
                return self._host.run(embedded, hidden, rotation, self._slab, behind, mask)
            return self._forward_torch(embedded, hidden, rotation, behind, mask)

    def _forward_torch(
        self, embedded: Tensor, hidden: Tensor, rotation: Rotation, behind: int, mask: Tensor | None
    ) -> Tensor:
        rows = len(hidden)
        if mask is None and rows > 1:
            mask = torch.ones((rows, rows), dtype=torch.bool, device=self._device).tril()

        def remember(keys_values: Tensor) -> Tensor:
            self._slab[:, :, behind : behind + rows] = keys_values
            return self._slab[:, :, : behind + rows]

        state: Tensor = self.model(embedded, hidden, remember, rotation, mask)
        return state


def load_eagle3(
    source: str | Path, fitting: Fitting, target_embedding: Embed, *, name: str | None = None
) -> Eagle3Drafter:
    """Loads a published EAGLE-3 checkpoint from a folder or a Hub id.

    `target_embedding` is the target's own module or a plain callable (see `Embed`). A checkpoint's own embedding is
    used where it has one that differs. No code of the checkpoint runs. Raises ModelUnavailable (nothing there,
    unreadable), UnsupportedModel (a config or tensors that are not implemented) or Incompatible (made for another
    target).
    """
    folder = checkpoint_folder(source)
    config = Eagle3Config.from_folder(folder)
    config.check_target(fitting.hidden, fitting.layers, fitting.vocab)
    own_embedding = EMBEDDING in {module_name(published) for published in tensor_shapes(folder)}
    if not own_embedding and config.hidden != fitting.hidden:
        raise UnsupportedModel(
            f"{folder} has no {EMBEDDING}, and its hidden size {config.hidden} is not the target's {fitting.hidden}.",
            "Use a checkpoint that brings its embedding.",
        )
    with torch.device("meta"):
        model = Eagle3Model(config, own_embedding)
    optional = {"t2d": torch.ones(config.vocab, dtype=torch.bool)}
    if config.draft_vocab == config.vocab:
        optional["d2t"] = torch.zeros(config.vocab, dtype=torch.int64)
    fill_module(model, folder, fitting.dtype, fitting.device, module_name, optional)
    _settle_mapping(model, folder)
    if model.embed_tokens is not None and isinstance(target_embedding, nn.Embedding):
        theirs = target_embedding.weight
        if theirs.shape == model.embed_tokens.weight.shape and torch.equal(theirs, model.embed_tokens.weight):
            model.embed_tokens = None  # the target's, as published: one copy is enough
    return Eagle3Drafter(model, unscaled(target_embedding), fitting.layers, name or Path(source).name)


def module_name(published: str) -> str | None:
    """What a tensor of a checkpoint is called in `Eagle3Model`; None for one that is computed anyway."""
    if published.endswith("rotary_emb.inv_freq"):
        return None
    name = published.removeprefix("model.")
    return "midlayer." + name.removeprefix("layers.0.") if name.startswith("layers.0.") else name


def _settle_mapping(model: Eagle3Model, folder: Path) -> None:
    """Makes t2d say what d2t says; raises UnsupportedModel where that does not lead every draft token to a target
    token of its own."""
    config = model.config
    ids = model.target_ids(torch.arange(config.draft_vocab, device=model.d2t.device))
    if int(ids.min()) < 0 or int(ids.max()) >= config.vocab or len(ids.unique()) < len(ids):
        raise UnsupportedModel(
            f"d2t in {folder} does not map its {config.draft_vocab} draft tokens to different ids below "
            f"{config.vocab}.",
            "Fetch the checkpoint again; d2t must hold offsets (target id minus draft id).",
        )
    model.t2d = torch.zeros_like(model.t2d).index_fill_(0, ids, True)

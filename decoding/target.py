"""Any Hugging Face causal LM as a target: prefill, score a whole tree in one forward pass, commit a path."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from decoding.drafters.base import no_next
from decoding.errors import OutOfMemory, UnsupportedModel
from decoding.exhaustion import is_out_of_memory
from decoding.few_rows import FewRowsLinear
from decoding.host_body import host_body
from decoding.kernel_linear import KernelLinear
from decoding.kv_cache import PreallocatedCache, RunCache, attention_windows, free_memory, make_cache
from decoding.large_pages import gather
from decoding.layout import Layout, chain_layout, tree_layout
from decoding.scores import TreeScores
from decoding.topk import top_k
from decoding.tree_mask import TreeMask
from decoding.types import Ints, Tree

PREFILL_CHUNK = 512


@contextmanager
def memory_guard(doing: str) -> Iterator[None]:
    """Turns a failed allocation into an OutOfMemory that says what was being done."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            f"There is not enough memory for {doing}.",
            "Use a shorter prompt, fewer new tokens, a smaller budget or a smaller model.",
        ) from None


@dataclass(frozen=True, eq=False)
class Prefill:
    """What the target said of the prompt."""

    logits: Tensor
    """Float32 `[vocab]` after the last prompt token."""
    features: Tensor | None
    """`[prompt, taps * hidden]`, None without taps."""
    next_tokens: Ints
    """`[prompt, k]` the most likely next tokens after each prompt token; no columns where none were asked for."""


class Target:
    """A causal LM wrapped for tree decoding; holds no state of a run (see `TargetContext`)."""

    def __init__(self, model: Any, tokenizer: Any, name: str) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        config = model.config.get_text_config(decoder=True)
        self.windows = attention_windows(model.config)
        self.layers: int = config.num_hidden_layers
        self.hidden_size: int = config.hidden_size
        heads: int = config.num_attention_heads
        self.head_dim: int = getattr(config, "head_dim", None) or self.hidden_size // heads
        self.max_context: int = config.max_position_embeddings
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.body = model.base_model
        self._output = model.get_output_embeddings()
        self.embed = model.get_input_embeddings()
        if self._output is None or self.body is model:
            raise UnsupportedModel(
                f"{name} ({config.model_type}) has no language-model head of its own.",
                "Choose a model made for text generation (a causal LM).",
            )
        self.vocab_size: int = self._output.weight.shape[0]
        self._softcap: float | None = getattr(config, "final_logit_softcapping", None)
        self._check_head()
        self._host_body = host_body(model) if set(self.windows) == {None} else None
        if self._host_body is not None:
            self._output = KernelLinear(self._output)  # a row's logits, too, have the same bits in any tree

    @property
    def runs_on_kernels(self) -> bool:
        """Whether this project's kernels run the layers, instead of transformers."""
        return self._host_body is not None

    @property
    def head(self) -> Callable[[Tensor], Tensor]:
        """Gives the logits `[rows, vocab]` of final hidden states `[rows, hidden]`."""
        return self._capped(self._output)

    @torch.no_grad()
    def head_over(self, ids: Tensor) -> Callable[[Tensor], Tensor]:
        """A head for the tokens `ids` `[kept]` alone: `[rows, hidden]` to logits `[rows, kept]`.

        It serves drafts, which need not be exact: on kernels its weights are rounded to bfloat16.
        """
        part = nn.Linear(self.hidden_size, len(ids), bias=self._output.bias is not None, device="meta")
        part.weight = nn.Parameter(self._output.weight[ids], requires_grad=False)
        if self._output.bias is not None:
            part.bias = nn.Parameter(self._output.bias[ids], requires_grad=False)
        product: nn.Linear = part
        if isinstance(self._output, KernelLinear):
            gather(part, narrow=True)
            product = KernelLinear(part)
        elif isinstance(self._output, FewRowsLinear):
            product = FewRowsLinear(part, self._output.turned)
        return self._capped(product)

    def _capped(self, product: nn.Module) -> Callable[[Tensor], Tensor]:
        cap = self._softcap
        return product if cap is None else lambda hidden: torch.tanh(product(hidden) / cap) * cap

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Token ids that end a text."""
        ids = self.model.generation_config.eos_token_id
        if ids is None:
            ids = self.tokenizer.eos_token_id if self.tokenizer is not None else None
        if ids is None:
            return ()
        return tuple(ids) if isinstance(ids, list | tuple) else (ids,)

    @torch.inference_mode()
    def _check_head(self) -> None:
        """Some models do more than one matrix product after the last layer: find out now, not in a wrong token."""
        ids = torch.arange(4, device=self.device)[None] % self.vocab_size
        whole = self.model(input_ids=ids, use_cache=False).logits[0].float()
        parts = self.head(self.body(input_ids=ids, use_cache=False).last_hidden_state[0]).float()
        scale = float(whole.nan_to_num().abs().max())  # a model that gives NaN is told of when it decodes
        if not torch.allclose(whole, parts, rtol=1e-3, atol=1e-3 * scale, equal_nan=True):
            raise UnsupportedModel(
                f"{self.name} ({self.model.config.model_type}) changes its logits after the language-model head.",
                "Only a soft cap is known here; choose another model.",
            )

    def open(
        self, committed: int, nodes: int, taps: Sequence[int] = (), cache: str = "preallocated"
    ) -> "TargetContext":
        """A fresh run with room for `committed` positions and trees of `nodes` behind them (the root counted).

        The hidden states `taps` are kept for the drafter.
        """
        mask = TreeMask(nodes, committed + nodes, self.dtype, self.device)
        return TargetContext(self, make_cache(cache, committed + nodes, self.layers), mask, tuple(taps))

    @torch.inference_mode()
    def forward(self, layout: Layout, cache: RunCache, taps: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
        """Final hidden states `[nodes, hidden]` and features `[nodes, taps * hidden]` of one forward pass."""
        if self._host_body is not None and isinstance(cache, PreallocatedCache):
            return self._host_body.forward(layout, cache, taps)
        masks: Any = None
        if layout.masks is not None:
            masks = layout.masks[self.windows[0]]
            if len(set(self.windows)) > 1:
                by_type = dict(
                    zip(self.model.config.get_text_config(decoder=True).layer_types, self.windows, strict=True)
                )
                masks = {kind: layout.masks[window] for kind, window in by_type.items()}
        output = self.body(
            input_ids=layout.input_ids,
            position_ids=layout.position_ids,
            attention_mask=masks,
            past_key_values=cache.past,
            use_cache=True,
            output_hidden_states=list(taps) if taps else False,
        )
        features = torch.cat([output.hidden_states[i][0] for i in taps], dim=-1) if taps else None
        return output.last_hidden_state[0], features


class TargetContext:
    """The target's side of one run: the committed text in its cache."""

    def __init__(self, target: Target, cache: RunCache, mask: TreeMask, taps: tuple[int, ...]) -> None:
        self.target = target
        self.cache = cache
        self.mask = mask
        self.taps = taps
        self._features: Tensor | None = None

    @property
    def length(self) -> int:
        """Committed positions."""
        return self.cache.length

    @torch.inference_mode()
    def prefill(self, prompt: Sequence[int], next_k: int = 0) -> Prefill:
        """Commits the prompt, in chunks; `next_k` most likely next tokens are kept for every position."""
        target = self.target
        tokens = np.asarray(prompt, np.int32)
        features: list[Tensor] = []
        next_tokens: list[Ints] = []
        hidden = torch.empty(0)
        with memory_guard(f"a prompt of {len(prompt)} tokens"):
            for start in range(0, len(tokens), PREFILL_CHUNK):
                chunk = tokens[start : start + PREFILL_CHUNK]
                layout = chain_layout(chunk, self.length, target.windows, target.device, target.dtype)
                hidden, tapped = target.forward(layout, self.cache, self.taps)
                self.cache.advance(len(chunk))
                if tapped is not None:
                    features.append(tapped)
                if next_k:
                    next_tokens.append(self._next_tokens(hidden, next_k))
            logits = target.head(hidden[-1:])[0].float()
        return Prefill(
            logits,
            torch.cat(features) if features else None,
            np.concatenate(next_tokens) if next_tokens else no_next(len(tokens)),
        )

    def _next_tokens(self, hidden: Tensor, k: int, rows: int = 64) -> Ints:
        pieces = [top_k(self.target.head(part).float(), k)[1] for part in hidden.split(rows)]
        return torch.cat(pieces).to(torch.int32).cpu().numpy()

    def compile(self, tree: Tree) -> Layout:
        """The inputs of the forward pass over `tree`, on the device."""
        with memory_guard(f"a tree of {len(tree)} nodes"):
            return tree_layout(tree, self.length, self.target.windows, self.mask)

    @torch.inference_mode()
    def score(self, layout: Layout) -> TreeScores:
        """Runs the target over a compiled tree; nothing is committed yet."""
        with memory_guard("the forward pass over the tree"):
            hidden, self._features = self.target.forward(layout, self.cache, self.taps)
        return TreeScores(hidden, self.target.head, self.target.vocab_size)

    @torch.inference_mode()
    def commit(self, tree: Tree, path: Ints) -> Tensor | None:
        """Keeps the accepted `path`, drops the rest; features `[path, taps * hidden]` of what was committed."""
        target = self.target
        missing = list(self.cache.keep(path.tolist()))
        if missing:
            layout = chain_layout(tree.token[missing], self.length, target.windows, target.device, target.dtype)
            target.forward(layout, self.cache, ())
            self.cache.advance(len(missing))
        if self._features is None:
            return None
        if len(path) == int(path[-1]) + 1:
            return self._features[: len(path)]
        # Not by subscript: on a CPU that starts torch's threads, which then stand in the way of the kernels'.
        return self._features.index_select(0, torch.from_numpy(path.astype(np.int64)).to(self._features.device))

    def close(self) -> None:
        """Frees the cache."""
        self._features = None
        self.cache = make_cache("rebuild", 0, 0)
        self.mask = TreeMask(0, 0, self.target.dtype, self.target.device)
        free_memory(self.target.device)

"""DFlash (arXiv 2602.06036), section 3: drafts a whole block in one pass of a small block-diffusion model.

Each round the target's hidden states of what was committed become context (fc, hidden_norm, then keys and values per
layer); [root, MASK, MASK, ...] is denoised once over that context, and the target's own head turns rows 1 on into the
distributions of the next tokens. Context positions are 0 to n - 1, the root stands at n.
"""

from pathlib import Path

import torch
from torch import Tensor

from decoding.drafters.base import Distributions, Observation, OnePassDrafter
from decoding.drafters.block_diffusion_config import BlockDiffusionConfig
from decoding.drafters.block_diffusion_model import BlockDiffusionModel, block_mask
from decoding.drafters.checkpoint import checkpoint_folder, fill_module
from decoding.drafters.draft_tokens import HeadOver, read_draft_tokens
from decoding.drafters.fitting import Fitting
from decoding.drafters.host_block import Draft, HostBlock, HostDrafts, host_block
from decoding.drafters.network import Embed, Head, Rotation, rotation, unscaled
from decoding.drafters.sequential_head import SequentialTables, read_sequential_head
from decoding.drafters.target_states import tapped
from decoding.errors import BadRequest
from decoding.kernels.sequel import NO_SEQUEL, Sequel
from decoding.marginals import marginals_of
from decoding.sampling import LEAST_TEMPERATURE, Sampling, probabilities
from decoding.topk import likeliest, likeliest_of
from decoding.types import Marginals


class BlockDiffusionDrafter(OnePassDrafter):
    """A loaded DFlash drafter. Between `begin` and `end` it holds the run's context cache on the device."""

    def __init__(
        self,
        model: BlockDiffusionModel,
        embed: Embed,
        head: Head,
        vocab_size: int,
        name: str,
        draft_tokens: Tensor | None = None,
        sequential: SequentialTables | None = None,
    ) -> None:
        """`draft_tokens` are the ids `[kept]` that the columns of `head` stand for; None where it is a whole head.
        `sequential` is the head that stands beside the checkpoint, if there is one."""
        self.model = model
        self.config = model.config
        self.name = name
        self.vocab_size = vocab_size
        self.taps = self.config.taps
        self.positions = self.config.block_size - 1
        self._embed = embed
        self._head = head
        self._sequential = sequential
        self.draft_tokens = None if draft_tokens is None else draft_tokens.to(torch.int32).numpy()
        weight = model.fc.weight
        self._dtype, self._device = weight.dtype, weight.device
        self._block_ids = torch.full(
            (self.config.block_size,), self.config.mask_token_id, dtype=torch.int64, device=self._device
        )
        self._host = host_block(model, head)
        self._run: _Run | None = None
        if self._host is not None:  # compiles what a draft needs
            self.begin(0)
            self.logits(self.config.mask_token_id)
            self.end()

    @property
    def runs_on_kernels(self) -> bool:
        return self._host is not None

    @torch.inference_mode()
    def begin(self, capacity: int) -> None:
        """Allocates the context of at most `capacity` positions, with room for one block behind it."""
        self.end()
        self._run = _Run(self.config, capacity, self._dtype, self._device, self._host)

    @torch.inference_mode()
    def observe(self, observation: Observation) -> None:
        """Keeps what the context of the committed tokens is made of until a draft needs it: one pass over the tokens of
        several rounds takes hardly longer than over those of one, and a run that ends makes none.

        Raises Incompatible for features of another width and BadRequest beyond the capacity given to `begin`.
        """
        run = self._started()
        rows = len(observation.tokens)
        if rows == 0:
            return
        features = tapped(self, observation.features, rows, self.config.hidden)
        length = run.length + sum(map(len, run.heard)) + rows
        if length > run.capacity:
            raise BadRequest(
                f"The context of {length} tokens does not fit into {run.capacity} positions.",
                "Shorten the prompt or ask for fewer new tokens.",
            )
        run.heard.append(features.to(self._device, self._dtype, copy=True))

    @torch.inference_mode()
    def marginals(self, root: int, k: int) -> Marginals:
        """The top `min(k, vocab)` of each of the `positions` after the root; the block leaves no trace."""
        drafts = self._started().drafts
        if drafts is None:
            return marginals_of(likeliest(self.logits(root), k), self.draft_tokens)
        return marginals_of(likeliest_of(self._draft_on_host(drafts, root, k).found), self.draft_tokens)

    def sequel(self) -> Sequel:
        run = self._started()
        if self._sequential is None or run.states is None:
            return NO_SEQUEL
        return self._sequential.sequel(run.states)

    @torch.inference_mode()
    def logits(self, root: int) -> Tensor:
        """Float32 logits `[positions, kept]` of the draft tokens on the device, after the config's multiplier and soft
        cap."""
        run, config = self._started(), self.config
        if run.drafts is not None:
            return self._draft_on_host(run.drafts, root, 1).logits.clone()
        self._remember(run)
        embedded, block = self._block(root)
        rotation = run.rotation[run.length : run.length + config.block_size]
        hidden = self.model(block, run.cache, run.length, rotation, run.masks)
        run.states = hidden[1:]
        logits = self._head(run.states.to(embedded.dtype)).float()
        if config.output_multiplier != 1.0:
            logits = logits * config.output_multiplier
        if config.logit_softcap is not None:
            logits = torch.tanh(logits / config.logit_softcap) * config.logit_softcap
        return logits

    @torch.inference_mode()
    def distributions(self, root: int, k: int, sampling: Sampling) -> Distributions:
        drafts = self._started().drafts
        if drafts is None:
            return super().distributions(root, k, sampling)
        temperature = max(sampling.temperature, LEAST_TEMPERATURE) if sampling.whole else 0.0
        draft = self._draft_on_host(drafts, root, k, temperature)
        best = likeliest_of(draft.found)
        if sampling.whole:
            return Distributions(draft.logits, best, draft.probs, draft.mass)
        return Distributions(draft.logits, best, probabilities(draft.logits, sampling))

    def _block(self, root: int) -> tuple[Tensor, Tensor]:
        """Embeddings `[block, hidden]` of the root and the masks behind it: the target's, and what the model reads."""
        self._block_ids[0] = root
        embedded = self._embed(self._block_ids)
        block = embedded.to(self._dtype)
        return embedded, block if self.config.embedding_scale == 1.0 else block * self.config.embedding_scale

    def _draft_on_host(self, drafts: HostDrafts, root: int, k: int, temperature: float = 0.0) -> Draft:
        run = self._started()
        features, past = run.take_heard(), run.length
        run.length += len(features)
        draft = drafts.draft(features, self._block(root)[1], past, k, temperature)
        run.states = draft.states
        return draft

    def _remember(self, run: "_Run") -> None:
        """Appends the context of all that was observed since the last draft."""
        features = run.take_heard()
        end = run.length + len(features)
        if len(features):
            self.model.remember(features, run.cache, run.length, run.rotation[run.length : end])
            run.length = end

    def end(self) -> None:
        """Frees the context."""
        self._run = None

    def _started(self) -> "_Run":
        if self._run is None:
            raise RuntimeError("begin() comes first")
        return self._run


class _Run:
    """What one run holds on the device; everything is allocated here, once."""

    def __init__(
        self,
        config: BlockDiffusionConfig,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
        host: HostBlock | None,
    ) -> None:
        block = config.block_size
        room = capacity + block
        self.capacity = capacity
        self.length = 0
        """Context positions so far."""
        self.heard: list[Tensor] = []
        """Features `[rows, taps * hidden]` of positions after these."""
        self.states: Tensor | None = None
        """Final states `[positions, hidden]` of the last draft."""
        self._nothing = torch.empty((0, len(config.taps) * config.hidden), dtype=dtype, device=device)
        self.slabs = torch.empty((2, config.layers, config.kv_heads, room, config.head_dim), dtype=dtype, device=device)
        """Context keys and values; the current block's stand behind them until the next round."""
        self.cache = self.slabs.transpose(0, 1)
        self.rotation: Rotation = rotation(config, room, dtype, device)
        self.drafts = HostDrafts(host, self.slabs, self.rotation, block) if host is not None else None
        kinds = {
            (window, causal): block_mask(window, causal, block, min(window or room, capacity + 1) - 1 + block, device)
            for window, causal in zip(config.windows, config.causal, strict=True)
        }
        self.masks = [kinds[kind] for kind in zip(config.windows, config.causal, strict=True)]

    def take_heard(self) -> Tensor:
        """Features `[rows, taps * hidden]` of all that was observed since the last draft."""
        heard, self.heard = self.heard, []
        return torch.cat(heard) if heard else self._nothing


def load_block_diffusion(
    source: str | Path,
    fitting: Fitting,
    target_embedding: Embed,
    target_head: Head,
    *,
    name: str | None = None,
    head_over: HeadOver | None = None,
) -> BlockDiffusionDrafter:
    """Loads a published DFlash checkpoint from a folder or a Hub id.

    `target_embedding` and `target_head` are the target's own modules or plain callables (see `Embed` and `Head`; an
    `nn.Embedding` subclass that scales is read without its scale, as the published code does). With `head_over` a
    checkpoint may name the tokens that it drafts with (see `draft_tokens`). No code of the
    checkpoint runs. Raises ModelUnavailable (nothing there, unreadable), UnsupportedModel (a config or tensors that
    are not implemented) or Incompatible (made for another target).
    """
    folder = checkpoint_folder(source)
    config = BlockDiffusionConfig.from_folder(folder)
    config.check_target(fitting.hidden, fitting.layers, fitting.vocab)
    with torch.device("meta"):
        model = BlockDiffusionModel(config)
    fill_module(model, folder, fitting.dtype, fitting.device)
    embed = unscaled(target_embedding)
    name = name or Path(source).name
    tokens = read_draft_tokens(folder, fitting.vocab) if head_over is not None else None
    head = target_head if head_over is None or tokens is None else head_over(tokens)
    sequential = read_sequential_head(folder, config.hidden, config.block_size - 1)
    tables = None
    if sequential is not None:
        tables = SequentialTables(sequential.to(fitting.device), embed, target_head, fitting.vocab)
    return BlockDiffusionDrafter(model, embed, head, fitting.vocab, name, tokens, tables)

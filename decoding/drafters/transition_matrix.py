"""The token-transition matrix of Token Recycling (section 3) and Graft (section 3.2, Appendix A).

Row x of the matrix M holds the target's most likely tokens after x, as it saw them last:
M[x] <- argtopk p(next | ... x) for every verified node, rejected ones too (Graft, Equation 14), and for every
position of the prompt. A draft follows it from token to token: x_child = M[x_parent, rank] (Equation 15).
The matrix lies on the device, with a copy on the host for what plans node by node, and is kept from run to run.
"""

from collections.abc import Callable
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from decoding.drafters.base import Candidates, Filled, Observation, StepwiseDrafter
from decoding.errors import BadRequest, Incompatible
from decoding.files import write_atomically
from decoding.kernels.matrix import write_rows
from decoding.template import CHOICES, Template
from decoding.types import Ints, Source

Steps = list[tuple[slice, Tensor, Tensor]]


class TransitionMatrix(StepwiseDrafter):
    """Looks up successors: one gather and one copy to the host for a frontier, or for a whole template."""

    name = "transition-matrix"
    source = Source.RETRIEVAL
    gives_logprobs = False
    wants_prompt_next = CHOICES

    def __init__(self, vocab_size: int, device: torch.device | str = "cpu") -> None:
        self.vocab_size = vocab_size
        # One row more than there are tokens, never written: a missing token is -1, and row -1 says that nothing
        # follows it. So whole templates are filled without a look at what is missing.
        self._successors = torch.full((vocab_size + 1, CHOICES), -1, dtype=torch.int32, device=device)
        self._loaded: Tensor | None = None
        self._steps: WeakKeyDictionary[Template, Steps] = WeakKeyDictionary()
        self._aside = torch.cuda.Stream(self._successors.device) if self._successors.is_cuda else None
        self._on_host = self._successors.cpu().numpy()  # the same memory where the matrix lies on the host

    @property
    def matrix(self) -> Tensor:
        """`[vocab, 8]` int32 on the device, best successor first; -1 where none was seen."""
        return self._successors[:-1]

    def begin(self, capacity: int) -> None:
        """A new run; what was learnt in earlier ones is kept (see `clear`)."""

    def clear(self) -> None:
        """Forgets what was learnt since the matrix was made or loaded."""
        if self._loaded is None:
            self._successors.fill_(-1)
        else:
            self.matrix.copy_(self._loaded)
        self._on_host[:] = self._successors.cpu().numpy()

    def successors(self) -> Ints:
        return self._on_host

    def observe(self, observation: Observation) -> None:
        """Overwrites the row of every token the target looked at; of a token's several rows the last one wins."""
        seen, following = observation.seen_token, observation.seen_next
        if not following.size:
            return
        if self._aside is not None:
            torch.cuda.current_stream(self._successors.device).wait_stream(
                self._aside
            )  # a look-up that nobody waited for
        write_rows(self._on_host, seen, following)
        if self._successors.is_cuda:  # of a token's several rows all are alike by now, so their order does not matter
            packed = np.column_stack([seen, self._on_host[seen]])
            rows = torch.from_numpy(packed).to(self._successors.device)
            self._successors[rows[:, 0].long()] = rows[:, 1:]

    def start(self, root: int, k: int) -> Candidates:
        return self._look_up(np.array([root]), k)

    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        return self._look_up(tokens, k)

    def _look_up(self, tokens: Ints, k: int) -> Candidates:
        index = torch.from_numpy(tokens.astype(np.int64)).to(self._successors.device)
        token = np.full((len(tokens), k), -1, np.int32)
        token[:, :CHOICES] = self._successors[index, :k].cpu().numpy()
        return Candidates(token, np.full(token.shape, np.nan, np.float32))

    def look_up(self, given: Ints, template: Template) -> Filled:
        """A gather for each depth on the device, then one copy to the host for the whole template."""
        return self._filled(self._gather(given, template).cpu())

    def look_up_soon(self, given: Ints, template: Template) -> Callable[[], Filled]:
        """On CUDA the gathers run on a stream of their own, beside whatever the drafter does (Graft, section 3.2).

        A CPU has no second queue: there they run when they are asked for, after the drafter.
        """
        if self._aside is None:
            return super().look_up_soon(given, template)
        self._steps_of(template)  # made here, on the main stream, from which `look_up` reads it too
        self._aside.wait_stream(torch.cuda.current_stream(self._successors.device))  # for the last update of the matrix
        with torch.cuda.stream(self._aside):
            token = self._gather(given, template)
            host = torch.empty(token.shape, dtype=token.dtype, pin_memory=True)
            host.copy_(token, non_blocking=True)
            done = torch.cuda.Event()
            done.record()

        def finish() -> Filled:
            done.synchronize()
            return self._filled(host)

        return finish

    def _gather(self, given: Ints, template: Template) -> Tensor:
        """The tokens of the template's nodes, `[nodes]` int64 on the device."""
        steps = self._steps_of(template)
        only_root = not bool((given[1:] >= 0).any())
        token = torch.from_numpy(given.astype(np.int64))
        if self._aside is not None:
            token = token.pin_memory().to(self._successors.device, non_blocking=True)
        for level, parent, rank in steps:
            found = self._successors[token[parent], rank].long()
            token[level] = found if only_root else torch.where(token[level] < 0, found, token[level])
        return token

    @staticmethod
    def _filled(token: Tensor) -> Filled:
        return Filled(token.numpy().astype(np.int32), np.full(len(token), np.nan, np.float32))

    def _steps_of(self, template: Template) -> Steps:
        if template not in self._steps:
            if int(template.rank.max()) >= CHOICES:
                raise ValueError(f"the template asks for rank {template.rank.max()}, the matrix keeps {CHOICES}")
            device = self._successors.device
            arrays = [torch.from_numpy(a.astype(np.int64)).to(device) for a in (template.parent, template.rank)]
            self._steps[template] = [(level, arrays[0][level], arrays[1][level]) for level in template.levels]
        return self._steps[template]

    def save(self, path: Path | str) -> None:
        """Writes the matrix as safetensors, one tensor `successors` `[vocab, 8]` int32; in one step."""
        write_atomically(Path(path), save({"successors": self.matrix.cpu().contiguous()}))

    def load(self, path: Path | str) -> None:
        """Replaces the matrix by a saved one.

        Raises BadRequest where the file is none, Incompatible where it was made for another vocabulary.
        """
        try:
            stored = load_file(str(path))["successors"]
        except (OSError, SafetensorError, KeyError) as error:
            raise BadRequest(
                f"{path} is not a transition matrix ({error}).", "Give a file made by TransitionMatrix.save."
            ) from None
        if stored.dtype != torch.int32 or stored.ndim != 2 or stored.shape[1] != CHOICES:
            raise BadRequest(
                f"{path} holds {stored.dtype} {list(stored.shape)}.",
                f"A transition matrix is int32 [vocab, {CHOICES}].",
            )
        if len(stored) != self.vocab_size:
            raise Incompatible(
                f"{path} was made for {len(stored)} tokens, but the vocabulary has {self.vocab_size}.",
                "Choose a matrix made with this target.",
            )
        ordered = stored.sort(dim=1).values
        repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
        if bool(((stored < -1) | (stored >= self.vocab_size)).any()) or bool(repeated.any()):
            raise BadRequest(f"{path} holds token ids that cannot be.", "Make it again with TransitionMatrix.save.")
        self._loaded = stored
        self.clear()

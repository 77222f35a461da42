"""What the target computed for one tree, turned from hidden states into logits a few rows at a time.

The full logits of a large tree (`[1025, 151936]` in float32 is 620 MB) never exist at once: the head runs on chunks
of rows, and everything that anyone asks of a chunk is taken while it is there.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoding.errors import Incompatible, NonFiniteLogits
from decoding.host_rows import new_found, read_into
from decoding.kernels.kinship import by_parent
from decoding.kernels.reading import Asked
from decoding.topk import moments, top_k
from decoding.types import Floats, Ints, Tree, Verdict

TOP = 8
"""How many of the target's most likely tokens are kept for every node."""

_CHUNK_BYTES = {"cpu": 8 << 20}
_CHUNK_BYTES_DEVICE = 512 << 20

Visit = Callable[[int, Tensor], None]
"""Called with the first node of a chunk and its float32 logits `[rows, vocab]`, chunks in rising order."""


@dataclass(frozen=True, eq=False)
class Opinions:
    """What the target thinks of every node, at temperature 1; the fields are those of `Verdict`."""

    choice: Ints
    """`[nodes]` the most likely token after each node: the lowest id on ties, as `argmax` gives it."""
    logprob: Floats
    """`[nodes]` log-probability (nats) of each node's token after its parent; 0 at the root."""
    rank: Ints
    """`[nodes]` 1 + how many tokens have a strictly larger logit, so tied tokens share a rank; 0 at the root."""
    entropy: Floats
    """`[nodes]` entropy (nats) of the distribution after each node."""
    top_token: Ints
    """`[nodes, k]` the k = min(8, vocab) most likely tokens after each node, best first."""
    top_logprob: Floats
    """`[nodes, k]` their log-probabilities (nats)."""

    def verdict(self, path: list[int], drawn: list[int]) -> Verdict:
        """The verdict on `path`, where the target said `drawn[i]` after `path[i]`; the last of them is the bonus."""
        choice = self.choice.copy()
        choice[path] = drawn
        return Verdict(
            path=np.array(path, np.int32),
            bonus=drawn[-1],
            logprob=self.logprob,
            rank=self.rank,
            choice=choice,
            entropy=self.entropy,
            top_token=self.top_token,
            top_logprob=self.top_logprob,
        )


class TreeScores:
    """The target's final hidden states after every node, and the head that makes logits of them."""

    def __init__(
        self,
        hidden: Tensor,
        head: Callable[[Tensor], Tensor],
        vocab: int,
        chunk_bytes: int | None = None,
    ) -> None:
        """`hidden` `[nodes, hidden]` after the final norm; `head` maps `[rows, hidden]` to logits `[rows, vocab]` of
        any float type. `chunk_bytes` bounds the float32 logits that exist at once: by default 8 MB on a CPU, 512 MB
        elsewhere.
        """
        self.hidden = hidden
        self.head = head
        self.vocab = vocab
        self._chunk_bytes = chunk_bytes or _CHUNK_BYTES.get(hidden.device.type, _CHUNK_BYTES_DEVICE)

    @classmethod
    def from_logits(cls, logits: Tensor, chunk_bytes: int | None = None) -> "TreeScores":
        """From whole logits `[nodes, vocab]`: for tests, and for models whose head cannot be split off."""
        return cls(logits, lambda rows: rows, logits.shape[1], chunk_bytes)

    def __len__(self) -> int:
        return len(self.hidden)

    def logits(self, nodes: slice) -> Tensor:
        """Float32 logits `[nodes, vocab]` on the device after each of the nodes; computed anew at every call."""
        return self.head(self.hidden[nodes]).to(torch.float32)

    def opinions(self, tree: Tree, visit: Visit | None = None) -> Opinions:
        """One pass over the chunks and one copy to the host.

        `visit` sees every chunk of logits while it is there and must not change or keep it: a verifier that needs
        the logits themselves walks along, since parents come before their children.

        Raises NonFiniteLogits for NaN or infinite logits, and Incompatible for a drafted token that is not in the
        target's vocabulary.
        """
        if len(tree) != len(self):
            raise ValueError(f"a tree of {len(tree)} nodes was given the scores of {len(self)}")
        with torch.inference_mode():
            if int(tree.token[1:].max(initial=0)) >= self.vocab:
                raise Incompatible(
                    f"The draft holds the token {int(tree.token[1:].max())}, but the target knows only {self.vocab}.",
                    "Choose a drafter that was made for this target's vocabulary.",
                )
            k, device = min(TOP, self.vocab), self.hidden.device
            notes = _HostNotes(tree, k) if device.type == "cpu" else _DeviceNotes(tree, k, device)
            for nodes in self._chunks():
                self._read(nodes, notes, visit)  # a call of its own, so that the chunk is gone before the next comes
            return notes.opinions()

    def _chunks(self) -> Iterator[slice]:
        """Slices of nodes, as even as can be: a last chunk of a few rows would waste a pass over the head."""
        chunks = max(1, -(-len(self) * self.vocab * 4 // self._chunk_bytes))
        rows = -(-len(self) // chunks)
        for start in range(0, len(self), rows):
            yield slice(start, min(start + rows, len(self)))

    def _read(self, nodes: slice, notes: "_Notes", visit: Visit | None) -> None:
        logits = self.logits(nodes)
        notes.take(nodes, logits)
        if visit is not None:
            visit(nodes.start, logits)


class _Notes(ABC):
    """Opinions in the making."""

    def __init__(self, tree: Tree, k: int) -> None:
        self.k = k
        self.start, self.children = by_parent(tree.parent)

    @abstractmethod
    def take(self, nodes: slice, logits: Tensor) -> None:
        """Keeps what is to be kept of the logits `[rows, vocab]` after `nodes`."""

    @abstractmethod
    def opinions(self) -> Opinions:
        """Raises NonFiniteLogits."""


class _HostNotes(_Notes):
    def __init__(self, tree: Tree, k: int) -> None:
        super().__init__(tree, k)
        self.asked = Asked(self.start, self.children, tree.token.copy())
        self.found = new_found(len(tree), k, asked=len(tree))

    def take(self, nodes: slice, logits: Tensor) -> None:
        read_into(self.found, self.asked, logits, nodes.start)

    def opinions(self) -> Opinions:
        found = self.found
        return _finite(
            Opinions(
                choice=found.column[:, 0].copy(),
                logprob=found.asked_logprob,
                rank=found.rank,
                entropy=found.entropy,
                top_token=found.column,
                top_logprob=found.logprob,
            )
        )


class _DeviceNotes(_Notes):
    """One int32 tensor on the device, floats stored by their bits, copied once."""

    def __init__(self, tree: Tree, k: int, device: torch.device) -> None:
        super().__init__(tree, k)
        self.packed = torch.zeros(len(tree), 2 * k + 3, dtype=torch.int32, device=device)
        child = self.children
        numbers = np.stack([child, tree.parent[child], tree.token[child]]).astype(np.int64)
        self.on_device = torch.from_numpy(numbers).to(device)
        """`[3, children]`: node, parent, token."""

    def take(self, nodes: slice, logits: Tensor) -> None:
        k, packed = self.k, self.packed
        child, parent, token = self.on_device[:, self.start[nodes.start] : self.start[nodes.stop]]
        row = parent - nodes.start
        value, top = logits[row, token], top_k(logits, k)
        moment = moments(logits, top.values[:, 0])
        packed[nodes, :k] = top.indices.to(torch.int32)
        packed[nodes, k : 2 * k] = (top.values - moment.normaliser[:, None]).view(torch.int32)
        packed[nodes, 2 * k] = moment.entropy.view(torch.int32)
        packed[child, 2 * k + 1] = (value - moment.normaliser[row]).view(torch.int32)
        packed[child, 2 * k + 2] = _ranks(logits, row, value).to(torch.int32)

    def opinions(self) -> Opinions:
        k = self.k
        host: NDArray[np.int32] = self.packed.cpu().numpy()
        floats = host.view(np.float32)
        found = Opinions(
            choice=host[:, 0],
            top_token=host[:, :k],
            top_logprob=floats[:, k : 2 * k],
            entropy=floats[:, 2 * k],
            logprob=floats[:, 2 * k + 1],
            rank=host[:, 2 * k + 2],
        )
        # Columns of their own, so that a stored verdict does not hold on to strides over the whole array.
        return _finite(replace(found, **{name: np.ascontiguousarray(array) for name, array in vars(found).items()}))


def _ranks(logits: Tensor, row: Tensor, value: Tensor) -> Tensor:
    """1 + the number of logits above each `value` `[children]` in its own row. All children are counted, in blocks:
    asking which need it would make the host wait."""
    step = max(1, _CHUNK_BYTES_DEVICE // 8 // (4 * logits.shape[1]))
    blocks = [slice(start, start + step) for start in range(0, max(1, len(row)), step)]
    return torch.cat([(logits[row[block]] > value[block, None]).sum(1) for block in blocks]) + 1


def _finite(found: Opinions) -> Opinions:
    finite = np.isfinite(found.entropy)
    if not finite.all():
        raise NonFiniteLogits(
            f"The target gave NaN or infinite logits after {int((~finite).sum())} of {len(finite)} nodes.",
            "Try float32 (--dtype float32): half precision can overflow.",
        )
    return found


def require_finite(logits: Tensor) -> None:
    """Raises NonFiniteLogits where a token is to be chosen from NaN or infinite logits."""
    if not bool(torch.isfinite(logits).all()):
        raise NonFiniteLogits(
            "The target gave NaN or infinite logits for the prompt.",
            "Try float32 (--dtype float32): half precision can overflow.",
        )

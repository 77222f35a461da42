"""The few types that everything speaks: Tree, Marginals, Verdict, Round, RunHeader, Summary, Comparison.

All are frozen and check themselves at birth; arrays are numpy, on the host, and read-only.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


class Source(IntEnum):
    """Where a node came from."""

    ROOT = 0
    DRAFT = 1
    RETRIEVAL = 2


def frozen_array(values: ArrayLike, dtype: Any) -> NDArray[Any]:
    """A read-only array of `dtype`; copies only when the input is writable or of another type."""
    array = np.asarray(values, dtype=dtype)
    if array.flags.writeable:
        array = array.copy() if array is values else array
        array.flags.writeable = False
    return array


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


@dataclass(frozen=True, eq=False)
class Tree:
    """A draft tree as a struct of arrays, each `[nodes]`. Node 0 is the root (the bonus token).

    Depth, cumulative log-probability, ancestors and paths are derived (see `decoding.tree`).
    """

    token: Ints
    """Token id of each node; the root holds the last committed token."""
    parent: Ints
    """Index of the parent; -1 for the root, and always smaller than the node's own index."""
    logprob: Floats
    """Edge log-probability (nats) under the drafter; NaN where the source gives none; 0 at the root."""
    source: NDArray[np.uint8]
    """A `Source` for each node."""

    def __post_init__(self) -> None:
        for name, dtype in (("token", np.int32), ("parent", np.int32), ("logprob", np.float32), ("source", np.uint8)):
            object.__setattr__(self, name, frozen_array(getattr(self, name), dtype))
        count = len(self.token)
        _require(count >= 1, "a tree needs at least its root")
        _require(
            all(a.shape == (count,) for a in (self.parent, self.logprob, self.source)),
            "the arrays of a tree must have one length",
        )
        _require(self.parent[0] == -1, "the root's parent must be -1")
        _require(int(self.source[0]) == Source.ROOT, "node 0 must be the root")
        above = self.parent[1:].view(np.uint32)  # a negative number is larger than any index
        _require(bool((above < np.arange(1, count)).all()), "parents must come before their children")
        _require(int(self.token.min()) >= 0, "token ids cannot be negative")
        siblings = self.parent[1:].astype(np.int64) << 32 | self.token[1:]
        siblings.sort()  # ten times faster than np.unique, and a tree is made every round
        _require(bool((siblings[1:] != siblings[:-1]).all()), "two children of one node hold the same token")

    def __len__(self) -> int:
        return len(self.token)

    @property
    def drafted(self) -> int:
        """Number of drafted nodes: all but the root. This is what a node budget counts."""
        return len(self.token) - 1

    @staticmethod
    def root_only(token: int) -> "Tree":
        """The empty draft: only the root, so that a round is one plain decoding step."""
        return Tree(*(np.array([v]) for v in (token, -1, 0.0, Source.ROOT)))


@dataclass(frozen=True, eq=False)
class Marginals:
    """Per-position distributions q_i of a one-pass drafter, kept as their top-k (DDTree, section 3).

    Row i is the distribution of the token i+1 places after the root, sorted from most to least likely.
    """

    token: Ints
    """Token ids `[positions, k]`."""
    logprob: Floats
    """Log-probabilities (nats) `[positions, k]`, normalised over the whole vocabulary."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "token", frozen_array(self.token, np.int32))
        object.__setattr__(self, "logprob", frozen_array(self.logprob, np.float32))
        _require(self.token.ndim == 2 and self.token.shape == self.logprob.shape, "marginals must be [positions, k]")
        # Compared, not subtracted: -inf (an impossible token) may follow -inf.
        ordered = bool((self.logprob[:, 1:] <= self.logprob[:, :-1]).all())
        _require(ordered, "marginals must be sorted, most likely first")


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the target said of a tree. Log-probabilities are the target's own, at temperature 1."""

    path: Ints
    """Accepted nodes from the root down, starting with 0."""
    bonus: int
    """The target's own token after the last accepted node."""
    logprob: Floats
    """`[nodes]` the target's log-probability of each node's token after its parent; 0 at the root."""
    rank: Ints
    """`[nodes]` rank of each node's token in the target's distribution, from 1; 0 at the root."""
    choice: Ints
    """`[nodes]` the token the target chose after each node: the drawn one on the path, else its most likely one."""
    entropy: Floats
    """`[nodes]` entropy (nats) of the target's distribution after each node."""
    top_token: Ints
    """`[nodes, k]` the target's most likely tokens after each node, best first."""
    top_logprob: Floats
    """`[nodes, k]` their log-probabilities."""

    def __post_init__(self) -> None:
        for name, dtype in (
            ("path", np.int32),
            ("logprob", np.float32),
            ("rank", np.int32),
            ("choice", np.int32),
            ("entropy", np.float32),
            ("top_token", np.int32),
            ("top_logprob", np.float32),
        ):
            object.__setattr__(self, name, frozen_array(getattr(self, name), dtype))
        count = len(self.logprob)
        _require(len(self.path) >= 1 and self.path[0] == 0, "an accepted path starts at the root")
        _require(bool((self.path[1:] > self.path[:-1]).all()) and self.path[-1] < count, "a path must go down the tree")
        _require(
            all(len(a) == count for a in (self.rank, self.choice, self.entropy, self.top_token, self.top_logprob)),
            "a verdict must speak of every node",
        )

    @property
    def accepted(self) -> int:
        """Drafted nodes on the accepted path (the root and the bonus are not counted)."""
        return len(self.path) - 1


@dataclass(frozen=True, eq=False)
class Round:
    """One round: draft, verify, commit."""

    index: int
    """From 0."""
    tree: Tree
    verdict: Verdict
    emitted: tuple[int, ...]
    """New tokens of this round: the accepted path and the bonus, cut at the end of the text."""
    emitted_text: tuple[str, ...]
    """What each emitted token added to the text."""
    cache_before: int
    """Committed positions in the target's cache when the round began."""
    cache_after: int
    seconds: dict[str, float]
    """Seconds by stage: draft, build, compile, verify (the target's forward pass), walk, commit, update; with a
    retrieval source also retrieve (what its look-ups add to the round) and refresh (its update)."""
    marginals: Marginals | None = None
    decision: dict[str, Any] = field(default_factory=dict)
    """What the strategy decided and why: JSON values only."""

    @property
    def accepted(self) -> int:
        """Emitted tokens that were drafted: at most the accepted path, less where the text ended inside it."""
        return min(self.verdict.accepted, len(self.emitted))


@dataclass(frozen=True)
class RunHeader:
    """Everything needed to say what a run was, and to run it again."""

    target: str
    drafter: str
    """Drafter id, or `none`."""
    strategy: str
    settings: dict[str, Any]
    verifier: str
    prompt: str
    """The text as the user gave it."""
    prompt_ids: tuple[int, ...]
    """After the chat template, as the target saw it."""
    tokenizer: str
    max_new_tokens: int
    temperature: float
    top_p: float
    top_k: int
    seed: int
    dtype: str
    device: str
    cache: str
    """`preallocated` or `rebuild`."""
    end_ids: tuple[int, ...]
    """Token ids that end the text."""
    first_token: int
    """The first new token: it comes from the prefill and is the root of round 0."""
    first_text: str
    prefill_seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    git_commit: str = ""
    created: str = ""
    """UTC, ISO 8601."""
    retrieval: str = "none"
    """The retrieval source beside the drafter, or `none`."""


@dataclass(frozen=True)
class Summary:
    """What a run came to. The conventions of every figure are those of `decoding.metrics`."""

    output_ids: tuple[int, ...]
    """New tokens only; the first one comes from the prefill."""
    text: str
    finish: str
    """`length`, `end` (end of text), `context` (no room left) or `interrupted`."""
    metrics: dict[str, Any]


@dataclass(frozen=True)
class Lossless:
    """Whether a run's output is that of plain decoding."""

    identical: bool
    first_divergence: int | None
    """The first new token that differs; None where none does."""
    margin: float | None
    """How far the target's best token stood above its second there (nats); None where that is not known."""

    def __post_init__(self) -> None:
        _require(
            self.identical == (self.first_divergence is None),
            "lossless.identical and lossless.first_divergence contradict each other",
        )


@dataclass(frozen=True)
class Comparison:
    """A run set against plain decoding of the same request in the same process."""

    baseline: dict[str, Any]
    """The metrics of plain decoding."""
    speedup: float | None
    """Ratio of tokens per second, the first token excluded; None where one of them is not known."""
    lossless: Lossless | None
    """None above temperature 0, where two runs draw different tokens."""

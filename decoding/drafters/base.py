"""What a drafter is. Two kinds, told apart by type: one-pass and stepwise.

A drafter lives through one run like this, always in this order:

    begin(capacity)                    a new run: forget the last one, make room for `capacity` positions
    observe(prompt)                    the committed prompt
    then, each round:
        marginals(root, k)             one-pass, at most once; or
        start(root), expand(...) ...   stepwise, one call per depth; or
        logits(root); start_logits(root), expand_logits(...) ...   likewise, with whole distributions
        observe(committed)             what the target has just committed
    end()                              free what the run held

The root is the last token of the text: known to all, not yet in the target's cache or in `observe`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from torch import Tensor

from decoding.errors import Incompatible
from decoding.kernels.pieces import Doubles
from decoding.kernels.sequel import NO_SEQUEL, Sequel
from decoding.sampling import Sampling, probabilities
from decoding.template import Template
from decoding.topk import Likeliest, likeliest
from decoding.types import Floats, Ints, Marginals, Source, Tree


@dataclass(frozen=True, eq=False)
class Observation:
    """What the target has just committed, and what it said on the way."""

    tokens: Ints
    """`[committed]` token ids appended to the context: the prompt, later root + accepted path."""
    features: Tensor | None
    """`[committed, taps * hidden]` the tapped hidden states of these tokens, on the device; None without taps."""
    seen_token: Ints
    """`[seen]` every token the target has looked at, rejected nodes too."""
    seen_next: Ints
    """`[seen, k]` the target's most likely next tokens after each of them; no rows where none were asked for."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Proposed children of each frontier node, best first."""

    token: Ints
    """`[frontier, k]` token ids; -1 where there is no further candidate."""
    logprob: Floats
    """`[frontier, k]` log-probabilities (nats) under the drafter; NaN where the source gives none."""


class Filled(NamedTuple):
    """A template with tokens in it."""

    token: Ints
    """`[nodes]` token ids; -1 where the source knows none."""
    logprob: Floats
    """`[nodes]` edge log-probabilities (nats); NaN where the source gives none, and where the token was given."""


class Drafter(ABC):
    """Base of both kinds. Subclasses say here what they need of the target."""

    name: str
    vocab_size: int
    taps: tuple[int, ...] = ()
    """Indices into the target's `hidden_states` (0 is the embedding) that `Observation.features` must hold."""
    wants_prompt_next: int = 0
    """How many most likely next tokens after every prompt position it wants to observe; 0 for none."""
    source: Source = Source.DRAFT
    """What its nodes are marked with."""
    gives_logprobs: bool = True

    @property
    def runs_on_kernels(self) -> bool:
        """Whether this project's kernels run its layers, instead of torch or transformers."""
        return False

    @abstractmethod
    def begin(self, capacity: int) -> None:
        """A new run of at most `capacity` committed and drafted positions."""

    @abstractmethod
    def observe(self, observation: Observation) -> None:
        """Takes in what the target committed; drops drafted state that was not accepted."""

    def end(self) -> None:
        """Frees what the run held on the device."""


class OnePassDrafter(Drafter):
    """Gives the distributions of the next `positions` tokens in one forward pass."""

    positions: int
    draft_tokens: Ints | None = None
    """Ascending ids `[kept]` of the tokens that it drafts with; None where these are the whole vocabulary."""

    @abstractmethod
    def marginals(self, root: int, k: int) -> Marginals:
        """The top `min(k, vocab)` of each position after the root; one forward pass, one copy to the host."""

    def sequel(self) -> Sequel:
        """How the tokens of a path change the marginals that were last asked for; `NO_SEQUEL` where they do not, as
        here: then every position stands for itself."""
        return NO_SEQUEL

    def logits(self, root: int) -> Tensor:
        """Float32 logits `[positions, kept]` of the draft tokens on the device; one forward pass. -inf marks an
        impossible token.

        Raises Incompatible where the drafter knows no whole distributions, as this does.
        """
        raise _no_distributions(self)

    def distributions(self, root: int, k: int, sampling: Sampling) -> "Distributions":
        """`logits` and what they come to in a `sampling` above temperature 0, good until the next pass."""
        logits = self.logits(root)
        return Distributions(logits, likeliest(logits, k), probabilities(logits, sampling))


class Distributions(NamedTuple):
    """What a one-pass drafter thinks of the positions after the root."""

    logits: Tensor
    """As `OnePassDrafter.logits`."""
    best: Likeliest
    """The `min(k, kept)` most likely of each row, at temperature 1."""
    probs: Tensor
    """`[positions, kept]` what to draw from."""
    mass: Doubles | None = None
    """Its sums (see `kernels.pieces`), where they are known already."""


class StepwiseDrafter(Drafter):
    """Expands a frontier of nodes, one depth at a time.

    Nodes are numbered in the order in which they are given: the root of `start` is 0, then those of each `expand`.
    """

    @abstractmethod
    def start(self, root: int, k: int) -> Candidates:
        """Begins a round; the `k` best children of the root, as `[1, k]`."""

    @abstractmethod
    def expand(self, tokens: Ints, parents: Ints, k: int) -> Candidates:
        """Adds the nodes `tokens` below the given earlier nodes `parents` (both `[frontier]`) and returns the
        `k` best children of each, as `[frontier, k]`. One forward pass for the whole frontier."""

    def start_logits(self, root: int) -> Tensor | None:
        """As `start`, but the float32 logits `[1, vocab]` of the root's children, on the device.

        -inf marks an impossible token. None where the drafter's own context has no room left. Raises Incompatible
        where the drafter knows no whole distributions, as this does.
        """
        raise _no_distributions(self)

    def expand_logits(self, tokens: Ints, parents: Ints) -> Tensor | None:
        """As `expand`, but the logits `[frontier, vocab]`, as `start_logits` gives them."""
        raise _no_distributions(self)

    def fill(self, root: int, template: Template) -> Tree:
        """A whole round at once: the tree that `template` makes below `root`, as far as there are candidates."""
        token, logprob = self.look_up(below(root, template), template)
        return template.tree(token, logprob, self.source)

    def look_up(self, given: Ints, template: Template) -> Filled:
        """Fills the nodes of `template` whose `given` token is -1, by `start` and `expand`, depth by depth.

        `given` `[nodes]` holds the root's token and those of any other node that is known. A drafter that can do
        this without asking the host at every depth overrides it.
        """
        token, logprob = given.astype(np.int32), np.full(len(template), np.nan, np.float32)
        parent, rank, choices = template.parent.tolist(), template.rank.tolist(), int(template.rank.max()) + 1
        inner = set(parent)
        frontier = [0]
        number = {0: 0}  # template node -> the drafter's own numbering, in which only expanded nodes count
        for depth, level in enumerate(template.levels):
            if depth == 0:
                candidates = self.start(int(token[0]), choices)
            else:
                above = np.array([number[parent[node]] for node in frontier], np.int32)
                candidates = self.expand(token[frontier], above, choices)
                number |= {node: len(number) + i for i, node in enumerate(frontier)}
            row = {node: i for i, node in enumerate(frontier)}
            nodes = [node for node in range(level.start, level.stop) if parent[node] in row]
            for node in nodes:
                if token[node] < 0:
                    place = row[parent[node]], rank[node]
                    token[node], logprob[node] = candidates.token[place], candidates.logprob[place]
            frontier = [node for node in nodes if node in inner and token[node] >= 0]
            if not frontier:
                break
        return Filled(token, logprob)

    def successors(self) -> Ints | None:
        """The whole table of a source that is one: `[vocab + 1, choices]` on the host, row x what follows token x, best
        first, -1 where there is nothing; to be read within the round. None for a source that is none."""
        return None

    def look_up_soon(self, given: Ints, template: Template) -> Callable[[], Filled]:
        """Begins `look_up` and returns what waits for its end; a source that can work beside the host overrides it.

        Here nothing begins before it is asked for. Not to ask is allowed.
        """
        return lambda: self.look_up(given, template)


def below(root: int, template: Template) -> Ints:
    """The `given` of a `look_up` that knows the root alone."""
    given = np.full(len(template), -1, np.int32)
    given[0] = root
    return given


def _no_distributions(drafter: Drafter) -> Incompatible:
    return Incompatible(
        f"{drafter.name} gives no whole distributions, so nothing can be drawn from them.",
        "Choose a language model or a block-diffusion drafter, or a strategy that takes the drafter's best tokens.",
    )


def no_next(seen: int = 0) -> Ints:
    """The `seen_next` of an observation in which nobody asked for next tokens."""
    return np.zeros((seen, 0), np.int32)

"""What-if: decode a recorded text once more, with other trees, without running the target.

A round accepts the path of its tree that the target would have written itself. So where the target's text is known,
the text alone decides what any tree at any place of it gains: the path along which the tree holds the text.

Greedy: the text is fixed by the prompt, so replayed rounds are those of `decode`, tree for tree, as long as the
drafter observes the same features. (They come from forward passes over one token instead of a tree: equal but for
rounding, which can only matter where two of the drafter's candidates are all but tied.)

Above temperature 0, with sample-and-match, they have the same distribution. The verifier draws every token from the
target's distribution after the tokens before it, whatever the tree holds; the tree, grown before the draws, only
says how many draws one round uses. So text and rounds have one joint distribution whether the tokens are drawn as
the rounds go or the whole text is drawn first and then cut into rounds: given the text, replaying is exact. That
holds for no verifier whose draws depend on the tree (rejection sampling).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Generator, Tensor, cat

from decoding.drafters.base import Drafter, Observation, OnePassDrafter, no_next
from decoding.draws import Drawn
from decoding.errors import Incompatible
from decoding.loop import Request, decode
from decoding.sampling import Sampling
from decoding.settings import Settings
from decoding.strategies import make_strategy
from decoding.strategies.base import Growth, Strategy
from decoding.target import Target
from decoding.tree import child_with_token
from decoding.types import Ints, Marginals, Round, Summary, Tree, Verdict
from decoding.verifiers.base import Verifier

UNKNOWN = -1
"""Stands for a token that the record does not tell."""


@dataclass(frozen=True, eq=False)
class Recording:
    """A text that the target wrote, with all that drafters observe of it."""

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    """New tokens; the first comes from the prefill."""
    max_new_tokens: int
    max_context: int
    """Positions that the target can read."""
    taps: tuple[int, ...]
    features: Tensor | None
    """`[prompt + output - 1, taps, hidden]` hidden states of all tokens but the last, which was never read."""

    def observation(self, start: int, stop: int, drafter: Drafter, seen: Ints | None = None) -> Observation:
        """What `drafter` observes of positions `start` to `stop` of prompt and output; `seen` is the round's tree."""
        tokens = np.array((self.prompt_ids + self.output_ids)[start:stop], np.int32)
        features = None
        if drafter.taps and self.features is not None:
            columns = [self.taps.index(tap) for tap in drafter.taps]
            features = self.features[start:stop, columns].flatten(1)
        seen = tokens if seen is None else seen
        return Observation(tokens, features, seen, no_next(len(seen)))


def record(target: Target, verifier: Verifier, request: Request, taps: Sequence[int] = ()) -> Recording:
    """The target's own text for `request` by plain decoding, with its hidden states `taps` (see `Drafter.taps`)."""
    listener = _Listener(target.vocab_size, taps)
    *_, last = decode(target, listener, make_strategy("ar", {}), verifier, request)
    assert isinstance(last, Summary)
    features = cat(listener.heard).unflatten(1, (len(taps), -1)) if taps else None
    return Recording(
        request.prompt_ids, last.output_ids, request.max_new_tokens, target.max_context, tuple(taps), features
    )


def accepted_path(tree: Tree, coming: Sequence[int]) -> list[int]:
    """Nodes from the root down, 0 first, along which `tree` holds the tokens `coming` after its root."""
    path = [0]
    for token in coming:
        child = child_with_token(tree, path[-1], token)
        if child is None:
            break
        path.append(child)
    return path


def require_replayable(drafter: Drafter, strategy: Strategy[Settings] | None = None) -> None:
    """Raises Incompatible for a drafter that learns from what the target says after rejected nodes, for a strategy
    with such a source beside its drafter, and for one that draws its candidates (its verifier's draws depend on it)."""
    if strategy is not None and (strategy.retrieval is not None or strategy.drawn is not Drawn.BEST):
        raise Incompatible(
            f"{strategy.title} cannot be replayed on a recorded text: its rounds depend on more than that.",
            "Measure it while decoding: python -m decoding bench speed.",
        )
    if drafter.wants_prompt_next:
        raise Incompatible(
            f"The drafter {drafter.name} learns from the target's opinions, and a recorded text does not hold them.",
            "Measure it while decoding: python -m decoding bench speed.",
        )


def replay(recording: Recording, drafter: Drafter, strategy: Strategy[Settings]) -> Iterator[Round]:
    """The rounds in which `decode` would have written the recorded text with this drafter and strategy.

    Drafter and strategy are called just as `decode` calls them. Of a verdict only the path, the bonus and the choices
    on the path are known: opinions are NaN, ranks 0, and the bonus is `UNKNOWN` where the text ends inside the path.
    Raises Incompatible as `require_replayable` says, or where the record lacks hidden states that the drafter taps.
    """
    require_replayable(drafter, strategy)
    if not set(drafter.taps) <= set(recording.taps):
        raise Incompatible(
            f"The drafter {drafter.name} reads the hidden states {list(drafter.taps)}; "
            f"those recorded are {list(recording.taps)}.",
            "Record the text with the drafter's taps.",
        )
    prompt, output = len(recording.prompt_ids), recording.output_ids
    drafter.begin(min(prompt + recording.max_new_tokens, recording.max_context) + strategy.max_nodes + 1)
    strategy.begin(recording.prompt_ids, Sampling(), Generator())
    try:
        drafter.observe(recording.observation(0, prompt, drafter))
        written, index = 1, 0
        while written < len(output):
            before = prompt + written - 1
            max_depth = min(recording.max_new_tokens - written, recording.max_context - before) - 1
            growth = strategy.grow(drafter, output[written - 1], max_depth)
            item = _round(index, growth, output[written:], before)
            yield item
            written, index = written + len(item.emitted), index + 1
            if written < len(output):
                drafter.observe(recording.observation(before, item.cache_after, drafter, growth.tree.token))
            strategy.observe(growth.tree, item.verdict)
    finally:
        drafter.end()


def _round(index: int, growth: Growth, coming: Sequence[int], before: int) -> Round:
    tree = growth.tree
    path = accepted_path(tree, coming)
    emitted = tuple(coming[: len(path)])
    count = len(tree)
    choice = np.full(count, UNKNOWN, np.int32)
    choice[path[: len(emitted)]] = emitted
    unknown = np.full(count, np.nan, np.float32)
    verdict = Verdict(
        path=np.array(path, np.int32),
        bonus=int(choice[path[-1]]),
        logprob=unknown,
        rank=np.zeros(count, np.int32),
        choice=choice,
        entropy=unknown,
        top_token=no_next(count),
        top_logprob=np.zeros((count, 0), np.float32),
    )
    return Round(
        index=index,
        tree=tree,
        verdict=verdict,
        emitted=emitted,
        emitted_text=("",) * len(emitted),
        cache_before=before,
        cache_after=before + len(path),
        seconds={},
        marginals=growth.marginals,
        decision=growth.decision,
    )


class _Listener(OnePassDrafter):
    """Drafts nothing; keeps the features that the target gives."""

    name = "listener"
    positions = 0

    def __init__(self, vocab_size: int, taps: Sequence[int]) -> None:
        self.vocab_size = vocab_size
        self.taps = tuple(taps)
        self.heard: list[Tensor] = []

    def begin(self, capacity: int) -> None:
        self.heard = []

    def observe(self, observation: Observation) -> None:
        if observation.features is not None:
            self.heard.append(observation.features)

    def marginals(self, root: int, k: int) -> Marginals:
        return Marginals(np.zeros((0, k), np.int32), np.zeros((0, k), np.float32))

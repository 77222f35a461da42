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

Sources that learn from the target's opinions (the transition matrix) can be replayed where the text was recorded with
them. But a text holds opinions of its own tokens alone: what the target would have said after rejected nodes is
missing, and such a source knows less than it would in `decode`. Replayed rounds are then only like those of `decode`,
and rather worse; where two strategies are compared, both lack the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Generator, Tensor, cat

from decoding.drafters.base import Drafter, Observation, OnePassDrafter, StepwiseDrafter, no_next
from decoding.draws import Drawn
from decoding.errors import Incompatible
from decoding.loop import Request, decode
from decoding.sampling import Sampling
from decoding.settings import Settings
from decoding.strategies import make_strategy
from decoding.strategies.base import Growth, Strategy
from decoding.target import Target
from decoding.tree import accepted_path
from decoding.types import Ints, Marginals, Round, Summary, Verdict
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
    next_tokens: Ints | None = None
    """`[prompt + output - 1, k]` the target's most likely tokens after each of them; None where they were not kept."""

    def observation(self, start: int, stop: int, drafter: Drafter, seen: Ints | None = None) -> Observation:
        """What `drafter` observes of positions `start` to `stop` of prompt and output; `seen` is the round's tree.

        A drafter that wants opinions is told of those on the text alone, whatever the tree held.
        """
        tokens = np.array((self.prompt_ids + self.output_ids)[start:stop], np.int32)
        features = None
        if drafter.taps and self.features is not None:
            columns = [self.taps.index(tap) for tap in drafter.taps]
            features = self.features[start:stop, columns].flatten(1)
        if drafter.wants_prompt_next and self.next_tokens is not None:
            return Observation(tokens, features, tokens, self.next_tokens[start:stop, : drafter.wants_prompt_next])
        seen = tokens if seen is None else seen
        return Observation(tokens, features, seen, no_next(len(seen)))


def record(
    target: Target, verifier: Verifier, request: Request, taps: Sequence[int] = (), opinions: int = 0
) -> Recording:
    """The target's own text for `request` by plain decoding, with its hidden states `taps` (see `Drafter.taps`) and
    its `opinions` most likely tokens (see `Drafter.wants_prompt_next`) at every position."""
    listener = _Listener(target.vocab_size, taps, opinions)
    *_, last = decode(target, listener, make_strategy("ar", {}), verifier, request)
    assert isinstance(last, Summary)
    return Recording(
        request.prompt_ids,
        last.output_ids,
        request.max_new_tokens,
        target.max_context,
        tuple(taps),
        cat(listener.heard).unflatten(1, (len(taps), -1)) if taps else None,
        np.concatenate(listener.said) if opinions else None,
    )


def require_replayable(drafter: Drafter) -> None:
    """Raises Incompatible for a drafter that cannot go over one text several times, as benchmarks have it: one that
    learns from the target's opinions keeps them from run to run, and would know the text by then."""
    if drafter.wants_prompt_next:
        raise Incompatible(
            f"The drafter {drafter.name} learns from the target's opinions: a second replay would know the text.",
            "Measure it while decoding: python -m decoding bench speed.",
        )


def _require_recorded(recording: Recording, source: Drafter) -> None:
    """Raises Incompatible for a drafter or retrieval source that observes what the record does not hold."""
    if not set(source.taps) <= set(recording.taps):
        raise Incompatible(
            f"The drafter {source.name} reads the hidden states {list(source.taps)}; "
            f"those recorded are {list(recording.taps)}.",
            "Record the text with the drafter's taps.",
        )
    kept = 0 if recording.next_tokens is None else recording.next_tokens.shape[1]
    if source.wants_prompt_next > kept:
        raise Incompatible(
            f"The drafter {source.name} learns from the target's {source.wants_prompt_next} likeliest tokens; "
            f"{kept or 'none'} were recorded.",
            f"Record the text with opinions={source.wants_prompt_next}.",
        )


def replay(
    recording: Recording,
    drafter: Drafter | None,
    strategy: Strategy[Settings],
    retrieval: StepwiseDrafter | None = None,
) -> Iterator[Round]:
    """The rounds in which `decode` would have written the recorded text with this drafter and strategy.

    Drafter, strategy and `retrieval` are called just as `decode` calls them. Of a verdict only the path, the bonus and
    the choices on the path are known: opinions are NaN, ranks 0, and the bonus is `UNKNOWN` where the text ends inside
    the path. Raises Incompatible for a source that observes what was not recorded, and for a strategy that draws its
    candidates: its verifier's draws depend on them.
    """
    if strategy.drawn is not Drawn.BEST:
        raise Incompatible(
            f"{strategy.title} draws its candidates: a recorded text cannot say what its rounds would have been.",
            "Measure it while decoding: python -m decoding bench speed.",
        )
    sources = [source for source in (drafter, retrieval) if source is not None]
    for source in sources:
        _require_recorded(recording, source)
    prompt, output = len(recording.prompt_ids), recording.output_ids
    room = min(prompt + recording.max_new_tokens, recording.max_context) + strategy.max_nodes + 1
    for source in sources:
        source.begin(room)
    strategy.begin(recording.prompt_ids, Sampling(), Generator())
    try:
        for source in sources:
            source.observe(recording.observation(0, prompt, source))
        written, index = 1, 0
        while written < len(output):
            before = prompt + written - 1
            max_depth = min(recording.max_new_tokens - written, recording.max_context - before) - 1
            growth = strategy.grow_beside(drafter, retrieval, output[written - 1], max_depth)
            item = _round(index, growth, output[written:], before)
            yield item
            written, index = written + len(item.emitted), index + 1
            if written < len(output):
                for source in sources:
                    source.observe(recording.observation(before, item.cache_after, source, growth.tree.token))
            strategy.observe(growth.tree, item.verdict)
    finally:
        for source in sources:
            source.end()


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
    """Drafts nothing; keeps the features and opinions that the target gives."""

    name = "listener"
    positions = 0

    def __init__(self, vocab_size: int, taps: Sequence[int], opinions: int) -> None:
        self.vocab_size = vocab_size
        self.taps = tuple(taps)
        self.wants_prompt_next = opinions
        self.heard: list[Tensor] = []
        self.said: list[Ints] = []

    def begin(self, capacity: int) -> None:
        self.heard, self.said = [], []

    def observe(self, observation: Observation) -> None:
        self.said.append(observation.seen_next)
        if observation.features is not None:
            self.heard.append(observation.features)

    def marginals(self, root: int, k: int) -> Marginals:
        return Marginals(np.zeros((0, k), np.int32), np.zeros((0, k), np.float32))

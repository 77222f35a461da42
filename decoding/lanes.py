"""Several ways to decode one prompt, one after another on the same model: runs that may be set against each other.

What makes the timing fair: all ways are checked and loaded before anything is timed; plain decoding (lane 0) runs
first and is the baseline of all; each lane is warmed up right before its own run, by a few untimed rounds on another
prompt; and no lane drafts from what an earlier one has learnt.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from decoding.loop import never
from decoding.model_store import ModelStore
from decoding.run import Line, PreparedRun, RunSettings, comparison, silent
from decoding.trace import TraceEncoder
from decoding.types import Round, Summary

PLAIN = 0
"""The lane of plain decoding; the ways are numbered from 1, in the order given, which is the order they run in."""


@dataclass
class _Outcome:
    """What a lane came to; `summary` stays None where it failed."""

    rounds: list[Round] = field(default_factory=list)
    summary: Summary | None = None

    @property
    def whole(self) -> bool:
        return self.summary is not None and self.summary.finish != "interrupted"


def side_by_side(
    ways: Sequence[RunSettings],
    models: ModelStore,
    failed: Callable[[Exception], Line],
    should_stop: Callable[[], bool] = never,
    report: Callable[[str], None] = silent,
) -> Iterator[Line]:
    """Yields every lane's header, rounds and summary, and the `comparison` of each way with plain decoding.

    Each line names its `lane`. The ways differ in drafter, strategy and settings only. One that fails says so by the
    line that `failed` makes of the exception, and the others go on. Once `should_stop()` says so, the lane in hand
    ends after its round and no other begins.
    """
    prepared: dict[int, PreparedRun] = {}
    for lane, settings in enumerate(ways, start=1):
        try:
            prepared[lane] = PreparedRun(settings, models, report)
        except Exception as error:
            yield {"lane": lane, **failed(error)}
    if prepared:
        with models.using(*(source for run in prepared.values() for source in (run.drafter, run.retrieval))):
            yield from _in_turn(prepared, failed, should_stop, report)


def _in_turn(
    prepared: Mapping[int, PreparedRun],
    failed: Callable[[Exception], Line],
    should_stop: Callable[[], bool],
    report: Callable[[str], None],
) -> Iterator[Line]:
    baseline = _Outcome()
    for lane, run in ((PLAIN, next(iter(prepared.values()))), *prepared.items()):
        if should_stop():
            return
        outcome = baseline if lane == PLAIN else _Outcome()
        try:
            for line in _lane(lane, run, outcome, should_stop, report):
                yield {"lane": lane, **line}
        except Exception as error:
            yield {"lane": lane, **failed(error)}
        if lane != PLAIN and outcome.summary and baseline.summary and outcome.whole and baseline.whole:
            said = comparison(outcome.summary, baseline.summary, baseline.rounds, run.sampling.greedy)
            yield {"lane": lane, **TraceEncoder(run.piece).encode(said)}


def _lane(
    lane: int, run: PreparedRun, outcome: _Outcome, should_stop: Callable[[], bool], report: Callable[[str], None]
) -> Iterator[Line]:
    plain = lane == PLAIN
    report("warming up plain decoding" if plain else f"warming up way {lane}, {run.strategy.name}")
    run.warm_up(plain)
    run.forget()
    encoder = TraceEncoder(run.piece)
    for event in run.decode(should_stop, plain):
        if isinstance(event, Round):
            outcome.rounds.append(event)
        elif isinstance(event, Summary):
            outcome.summary = event
        yield encoder.encode(event)

"""From plain settings to a stream of plain JSON objects: the one way into the device.

The command line, the page and the API all come through here. Arguments and results are plain values, so that the same
generator runs on a laptop, on a GPU box and inside a forked worker.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from decoding.calibration import load_calibration
from decoding.cost_probe import round_costs
from decoding.detokenizer import token_piece
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.fit import require_verifier_fit
from decoding.loop import Request, decode, never
from decoding.metrics import first_divergence
from decoding.model_store import ModelStore
from decoding.models import DEFAULT_TARGET
from decoding.prompts import encode_prompt, require_prompt
from decoding.sampling import Sampling
from decoding.settings import Settings
from decoding.strategies import STRATEGIES, make_strategy
from decoding.strategies.base import Strategy
from decoding.target import Target
from decoding.thinking import thinking_warning
from decoding.trace import TraceEncoder
from decoding.types import Comparison, Lossless, Round, RunHeader, Summary
from decoding.verifiers import make_verifier

Line = dict[str, Any]
WARM_UP = "Count from one to ten."


@dataclass(frozen=True)
class RunSettings:
    """A run as plain values."""

    prompt: str
    target: str = DEFAULT_TARGET
    drafter: str | None = None
    """None takes the strategy's usual one for this target."""
    strategy: str = "recycle"
    settings: Mapping[str, object] = field(default_factory=dict)
    verifier: str | None = None
    """None takes `greedy` at temperature 0 and `sample-match` above."""
    raw: bool = False
    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    dtype: str = "auto"
    device: str = "auto"
    cache: str = "preallocated"


def silent(_: str) -> None:
    return


def run(
    settings: RunSettings,
    models: ModelStore,
    should_stop: Callable[[], bool] = never,
    report: Callable[[str], None] = silent,
) -> Iterator[Line]:
    """Yields the run's header, rounds and summary as JSON objects (see `decoding.trace`).

    Everything that can be refused is refused before a model loads. `report` gets sentences on what is being done.
    `should_stop` is asked before every round and may take its time: meanwhile other runs may decode with `models`, as
    long as they take turns.
    """
    prepared = PreparedRun(settings, models, report)
    encoder = TraceEncoder(prepared.piece)
    with models.using(prepared.drafter, prepared.retrieval):
        for event in prepared.decode(should_stop):
            yield encoder.encode(event)


def compare(
    settings: RunSettings,
    models: ModelStore,
    should_stop: Callable[[], bool] = never,
    report: Callable[[str], None] = silent,
) -> Iterator[Line]:
    """Like `run`, then a line `comparison`: plain decoding of the same request in the same process.

    Both are warmed up first on another prompt. `speedup` is the ratio of tokens per second (first token excluded).
    `lossless` is None above temperature 0, where two runs draw different tokens.
    """
    prepared = PreparedRun(settings, models, report)
    with models.using(prepared.drafter, prepared.retrieval):
        yield from _compare(prepared, should_stop, report)


def _compare(prepared: "PreparedRun", should_stop: Callable[[], bool], report: Callable[[str], None]) -> Iterator[Line]:
    report("warming up")
    prepared.warm_up()
    prepared.warm_up(plain=True)
    encoder = TraceEncoder(prepared.piece)
    ours: Summary | None = None
    for event in prepared.decode(should_stop):
        ours = event if isinstance(event, Summary) else ours
        yield encoder.encode(event)
    if ours is None or ours.finish == "interrupted":
        return
    report("plain decoding, for comparison")
    rounds: list[Round] = []
    plain: Summary | None = None
    for event in prepared.decode(should_stop, plain=True):
        if isinstance(event, Round):
            rounds.append(event)
        elif isinstance(event, Summary):
            plain = event
    if plain is None or plain.finish == "interrupted":
        return
    yield encoder.encode(comparison(ours, plain, rounds, prepared.sampling.greedy))


def comparison(ours: Summary, plain: Summary, plain_rounds: list[Round], greedy: bool) -> Comparison:
    """Sets a run against plain decoding."""
    speeds = ours.metrics["tokens_per_second"], plain.metrics["tokens_per_second"]
    lossless = None
    if greedy:
        place = first_divergence(ours.output_ids, plain.output_ids)
        margin = None
        if place is not None and 1 <= place <= len(plain_rounds):
            best = plain_rounds[place - 1].verdict.top_logprob[0]
            margin = float(best[0] - best[1]) if len(best) > 1 else None
        lossless = Lossless(place is None, place, margin)
    return Comparison(plain.metrics, speeds[0] / speeds[1] if all(speeds) else None, lossless)


def calibrated(
    strategy: Strategy[Settings], target_id: str, drafter_id: str, report: Callable[[str], None] = silent
) -> Strategy[Settings]:
    """The strategy with the thresholds that were measured for the pair, where it leaves them open."""
    unset = [name for name in strategy.thresholds if getattr(strategy.settings, name) < 0]
    found = load_calibration(strategy.name, target_id, drafter_id) if unset else None
    if found is None:
        return strategy
    measured = {name: value for name, value in found.thresholds.items() if name in unset}
    report("calibrated for this pair: " + ", ".join(f"{name}={value:.3f}" for name, value in measured.items()))
    return type(strategy)(replace(strategy.settings, **measured))


class PreparedRun:
    """A run whose parts have been checked and loaded."""

    def __init__(self, settings: RunSettings, models: ModelStore, report: Callable[[str], None]) -> None:
        self.sampling = Sampling(settings.temperature, settings.top_p, settings.top_k)
        self.verifier = make_verifier(settings.verifier, self.sampling)
        self.strategy = make_strategy(settings.strategy, settings.settings)
        require_verifier_fit(self.strategy, type(self.verifier))
        self.settings = settings
        info = models.choose_drafter(settings.target, settings.drafter, STRATEGIES[settings.strategy])
        if info is not None:
            self.strategy = calibrated(self.strategy, settings.target, info.id, report)
        require_prompt(settings.prompt)
        self.target: Target = models.target(settings.target, settings.dtype, settings.device, report)
        if not settings.raw and (warning := thinking_warning(self.target.tokenizer, self.target.name, info)):
            report(warning)
        self.drafter = models.drafter(info.id, self.target, report) if info is not None else None
        self.retrieval = models.retrieval(STRATEGIES[settings.strategy], self.target, report)
        if self.strategy.wants_costs:
            self.strategy.costs = round_costs(self.target, self.drafter, report)

    def piece(self, token: int) -> str:
        return token_piece(self.target.tokenizer, token)

    def decode(self, should_stop: Callable[[], bool], plain: bool = False) -> Iterator[RunHeader | Round | Summary]:
        strategy: Strategy[Settings] = make_strategy("ar", {}) if plain else self.strategy
        ids = encode_prompt(self.target.tokenizer, self.settings.prompt, self.settings.raw)
        request = Request(
            self.settings.prompt, ids, self.settings.max_new_tokens, self.settings.seed, self.settings.cache
        )
        drafter, retrieval = (None, None) if plain else (self.drafter, self.retrieval)
        yield from decode(self.target, drafter, strategy, self.verifier, request, should_stop, retrieval)

    def warm_up(self, plain: bool = False) -> None:
        """A few rounds on another prompt, so that the run after it does not pay for what happens only once."""
        ids = encode_prompt(self.target.tokenizer, WARM_UP)
        request = Request(WARM_UP, ids, 6, self.settings.seed, self.settings.cache)
        strategy = make_strategy("ar", {}) if plain else type(self.strategy)(self.strategy.settings)
        drafter, retrieval = (None, None) if plain else (self.drafter, self.retrieval)
        for _ in decode(self.target, drafter, strategy, self.verifier, request, retrieval=retrieval):
            pass

    def forget(self) -> None:
        """Takes back what the sources have learnt in earlier runs, of which a matrix keeps everything."""
        for source in (self.drafter, self.retrieval):
            if isinstance(source, TransitionMatrix):
                source.clear()

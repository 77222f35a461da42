"""The decoding loop: draft, verify, commit, as a generator of rounds. Plain decoding goes the same way."""

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import torch

from decoding.cost_probe import round_costs
from decoding.detokenizer import Detokenizer
from decoding.drafters.base import Drafter, Observation, StepwiseDrafter, no_next
from decoding.drafters.timed import timed, timed_retrieval
from decoding.errors import BadRequest
from decoding.memory import peak_bytes, reset_peak
from decoding.metrics import run_metrics
from decoding.provenance import git_commit, library_versions
from decoding.settings import Settings
from decoding.stage_clock import StageClock
from decoding.strategies.base import Strategy
from decoding.target import Prefill, Target, TargetContext, memory_guard
from decoding.types import Round, RunHeader, Summary, Tree, Verdict
from decoding.verifiers.base import Verifier

Event = RunHeader | Round | Summary


def never() -> bool:
    """The `should_stop` of a run that nobody can stop."""
    return False


@dataclass(frozen=True)
class Request:
    """What is asked of a run, beside its parts."""

    prompt: str
    prompt_ids: tuple[int, ...]
    max_new_tokens: int = 128
    seed: int = 0
    cache: str = "preallocated"

    def check(self, target: Target) -> None:
        """Raises BadRequest where the request cannot be served."""
        if not self.prompt_ids:
            raise BadRequest("The prompt is empty.", "Give at least one character.")
        if self.max_new_tokens < 1:
            raise BadRequest(f"max_new_tokens is {self.max_new_tokens}.", "It must be at least 1.")
        if len(self.prompt_ids) > target.max_context:
            raise BadRequest(
                f"The prompt has {len(self.prompt_ids)} tokens; {target.name} reads at most {target.max_context}.",
                "Shorten the prompt.",
            )
        worst = max(self.prompt_ids)
        if worst >= target.vocab_size:
            raise BadRequest(
                f"The prompt holds token {worst}; {target.name} knows ids below {target.vocab_size}.",
                "Use the tokenizer of the target.",
            )


def decode(
    target: Target,
    drafter: Drafter | None,
    strategy: Strategy[Settings],
    verifier: Verifier,
    request: Request,
    should_stop: Callable[[], bool] = never,
    retrieval: StepwiseDrafter | None = None,
) -> Generator[Event, None, None]:
    """Yields a RunHeader after the prefill, then every Round, then a Summary.

    `retrieval` is the source that a strategy declares beside its drafter; both observe what the target says.
    Stops after the round in flight once `should_stop()` says so; the summary then says `interrupted`. Closing the
    generator frees the device.
    """
    request.check(target)
    run = _Run(target, drafter, strategy, verifier, request, retrieval)
    try:
        yield run.prefill()
        while run.finish is None:
            if should_stop():
                run.finish = "interrupted"
            else:
                yield run.round()
        yield run.summary()
    finally:
        run.close()


class _Run:
    """State of one run; every method is one step of `decode`."""

    def __init__(
        self,
        target: Target,
        drafter: Drafter | None,
        strategy: Strategy[Settings],
        verifier: Verifier,
        request: Request,
        retrieval: StepwiseDrafter | None,
    ) -> None:
        self.target = target
        self.drafter = drafter
        self.retrieval = retrieval
        self.strategy = strategy
        self.verifier = verifier
        self.request = request
        self.clock = StageClock(target.device)
        self.drafter_view = timed(drafter, self.clock) if drafter is not None else None
        self.retrieval_view = timed_retrieval(retrieval, self.clock) if retrieval is not None else None
        self.wanted = max((source.wants_prompt_next for source in (drafter, retrieval) if source), default=0)
        self.rng = torch.Generator(target.device).manual_seed(request.seed)
        self.detokenizer = Detokenizer(target.tokenizer)
        self.end_ids = frozenset(target.end_ids)
        self.output: list[int] = []
        self.text: list[str] = []
        self.rounds: list[Round] = []
        self.finish: str | None = None
        self.prefill_seconds = 0.0
        self.decode_seconds = 0.0
        if strategy.wants_costs and strategy.costs is None:
            strategy.costs = round_costs(target, drafter)
        reset_peak(target.device)
        committed = min(len(request.prompt_ids) + request.max_new_tokens, target.max_context)
        nodes = strategy.max_nodes + 1
        strategy.begin(request.prompt_ids, verifier.sampling, self.rng)
        with memory_guard(f"a cache of {committed + nodes} positions"):
            taps = drafter.taps if drafter else ()
            self.context: TargetContext = target.open(committed, nodes, taps, request.cache)
            for source in (drafter, retrieval):
                if source is not None:
                    source.begin(committed + nodes)

    def prefill(self) -> RunHeader:
        """Reads the prompt, chooses the first token and says what the run is."""
        start = time.perf_counter()
        ids = self.request.prompt_ids
        said: Prefill = self.context.prefill(ids, self.wanted)
        first = self.verifier.first(said.logits, self.rng)
        self.prefill_seconds = time.perf_counter() - start
        tokens = np.asarray(ids, np.int32)
        observation = Observation(tokens, said.features, tokens, said.next_tokens)
        for source in (self.drafter, self.retrieval):
            if source is not None:
                source.observe(observation)
        first_text = self._append([first])[0]
        return self._header(first, first_text)

    def round(self) -> Round:
        """One round; decides `finish` when it was the last."""
        start = time.perf_counter()
        clock, before = self.clock, self.context.length
        max_depth = min(self.request.max_new_tokens - len(self.output), self.target.max_context - before) - 1
        with clock.stage("build"):
            growth = self.strategy.grow_beside(self.drafter_view, self.retrieval_view, self.output[-1], max_depth)
        tree = growth.tree
        with clock.stage("compile"):
            layout = self.context.compile(tree)
        with clock.stage("verify"):
            scores = self.context.score(layout)
            scores.head = clock.charge("verify", scores.head)
        with clock.stage("walk"):
            verdict = self.verifier.verify(tree, scores, self.rng, growth.draws)
        with clock.stage("commit"):
            features = self.context.commit(tree, verdict.path)
        with clock.stage("update"):
            self._observe(tree, verdict, features)
        emitted = self._cut([*tree.token[verdict.path[1:]].tolist(), verdict.bonus])
        item = Round(
            index=len(self.rounds),
            tree=tree,
            verdict=verdict,
            emitted=tuple(emitted),
            emitted_text=tuple(self._append(emitted)),
            cache_before=before,
            cache_after=self.context.length,
            seconds=clock.take(),
            marginals=growth.marginals,
            decision=growth.decision,
        )
        self.rounds.append(item)
        self.decode_seconds += time.perf_counter() - start
        return item

    def _observe(self, tree: Tree, verdict: Verdict, features: torch.Tensor | None) -> None:
        next_tokens = verdict.top_token[:, : self.wanted] if self.wanted else no_next(len(tree))
        observation = Observation(tree.token[verdict.path], features, tree.token, next_tokens)
        if self.drafter is not None:
            self.drafter.observe(observation)
        if self.retrieval is not None:
            with self.clock.stage("refresh"):
                self.retrieval.observe(observation)
        self.strategy.observe(tree, verdict)

    def _cut(self, tokens: list[int]) -> list[int]:
        """The tokens that still belong to the text: up to its end, or to the limit."""
        tokens = tokens[: self.request.max_new_tokens - len(self.output)]
        for place, token in enumerate(tokens, start=1):
            if token in self.end_ids:
                return tokens[:place]
        return tokens

    def _append(self, tokens: Sequence[int]) -> list[str]:
        texts = [self.detokenizer.feed(token) for token in tokens]
        self.output.extend(tokens)
        self.text.extend(texts)
        if self.output[-1] in self.end_ids:
            self.finish = "end"
        elif len(self.output) >= self.request.max_new_tokens:
            self.finish = "length"
        elif self.context.length >= self.target.max_context:
            self.finish = "context"
        return texts

    def _header(self, first: int, first_text: str) -> RunHeader:
        target, request, sampling = self.target, self.request, self.verifier.sampling
        return RunHeader(
            target=target.name,
            drafter=self.drafter.name if self.drafter else "none",
            strategy=self.strategy.name,
            settings=self.strategy.settings.as_dict(),
            verifier=self.verifier.name,
            prompt=request.prompt,
            prompt_ids=request.prompt_ids,
            tokenizer=target.name,
            max_new_tokens=request.max_new_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=request.seed,
            dtype=str(target.dtype).removeprefix("torch."),
            device=str(target.device),
            cache=request.cache,
            end_ids=target.end_ids,
            first_token=first,
            first_text=first_text,
            prefill_seconds=self.prefill_seconds,
            versions=library_versions(),
            git_commit=git_commit(),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            retrieval=self.retrieval.name if self.retrieval else "none",
        )

    def summary(self) -> Summary:
        """What the run came to."""
        metrics = run_metrics(self.rounds, self.prefill_seconds, self.decode_seconds, peak_bytes(self.target.device))
        return Summary(tuple(self.output), "".join(self.text), self.finish or "interrupted", metrics)

    def close(self) -> None:
        """Frees the caches of target and drafters."""
        self.context.close()
        for source in (self.drafter, self.retrieval):
            if source is not None:
                source.end()

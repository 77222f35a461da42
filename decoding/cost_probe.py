"""Measures what a round costs, once for a pair of target and drafter on this machine: a few seconds."""

import platform
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch

from decoding.drafters.base import Drafter, Observation, OnePassDrafter, no_next
from decoding.kv_cache import PreallocatedCache
from decoding.round_costs import CostKey, RoundCosts
from decoding.target import Target, TargetContext
from decoding.types import Source, Tree

CONTEXTS = (64, 1024)
NODES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024)
DEAREST = 6.0
"""Larger trees are not measured once one has cost so many plain steps: few drafts bring as many tokens."""
LEAST_POINTS = 7
SECONDS = 4.0
"""After this no measurement is begun that can be done without."""
PASSES = 15
"""Of one size at most."""
DRAFTS = 7
QUIETER = 0.6
"""A kept table whose plain step takes less than this part of its time today was measured on a busy machine."""
READ = 3
"""Tokens that a drafter reads before a draft: those of one round."""
DRAFT_COLUMNS = 200
BESIDE_MS = 1.7
"""The rest of a round: planning, learning and the loop. It is Python, which takes about as long everywhere."""

_measured: WeakKeyDictionary[Target, dict[CostKey, RoundCosts]] = WeakKeyDictionary()


def silent(_: str) -> None:
    """A report that nobody reads."""


def round_costs(target: Target, drafter: Drafter | None, report: Callable[[str], None] = silent) -> RoundCosts:
    """The costs of the pair on this machine: known in this process, kept from an earlier one, or measured now.

    Kept ones are checked by two plain steps, and measured again where the machine was busy when they were made.
    """
    key = cost_key(target, drafter)
    known = _measured.setdefault(target, {})
    if key not in known:
        costs = key.load()
        if costs is not None and plain_step(target, drafter, costs.contexts[0]) < QUIETER * costs.verify_ms[0, 0]:
            costs = None
        if costs is None:
            report(f"measuring what a round of {target.name} costs (once, about {SECONDS:g} s)")
            start = time.perf_counter()
            costs = measure(target, drafter)
            report(f"measured in {time.perf_counter() - start:.1f} s: {described(costs)}")
            try:
                key.save(costs)
            except OSError as error:
                report(f"the costs cannot be kept ({error.strerror}) and will be measured again")
        known[key] = costs
    return known[key]


def cost_key(target: Target, drafter: Drafter | None) -> CostKey:
    """What the figures would hold for."""
    cuda = target.device.type == "cuda"
    device = torch.cuda.get_device_name(target.device) if cuda else platform.processor() or platform.machine()
    dtype = str(target.dtype).removeprefix("torch.")
    drafter_name = drafter.name if drafter is not None else "none"
    return CostKey(target.name, drafter_name, device, dtype, torch.get_num_threads(), torch.__version__)


@torch.inference_mode()
def measure(target: Target, drafter: Drafter | None, seconds: float = SECONDS, least_nodes: int = 1) -> RoundCosts:
    """Times compiling, forward pass and reading of trees, and drafts; the median of several passes counts. The
    quickest would not do: where other programs share the memory, a plain step is at times a third quicker than mostly,
    and trees that pay by the usual figures would not seem to.

    No text is read: the cache is filled with zeros, since time does not depend on what is in it. What takes long (a
    second context, large trees, further passes) is left out once `seconds` are over; trees of up to `least_nodes`
    (the root counted) are measured all the same, whatever they cost.
    """
    start = time.perf_counter()
    largest = min(NODES[-1], target.max_context)
    lengths = tuple(c for c in CONTEXTS if c + largest <= target.max_context) or (1,)
    points = sorted({*NODES, least_nodes})
    nodes = tuple(n for n in points if n <= least_nodes or n + lengths[-1] <= target.max_context) or (1,)
    one_pass = drafter if isinstance(drafter, OnePassDrafter) else None
    rows: list[_Row] = []
    drafts: list[float] = []
    with ExitStack() as opened:
        if one_pass is not None:
            opened.callback(one_pass.end)
            one_pass.begin(lengths[-1] + NODES[-1])
        for place, length in enumerate(lengths):
            late = start + seconds * (place + 1) / (2 * len(lengths))
            if rows and time.perf_counter() > late:
                break
            context = target.open(length, nodes[-1], drafter.taps if drafter is not None else ())
            opened.callback(context.close)
            _pretend(context, length)
            rows.append(_Row(context, _growing(context, nodes, late, least_nodes)))
            nodes = nodes[: len(rows[-1].passes)]
            read = lengths[place - 1] + DRAFTS * READ if place else 0
            drafts.append(_draft(context, one_pass, length - read) if one_pass is not None else 0.0)
        _measure_on(rows, nodes, start + seconds)
    table = [[median(passes) for passes in row.passes[: len(nodes)]] for row in rows]
    return RoundCosts.fitted(lengths[: len(rows)], nodes, table, drafts, BESIDE_MS)


class _Row(NamedTuple):
    """What was measured at one length of the context."""

    context: TargetContext
    passes: list[list[float]]
    """Milliseconds of each pass, by the number of nodes."""


@torch.inference_mode()
def plain_step(target: Target, drafter: Drafter | None, length: int) -> float:
    """Milliseconds of one node behind `length` positions: the quicker of two."""
    context = target.open(length, 1, drafter.taps if drafter is not None else ())
    try:
        _pretend(context, length)
        return min(_verify(context, 1), _verify(context, 1))
    finally:
        context.close()


def _pretend(context: TargetContext, length: int) -> None:
    if context.length == 0:
        context.prefill([0])  # the cache learns its shapes
    assert isinstance(context.cache, PreallocatedCache)
    context.cache.pretend(length)


def _growing(context: TargetContext, nodes: Sequence[int], late: float, least_nodes: int) -> list[list[float]]:
    """One pass, in milliseconds, of each of growing trees until they get too dear, or it is `late`."""
    row: list[list[float]] = []
    for count in nodes:
        _verify(context, count)  # pays for what happens only once
        row.append([_verify(context, count)])
        if row[-1][0] > DEAREST * row[0][0]:
            row[-1] = [min(row[-1][0], _verify(context, count))]  # a single hiccup must not end the table
        too_late = time.perf_counter() > late and len(row) >= LEAST_POINTS
        if count >= least_nodes and (too_late or row[-1][0] > DEAREST * row[0][0]):
            break
    return row


def _measure_on(rows: Sequence[_Row], nodes: Sequence[int], end: float) -> None:
    """Adds passes until the `end`, always where least time was spent: the small trees, among which rounds mostly
    choose, get the most of them, and a busy moment comes to all alike."""
    wanted = [(row.passes[place], row.context, count) for row in rows for place, count in enumerate(nodes)]
    while wanted and time.perf_counter() < end:
        passes, context, count = min(wanted, key=lambda each: len(each[0]) * min(each[0]))
        passes.append(_verify(context, count))
        wanted = [each for each in wanted if len(each[0]) < PASSES]


def _verify(context: TargetContext, count: int) -> float:
    """Milliseconds of one tree with `count` nodes, every one with two children; nothing is committed."""
    number = np.arange(count, dtype=np.int32)
    source = np.where(number > 0, Source.DRAFT, Source.ROOT).astype(np.uint8)
    tree = Tree(number % 2, (number - 1) // 2, np.zeros(count, np.float32), source)
    return _milliseconds(context.target, lambda: context.score(context.compile(tree)).opinions(tree))


def _draft(context: TargetContext, drafter: OnePassDrafter, unread: int) -> float:
    """Milliseconds of one draft, with what its drafter has to read before; `unread` positions are read first.

    Each is made behind a plain step, as in a round: where drafts follow each other, their weights are still at hand."""
    target = context.target
    _read_and_draft(target, drafter, unread)
    found = []
    for _ in range(DRAFTS):
        _verify(context, 1)
        found.append(_milliseconds(target, lambda: _read_and_draft(target, drafter, READ)))
    return median(found)


def _read_and_draft(target: Target, drafter: OnePassDrafter, rows: int) -> None:
    seen, width = np.zeros(rows, np.int32), len(drafter.taps) * target.hidden_size
    features = torch.zeros(rows, width, dtype=target.dtype, device=target.device) if width else None
    drafter.observe(Observation(seen, features, seen, no_next(rows)))
    drafter.marginals(0, DRAFT_COLUMNS)


def _milliseconds(target: Target, work: Callable[[], object]) -> float:
    _wait(target)
    start = time.perf_counter()
    work()
    _wait(target)
    return 1000 * (time.perf_counter() - start)


def _wait(target: Target) -> None:
    if target.device.type == "cuda":
        torch.cuda.synchronize(target.device)


def described(costs: RoundCosts) -> str:
    """The table at its first context, in words."""
    row = zip(costs.nodes, costs.verify_ms[0], strict=True)
    return ", ".join(f"{count} nodes {ms:.1f} ms" for count, ms in row) + f"; a draft {costs.draft_ms[0]:.1f} ms"

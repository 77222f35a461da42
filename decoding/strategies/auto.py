"""Auto: no budget to set; every round verifies as many nodes as pay for themselves on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from decoding.drafters.base import Drafter, OnePassDrafter, StepwiseDrafter
from decoding.errors import Incompatible
from decoding.kernels.prices import Prices, chances, least_slopes
from decoding.kernels.sequel import NO_SEQUEL
from decoding.round_costs import RoundCosts
from decoding.settings import Settings, option
from decoding.strategies.acceptance_rates import BINS, AcceptanceRates, Choice, best_budget, rate_curve
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.copying import NO_CHAIN, CopiedText
from decoding.strategies.graft_plan import NO_MARGINALS, NO_ROWS, GraftPlan, Rates, columns, successor_rows
from decoding.types import Tree, Verdict

UNCORRECTED = np.ones(BINS)
"""What weights of each bin are worth where they are believed as they stand."""
MATCHED = np.array([1, 12])
"""What drafts are worth is kept apart by how long the match is after which the text repeats itself: the least lengths
of all classes but the first, in which nothing is copied."""
PRIOR_WORTH, PRIOR_DRAFTS = 0.5, 6
"""Tokens that drafts of every class are believed to be worth at first, and how many drafts that belief counts."""
LEAST_ALONE = 0.1
"""Weight of a path from which on a plan without a draft is taken to hold it."""
PROBE_EVERY = 24
"""Where drafting does not pay, it is tried again after so many rounds of the class."""
MEMORY = 40.0
"""Rounds after which an old one counts 1/e in the pace of the run, and drafts in what drafts are worth."""
LEAST_REACH = 64
"""Nodes that a plan can hold at least: more are planned only where large trees have paid."""
CONTEXT_STEP = 32
"""Prices are looked up anew after so many tokens."""


@dataclass(frozen=True)
class AutoSettings(Settings):
    """Nothing has to be set."""

    retrieve: bool = option(True, "let retrieved nodes compete; off, the plan is DDTree's")
    copy: bool = option(True, "let the tokens compete that followed where the text stood before, as in ddtree-graft")
    follow: bool = option(True, "let the drafter's sequential head say what follows each token, as in ddtree-graft")
    calibrate: bool = option(True, "correct expected acceptance by what was accepted")
    most: int = option(1024, "nodes at most, whatever would pay; the root not counted", low=1, high=1024)


class Auto(Strategy[AutoSettings]):
    """CaDDTree's rule over the plan of `ddtree-graft`, with measured costs and corrected expectations.

    The plan of a round stands in pop order, so each first part of it is the best tree of its size. Of these the one
    with the most expected tokens (corrected by `AcceptanceRates`) per millisecond (`RoundCosts`, at the present length
    of the context) is verified. That includes none: a plain step.

    A drafted round is set against what retrieval alone would have held of the text that came. Where matches are so long
    that the tokens which drafts added were fewer than the run brings in the time that they and the nodes which only
    they proposed took, nothing is drafted; sometimes drafting is tried again.
    """

    name = "auto"
    title = "Auto"
    paper = "CaDDTree (arXiv 2606.01813), the throughput rule, over this project's ddtree-graft"
    needs = frozenset({"one-pass"})
    needs_logprobs = True
    retrieval = "transition-matrix"
    wants_costs = True
    settings_class = AutoSettings

    def __init__(self, settings: AutoSettings) -> None:
        super().__init__(settings)
        self._rates = Rates()
        self._drafted, self._retrieved = AcceptanceRates(), AcceptanceRates()
        self._pace = _Pace()
        self._worth = _DraftWorth()
        self._reach = LEAST_REACH
        self._text = CopiedText()
        self._context = 0
        self._bill: _Bill | None = None
        self._round: _Round | None = None

    @property
    def max_nodes(self) -> int:
        return min(self.settings.most, self.costs.max_nodes) if self.costs is not None else self.settings.most

    @property
    def reach(self) -> int:
        """Nodes that the next plan can hold: twice as many as the last where its better half was wanted, and half as
        many where hardly any were. So a plan costs a CPU, where small trees pay, no more than they need."""
        return min(self._reach, self.max_nodes)

    @property
    def columns(self) -> int:
        return columns(self.max_nodes)

    def begin(self, prompt: Sequence[int], *_: object) -> None:
        """The context begins with the prompt."""
        self._text = CopiedText(prompt)
        self._context = len(prompt)
        self._round = None

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        return self.grow_beside(drafter, None, root, max_depth)

    def grow_beside(
        self, drafter: Drafter | None, retrieval: StepwiseDrafter | None, root: int, max_depth: int
    ) -> Growth:
        """The decision tells the way (drafted, retrieved or plain), what was expected, and the rate at some budgets."""
        if not isinstance(drafter, OnePassDrafter):
            raise Incompatible(f"{self.title} needs a one-pass drafter.", "Choose a block-diffusion drafter.")
        bill = self._current_bill()
        rows = successor_rows(retrieval, self.title) if self.settings.retrieve else NO_ROWS
        chain = self._text.chain(root) if self.settings.retrieve and self.settings.copy else NO_CHAIN
        drafts = max_depth > 0 and self._worth.pays(chain.matched)
        marginals = drafter.marginals(root, k=columns(self.reach)) if drafts else NO_MARGINALS
        sequel = drafter.sequel() if drafts and self.settings.follow else NO_SEQUEL
        acceptance, milliseconds = (self._drafted, bill.drafted) if drafts else (self._retrieved, bill.alone)
        share = acceptance.share if self.settings.calibrate else UNCORRECTED
        prices = Prices(share, milliseconds, bill.slope)
        plan = GraftPlan(root, marginals, rows, self._rates, self.reach, max_depth, chain, sequel, prices)
        chance = chances(plan.plan.score, share)
        choice = best_budget(chance, milliseconds)
        self._round = _Round(plan, choice, acceptance)
        self._settle_reach(choice.nodes)
        tree = plan.tree(choice.nodes)
        decision = {
            **plan.decision(tree),
            "way": "drafted" if drafts else "retrieved" if tree.drafted else "plain",
            "expected_accepted": choice.expected_accepted,
            "expected_tokens_per_second": choice.tokens_per_second,
            "expected_ms": choice.milliseconds,
            "by_budget": rate_curve(chance, milliseconds, bill.costs.nodes),
            "acceptance_factor": acceptance.as_json(),
        }
        return Growth(tree, marginals if drafts else None, decision)

    def observe(self, tree: Tree, verdict: Verdict) -> None:
        """Learns what rows, weights and drafts were worth; the context grows by the accepted path."""
        self._context += len(verdict.path)
        self._text.read(tree.token[verdict.path].tolist())
        if self._round is None or self._bill is None:
            return
        plan, choice, acceptance = self._round
        heard = plan.heard(tree, verdict)
        if acceptance is self._drafted:
            added = verdict.accepted - self._rates.held_alone(plan.chain, heard, LEAST_ALONE)
            longer = choice.milliseconds - self._bill.alone[plan.retrieved(tree.drafted)]
            self._worth.learn(plan.chain.matched, added - self._pace.rate * longer)
        self._rates.learn(plan.chain, heard)
        acceptance.learn(plan.plan.score[: tree.drafted], verdict.path)
        self._pace.learn(len(verdict.path), choice.milliseconds)
        self._round = None

    def _current_bill(self) -> "_Bill":
        """What rounds cost at about the present context."""
        if self.costs is None:
            raise Incompatible(
                f"{self.title} needs to know what rounds cost on this machine, and no costs were measured.",
                "Let it decode, or choose ddtree-graft with a budget.",
            )
        context = self._context // CONTEXT_STEP * CONTEXT_STEP
        if self._bill is None or not self._bill.holds(self.costs, context, self.reach):
            self._bill = _Bill(self.costs, context, self.reach)
        return self._bill

    def _settle_reach(self, nodes: int) -> None:
        """After a plan of which so many nodes are verified."""
        if nodes > self.reach // 2:
            self._reach = min(2 * self._reach, self.max_nodes)
        elif nodes < self._reach // 8:
            self._reach = max(self._reach // 2, LEAST_REACH)


class _Round(NamedTuple):
    plan: GraftPlan
    choice: Choice
    acceptance: AcceptanceRates
    """Of plans of its kind."""


class _Bill:
    """What rounds cost at one length of the context: plans of up to `reach` nodes, in milliseconds `[reach + 1]`."""

    def __init__(self, costs: RoundCosts, context: int, reach: int) -> None:
        self.costs, self.context, self.reach = costs, context, reach
        self.alone = costs.verify(context, reach) + costs.beside_ms
        self.drafted = self.alone + costs.draft(context)
        self.slope = least_slopes(self.alone)

    def holds(self, costs: RoundCosts, context: int, reach: int) -> bool:
        """Whether it is the bill of these."""
        return (self.costs is costs) and (self.context, self.reach) == (context, reach)


class _Pace:
    """Tokens per millisecond that rounds have brought lately, by the table's costs."""

    def __init__(self) -> None:
        self._tokens = self._milliseconds = 0.0

    @property
    def rate(self) -> float:
        """0 before the first round."""
        return self._tokens / self._milliseconds if self._tokens else 0.0

    def learn(self, tokens: int, milliseconds: float) -> None:
        """Counts a round; the bonus is among the `tokens`."""
        keep = np.exp(-1.0 / MEMORY)
        self._tokens = keep * self._tokens + tokens
        self._milliseconds = keep * self._milliseconds + milliseconds


class _DraftWorth:
    """What drafts have lately been worth, in tokens, for each class of `MATCHED`."""

    def __init__(self) -> None:
        classes = len(MATCHED) + 1
        self._worth = np.full(classes, PRIOR_WORTH)
        self._drafts = np.full(classes, PRIOR_DRAFTS)
        self._since = np.zeros(classes, int)
        """Rounds of the class since its last draft."""

    def pays(self, matched: int) -> bool:
        """Whether to draft behind a match of so many tokens."""
        place = _class(matched)
        self._since[place] += 1
        return bool(self._worth[place] > 0 or self._since[place] > PROBE_EVERY)

    def learn(self, matched: int, worth: float) -> None:
        """Counts a draft."""
        place = _class(matched)
        self._since[place] = 0
        self._drafts[place] += 1
        self._worth[place] += (worth - self._worth[place]) / min(self._drafts[place], MEMORY)


def _class(matched: int) -> int:
    return int(np.searchsorted(MATCHED, matched, side="right"))

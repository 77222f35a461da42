"""Auto: no budget to set; every round verifies as many nodes as pay for themselves on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from decoding.drafters.base import Drafter, OnePassDrafter, StepwiseDrafter
from decoding.errors import Incompatible
from decoding.kernels.sequel import NO_SEQUEL, Sequel
from decoding.round_costs import RoundCosts
from decoding.settings import Settings, option
from decoding.strategies.acceptance_rates import AcceptanceRates, Choice, best_budget, rate_curve
from decoding.strategies.base import Growth, Strategy
from decoding.strategies.copying import NO_CHAIN, Chain, CopiedText
from decoding.strategies.graft_plan import (
    NO_MARGINALS,
    NO_ROWS,
    GraftPlan,
    Rates,
    columns,
    said_after_root,
    successor_rows,
)
from decoding.tree import accepted_path
from decoding.types import Ints, Marginals, Tree, Verdict

MATCHED = np.array([1, 12])
"""What drafts are worth is kept apart by how long the match is after which the text repeats itself: the least lengths
of all classes but the first, in which nothing is copied."""
JUDGED = 4
"""One drafted round in so many is set against what would have been verified without its draft."""
PRIOR_WORTH, PRIOR_DRAFTS = 0.5, 6
"""Tokens that drafts of every class are believed to be worth at first, and how many judged ones that belief counts."""
PROBE_EVERY = 24
"""Where drafting does not pay, it is tried again after so many rounds of the class."""
MEMORY = 40.0
"""Rounds after which an old one counts 1/e in the pace of the run, and judged drafts in what drafts are worth."""
LEAST_REACH = 64
"""Nodes that a plan can hold at least: more are planned only where large trees have paid."""


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

    Now and then a drafted round is set against the plan that retrieval alone would have made, of which the text says
    what it would have been worth, too. Where matches are so long that the tokens which drafts added were fewer than the
    run brings in the time that they took, nothing is drafted; sometimes drafting is tried again.
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
        self._drafting, self._retrieving = _Way(), _Way()
        self._pace = _Pace()
        self._worth = _DraftWorth()
        self._reach = LEAST_REACH
        self._text = CopiedText()
        self._context = 0
        self._round: _Round | None = None
        self._without: _Round | None = None
        """What would have been verified without the draft."""

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
        self._round = self._without = None

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        return self.grow_beside(drafter, None, root, max_depth)

    def grow_beside(
        self, drafter: Drafter | None, retrieval: StepwiseDrafter | None, root: int, max_depth: int
    ) -> Growth:
        """The decision tells the way (drafted, retrieved or plain), what was expected, and the rate at some budgets."""
        if not isinstance(drafter, OnePassDrafter):
            raise Incompatible(f"{self.title} needs a one-pass drafter.", "Choose a block-diffusion drafter.")
        costs = self._known_costs()
        rows = successor_rows(retrieval, self.title) if self.settings.retrieve else NO_ROWS
        chain = self._text.chain(root) if self.settings.retrieve and self.settings.copy else NO_CHAIN
        drafts = max_depth > 0 and self._worth.pays(chain.matched)
        self._without = None
        if not drafts:
            chosen = self._plan_alone(root, rows, chain, max_depth, costs)
        else:
            if self._worth.wants(chain.matched):
                self._without = self._plan_alone(root, rows, chain, max_depth, costs)
            marginals = drafter.marginals(root, k=columns(self.reach))
            sequel = drafter.sequel() if self.settings.follow else NO_SEQUEL
            chosen = self._consider(self._drafting, root, marginals, sequel, rows, chain, max_depth, costs)
        self._round = chosen
        if chosen.choice.nodes > self.reach // 2:
            self._reach = min(2 * self._reach, self.max_nodes)
        elif chosen.choice.nodes < self._reach // 8:
            self._reach = max(self._reach // 2, LEAST_REACH)
        tree = chosen.plan.tree(chosen.choice.nodes)
        return Growth(tree, chosen.plan.marginals if drafts else None, self._decision(chosen, tree, drafts))

    def observe(self, tree: Tree, verdict: Verdict) -> None:
        """Learns what rows, weights and drafts were worth; the context grows by the accepted path."""
        self._context += len(verdict.path)
        self._text.read(tree.token[verdict.path].tolist())
        if self._round is None:
            return
        way, plan, choice = self._round.way, self._round.plan, self._round.choice
        plan.teach(way.rates, tree, verdict)
        if way is self._drafting:  # what retrieval would have been worth shows without its being tried
            plan.teach(self._retrieving.rates, tree, verdict, drafted=False)
        accepted = np.isin(np.arange(1, len(tree)), verdict.path)
        way.acceptance.learn(plan.plan.score[: tree.drafted], accepted)
        if self._without is not None:
            self._judge_draft(self._without, choice, said_after_root(tree, verdict), len(verdict.path))
        self._pace.learn(len(verdict.path), choice.milliseconds)
        self._round = self._without = None

    def _judge_draft(self, without: "_Round", choice: Choice, said: list[int], tokens: int) -> None:
        """What a draft added: tokens, less those that the run brings in the time that it took; and what came true of
        the plan without it, as far as the text is known."""
        nodes, plan = without.choice.nodes, without.plan.plan
        alone = accepted_path(without.plan.tree(nodes), said)
        longer = choice.milliseconds - without.choice.milliseconds
        self._worth.learn(without.plan.chain.matched, tokens - len(alone) - self._pace.rate * longer)
        known = plan.depth[:nodes] < len(said)
        self._retrieving.acceptance.learn(plan.score[:nodes][known], np.isin(np.arange(1, nodes + 1), alone)[known])

    def _known_costs(self) -> RoundCosts:
        if self.costs is None:
            raise Incompatible(
                f"{self.title} needs to know what rounds cost on this machine, and no costs were measured.",
                "Let it decode, or choose ddtree-graft with a budget.",
            )
        return self.costs

    def _plan_alone(self, root: int, rows: Ints, chain: Chain, max_depth: int, costs: RoundCosts) -> "_Round":
        """Without a draft."""
        return self._consider(self._retrieving, root, NO_MARGINALS, NO_SEQUEL, rows, chain, max_depth, costs)

    def _consider(
        self,
        way: "_Way",
        root: int,
        marginals: Marginals,
        sequel: Sequel,
        rows: Ints,
        chain: Chain,
        max_depth: int,
        costs: RoundCosts,
    ) -> "_Round":
        plan = GraftPlan(root, marginals, rows, way.rates, self.reach, max_depth, chain, sequel)
        score = plan.plan.score
        chance = way.acceptance.correct(score) if self.settings.calibrate else np.exp(score)
        milliseconds = costs.verify(self._context, len(chance)) + costs.beside_ms
        if way is self._drafting:
            milliseconds = milliseconds + costs.draft(self._context)
        return _Round(way, plan, best_budget(chance, milliseconds), rate_curve(chance, milliseconds, costs.nodes))

    def _decision(self, chosen: "_Round", tree: Tree, drafts: bool) -> dict[str, Any]:
        return {
            **chosen.plan.decision(tree),
            "way": "drafted" if drafts else "retrieved" if tree.drafted else "plain",
            "expected_accepted": chosen.choice.expected_accepted,
            "expected_tokens_per_second": chosen.choice.tokens_per_second,
            "expected_ms": chosen.choice.milliseconds,
            "by_budget": chosen.curve,
            "acceptance_factor": chosen.way.acceptance.as_json(),
        }


class _Way:
    """What has been learnt of one way to plan: with a draft, or from retrieval alone."""

    def __init__(self) -> None:
        self.rates = Rates()
        self.acceptance = AcceptanceRates()


class _Round(NamedTuple):
    way: _Way
    plan: GraftPlan
    choice: Choice
    curve: dict[str, Any]


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
        self._judged = np.full(classes, PRIOR_DRAFTS)
        self._since = np.zeros(classes, int)
        """Rounds since drafts of the class were last judged."""

    def pays(self, matched: int) -> bool:
        """Whether to draft behind a match of so many tokens."""
        place = _class(matched)
        self._since[place] += 1
        return bool(self._worth[place] > 0 or self._since[place] > PROBE_EVERY)

    def wants(self, matched: int) -> bool:
        """Whether a draft there is to be judged: often where little is known of drafts, or little speaks for them."""
        place = _class(matched)
        doubtful = self._judged[place] < PRIOR_DRAFTS + JUDGED or self._worth[place] < PRIOR_WORTH / 2
        return bool(doubtful or self._since[place] >= JUDGED)

    def learn(self, matched: int, worth: float) -> None:
        """Counts a judged draft."""
        place = _class(matched)
        self._since[place] = 0
        self._judged[place] += 1
        self._worth[place] += (worth - self._worth[place]) / min(self._judged[place], MEMORY)


def _class(matched: int) -> int:
    return int(np.searchsorted(MATCHED, matched, side="right"))

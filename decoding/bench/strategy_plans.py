"""Which strategies `bench strategies` sets against each other with a drafter, and what is claimed of them."""

from collections.abc import Sequence
from enum import Enum
from itertools import product

from decoding.bench.drafter_trees import Config
from decoding.bench.strategy_claims import Claim, Comparison, Figure
from decoding.drafters.base import Drafter, OnePassDrafter
from decoding.settings import Value
from decoding.strategies.graft import GraftSettings

LONGEST_CHAIN = 16
"""Of a stepwise drafter. One-pass drafters: their block."""
FIXED_TREES = tuple(product((3, 5, 8), (2, 3), (0.1, 0.3)))
"""Depth, branching and threshold: a small sweep around the best of DynaTree's (D = 8, B = 3, tau = .1)."""
PLAIN = "plain"


class How(Enum):
    """How the rounds of a way come about."""

    REPLAYED = "replayed"
    """On the recorded text: exact for what learns nothing from the target's opinions (see `decoding.replay`)."""
    OVER_MARGINALS = "replayed over marginals"
    """Likewise, a stepwise strategy over the marginals of a one-pass drafter. Its speed is not judged."""
    DECODED = "decoded"
    """By the loop, with the strategy's retrieval source beside the drafter."""
    RETRIEVED = "decoded by retrieval alone"
    """By the loop, with the transition matrix as the drafter."""

    @property
    def decodes(self) -> bool:
        return self in (How.DECODED, How.RETRIEVED)


class Plan:
    """The ways to measure and the claims to judge with one drafter."""

    def __init__(self) -> None:
        self.ways: dict[str, tuple[How, Config]] = {}
        """By title."""
        self.claims: list[Claim] = []

    def way(self, title: str, how: How, strategy: str, **settings: Value) -> str:
        """Adds a way, unless there is one of that title, and returns the title."""
        self.ways.setdefault(title, (how, Config(title, strategy, settings)))
        return title

    def claim(
        self, text: str, figure: Figure, comparisons: Sequence[Comparison], least: float = 1, strictly: bool = True
    ) -> None:
        self.claims.append(Claim(text, figure, tuple(comparisons), least, strictly))

    @property
    def needs_costs(self) -> bool:
        return any(claim.figure == "tokens_per_second" for claim in self.claims)


def plan_for(drafter: Drafter, budgets: Sequence[int], categories: Sequence[str]) -> Plan:
    """The plan for a loaded drafter; every claim that its kind can show."""
    plan = Plan()
    if isinstance(drafter, OnePassDrafter):
        _tree_over_chain(plan, "ddtree", How.REPLAYED, _sizes(budgets, drafter.positions))
        _ddtree_over_others(plan, budgets)
        _graft_over_a_block(plan)
        _auto_over_fixed_budgets(plan, budgets, categories)
        _both_over_parents(plan, budgets)
        return plan
    how = How.DECODED if drafter.wants_prompt_next else How.REPLAYED
    tree = "eagle" if drafter.gives_logprobs else "recycle"
    _tree_over_chain(plan, tree, how, _sizes(budgets, LONGEST_CHAIN))
    if drafter.gives_logprobs:
        _dynatree_over_fixed(plan)
        _graft_over_variants(plan, budgets)
    return plan


def _sizes(budgets: Sequence[int], longest: int) -> list[int]:
    """Budgets that a chain can use up."""
    return sorted({min(budget, longest) for budget in budgets})


def _tree_over_chain(plan: Plan, tree: str, how: How, sizes: Sequence[int]) -> None:
    comparisons = []
    for size in sizes:
        ours = plan.way(f"{tree} {size}", how, tree, budget=size)
        comparisons.append(Comparison(str(size), ours, (plan.way(f"chain {size}", how, "linear", budget=size),)))
    plan.claim("a tree beats a chain of as many nodes", "tokens_per_round", comparisons)


def _ddtree_over_others(plan: Plan, budgets: Sequence[int]) -> None:
    """A fixed tree without its threshold: that would make it smaller."""
    over = How.OVER_MARGINALS
    comparisons = []
    for budget in budgets:
        others = (
            plan.way(f"chain {budget}", How.REPLAYED, "linear", budget=min(budget, 64)),
            plan.way(f"fixed {budget}", over, "fixed", budget=budget, threshold=0),
            plan.way(f"template {budget}", over, "recycle", budget=budget),
            plan.way(f"eagle {budget}", over, "eagle", budget=budget),
            plan.way(f"opt_tree {budget}", over, "opt_tree", budget=budget),
            plan.way(f"dynatree {budget}", over, "dynatree", budget=budget),
        )
        ours = plan.way(f"ddtree {budget}", How.REPLAYED, "ddtree", budget=budget)
        comparisons.append(Comparison(str(budget), ours, others))
    text = "DDTree is at or above every other tree of its size over the same marginals"
    plan.claim(text, "tokens_per_round", comparisons, strictly=False)


def _graft_over_a_block(plan: Plan) -> None:
    """Appendix F: over the drafter's own chain (nothing pruned, so nothing is retrieved), and over its sure part."""
    ours = plan.way("graft-block", How.DECODED, "graft-block")
    whole = plan.way("graft-block without pruning", How.REPLAYED, "graft-block", prune=False, retrieve=False)
    pruned = plan.way("graft-block without retrieval", How.REPLAYED, "graft-block", retrieve=False)
    _graft_claims(plan, "Graft over a block", [Comparison("", ours, (variant,)) for variant in (whole, pruned)])


def _graft_over_variants(plan: Plan, budgets: Sequence[int]) -> None:
    """Figure 5 of Graft, with the paper's budget and others. All are decoded, so that their drafts are timed alike."""
    compared = []
    for budget in sorted({*budgets, GraftSettings().budget}):
        ours = plan.way(f"graft {budget}", How.DECODED, "graft", budget=budget)
        whole = plan.way(f"graft {budget} without pruning", How.DECODED, "graft", budget=budget, prune=False)
        pruned = plan.way(f"graft {budget} without retrieval", How.DECODED, "graft", budget=budget, retrieve=False)
        compared += [Comparison(str(budget), ours, (variant,)) for variant in (whole, pruned)]
    _graft_claims(plan, "Graft", compared)


def _graft_claims(plan: Plan, name: str, compared: Sequence[Comparison]) -> None:
    figures: tuple[Figure, ...] = ("tokens_per_round", "tokens_per_second")
    for figure in figures:
        plan.claim(f"{name} is above itself without pruning and without retrieval", figure, compared)


def _dynatree_over_fixed(plan: Plan) -> None:
    ours = plan.way("dynatree", How.REPLAYED, "dynatree")
    others = [
        plan.way(f"fixed D={depth} B={branching} tau={threshold:g}", How.REPLAYED, "fixed",
                 depth=depth, branching=branching, threshold=threshold)
        for depth, branching, threshold in FIXED_TREES
    ]  # fmt: skip
    each = [Comparison("", ours, tuple(others))]
    plan.claim("DynaTree is faster than the best fixed tree", "tokens_per_second", each)


def _auto_over_fixed_budgets(plan: Plan, budgets: Sequence[int], categories: Sequence[str]) -> None:
    """Plain decoding is the fixed budget 0."""
    ours = plan.way("auto", How.DECODED, "auto")
    fixed = [plan.way(PLAIN, How.REPLAYED, "ar")]
    for budget in budgets:
        fixed += [plan.way(f"ddtree {budget}", How.REPLAYED, "ddtree", budget=budget), _both(plan, budget)]
    each = [Comparison(name, ours, tuple(fixed), name) for name in categories]
    text = "auto is within 2% of the best fixed budget in each category"
    plan.claim(text, "tokens_per_second", each, least=0.98, strictly=False)
    mean = [Comparison("", ours, tuple(fixed))]
    plan.claim("auto is above any one fixed budget on the mean", "tokens_per_second", mean)


def _both_over_parents(plan: Plan, budgets: Sequence[int]) -> None:
    comparisons = []
    for budget in budgets:
        parents = (
            plan.way(f"ddtree {budget}", How.REPLAYED, "ddtree", budget=budget),
            plan.way(f"recycle {budget}", How.RETRIEVED, "recycle", budget=budget),
        )
        comparisons.append(Comparison(str(budget), _both(plan, budget), parents))
    text = "ddtree-graft is at or above both its parents at the same budget"
    plan.claim(text, "tokens_per_round", comparisons, strictly=False)


def _both(plan: Plan, budget: int) -> str:
    return plan.way(f"ddtree-graft {budget}", How.DECODED, "ddtree-graft", budget=budget)

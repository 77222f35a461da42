"""A plan over marginals, rows of a transition matrix and a copied chain, as trees, decisions and lessons."""

from typing import Any

import numpy as np

from decoding.drafters.base import StepwiseDrafter
from decoding.errors import Incompatible
from decoding.kernels.grafted_selection import Drafted, Plan, edges_of, pop_plan
from decoding.kernels.prices import NO_PRICES, Prices
from decoding.kernels.sequel import NO_SEQUEL, Sequel
from decoding.strategies.copying import NO_CHAIN, Chain, CopyRates, agreement
from decoding.strategies.hit_rates import ALONE, FLOORS, NO_CANDIDATES, NO_LOGPROBS, HitRates, Trial
from decoding.template import CHOICES
from decoding.types import Floats, Ints, Marginals, Tree, Verdict

NO_ROWS = np.empty((0, 0), np.int32)
NO_MARGINALS = Marginals(np.empty((0, 1), np.int32), np.empty((0, 1), np.float32))


def columns(budget: int) -> int:
    """Candidates of a position that a plan of `budget` nodes can need (as DDTree's Lemma 1): the nodes themselves, what
    a row can hold beside them, and all that are likely enough to count as drafted where a row holds them."""
    return max(budget + CHOICES, int(1 / FLOORS[1]))


def successor_rows(retrieval: StepwiseDrafter | None, title: str) -> Ints:
    """The table of a retrieval source; raises Incompatible where there is none."""
    rows = retrieval.successors() if retrieval is not None else None
    if rows is None:
        raise Incompatible(f"{title} needs a transition matrix beside its drafter.", "Or set retrieve=false.")
    return rows


class Rates:
    """How often each kind of retrieved node is right, as the rounds of a run go."""

    def __init__(self) -> None:
        self.hits = HitRates()
        self.copied = CopyRates()


class GraftPlan:
    """A plan of at most `budget` nodes, heaviest first; any first part of it can become the tree."""

    def __init__(
        self,
        root: int,
        marginals: Marginals,
        rows: Ints,
        rates: Rates,
        budget: int,
        max_depth: int,
        chain: Chain = NO_CHAIN,
        sequel: Sequel = NO_SEQUEL,
        prices: Prices = NO_PRICES,
    ) -> None:
        """`sequel` is the drafter's sequential head in this round, if what follows a node is to depend on it. By
        `prices` the plan ends where no more nodes can pay."""
        self.root = root
        self.marginals = marginals
        self.chain = chain
        self._rows = rows if len(rows) else np.empty((int(max(root, marginals.token.max(initial=0))) + 1, 0), np.int32)
        drafted = Drafted(marginals.token, marginals.logprob, sequel)
        copied, weights = rates.copied.weighed(chain, marginals), rates.hits.weights()
        self.plan: Plan = pop_plan(root, drafted, self._rows, copied, weights, budget, max(max_depth, 0), prices)
        self._seen = np.array(self._rows[np.concatenate([[root], self.plan.token])])
        self._rates = rates.hits

    def tree(self, count: int) -> Tree:
        """The first `count` nodes of the plan below the root, in its order."""
        return Tree(*edges_of(self.plan, count, self.root, self.marginals.logprob))

    def decision(self, tree: Tree) -> dict[str, Any]:
        """What was decided for a `tree` made of this plan, asked before the round teaches anything; `grafts` and
        `merged` as in Graft. `copied` are nodes of the chain that were not drafted: the first token of the chain stands
        at `place` of prompt and output."""
        count, whole = tree.drafted, self.plan
        plan = Plan._make([*(numbers[:count] for numbers in whole[:-1]), whole.believed])
        above = np.where(plan.parent >= 0, plan.score[plan.parent], 0.0)
        grafts = np.flatnonzero((plan.draft_rank < 0) & (plan.copied == 0))
        copied = np.flatnonzero((plan.draft_rank < 0) & (plan.copied > 0))
        return {
            "nodes": count,
            "depth": int(plan.depth.max(initial=-1)) + 1,
            "expected_accepted": float(np.exp(plan.score).sum()),
            "grafts": {
                "node": (grafts + 1).tolist(),
                "row": tree.token[tree.parent[grafts + 1]].tolist(),
                "rank": plan.row_rank[grafts].tolist(),
            },
            "copied": {"node": (copied + 1).tolist(), "place": self.chain.place, "matched": self.chain.matched},
            "graft_weight": np.round(np.exp((plan.score - above)[grafts]), 5).tolist(),
            "merged": (np.flatnonzero((plan.draft_rank >= 0) & (plan.row_rank >= 0)) + 1).tolist(),
            "rates": self._rates.as_json(),
        }

    def teach(self, rates: Rates, tree: Tree, verdict: Verdict) -> None:
        """What the target said after every accepted node of a `tree` made of this plan."""
        rates.copied.learn(self.chain, self.marginals, said_after_root(tree, verdict))
        for trial in self.trials(tree, verdict):
            rates.hits.learn(trial)

    def trials(self, tree: Tree, verdict: Verdict) -> list[Trial]:
        """What the rows of accepted nodes were tried with; nothing without retrieval."""
        if not self._seen.shape[1]:
            return []
        known = zip(verdict.path.tolist(), said_after_root(tree, verdict), strict=False)
        beside_draft = len(self.marginals.token) > 0
        return [
            Trial(self._seen[node], depth, token, *thought, beside_draft)
            for depth, (node, token) in enumerate(known)
            if (thought := self._thought(node, depth)) is not None
        ]

    def retrieved(self, count: int) -> int:
        """How many of the first `count` nodes are retrieved, be they drafted, too."""
        return int(np.count_nonzero((self.plan.row_rank[:count] >= 0) | (self.plan.copied[:count] > 0)))

    def retrieved_alone(self, rates: Rates, tree: Tree, verdict: Verdict, least: float) -> int:
        """How many tokens of what the target said after the root a plan without a draft would have held, if that held
        all paths that weigh at least `least`: along the chain, and along the rows of accepted nodes."""
        said = said_after_root(tree, verdict)
        copied = self.chain._replace(token=self.chain.token[: agreement(self.chain, said)])
        edges = np.exp(rates.copied.weighed(copied, NO_MARGINALS).weight).tolist()
        edges += [0.0] * (len(said) - len(edges))
        weight, retrieved = 1.0, rates.hits.retrieved[ALONE]
        for count, (node, token) in enumerate(zip(verdict.path.tolist(), said, strict=False)):
            ranks = np.flatnonzero(self._seen[node] == token)
            weight *= max([edges[count], *retrieved[ranks]])
            if weight < least:
                return count
        return len(said)

    def _thought(self, node: int, depth: int) -> tuple[Ints, Floats] | None:
        """The candidates below a node and what the drafter thought of them: none beyond the drafted positions; None
        where it was not asked."""
        if depth >= len(self.marginals.token):
            return NO_CANDIDATES, NO_LOGPROBS
        if not 0 < node <= len(self.plan.believed):
            return self.marginals.token[depth], np.array(self.marginals.logprob[depth])
        believed = self.plan.believed[node - 1]
        return None if np.isnan(believed[0]) else (self.marginals.token[depth, : len(believed)], believed)


def said_after_root(tree: Tree, verdict: Verdict) -> list[int]:
    """The tokens of the accepted path and the bonus, where there is one."""
    said = [*tree.token[verdict.path[1:]].tolist(), verdict.bonus]
    return said if verdict.bonus >= 0 else said[:-1]

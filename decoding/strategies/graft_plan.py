"""A plan over marginals, rows of a transition matrix and a copied chain, as trees, decisions and lessons."""

from typing import Any

import numpy as np

from decoding.drafters.base import StepwiseDrafter
from decoding.errors import Incompatible
from decoding.kernels.grafted_selection import Drafted, Plan, edges_of, pop_plan
from decoding.kernels.hit_counts import Heard
from decoding.kernels.prices import NO_PRICES, Prices
from decoding.kernels.sequel import NO_SEQUEL, Sequel
from decoding.strategies.copying import NO_CHAIN, Chain, CopyRates
from decoding.strategies.hit_rates import ALONE, FLOORS, HitRates
from decoding.template import CHOICES
from decoding.types import Ints, Marginals, Tree, Verdict

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

    def learn(self, chain: Chain, heard: Heard) -> None:
        """Counts what a round's `chain` and the rows of its accepted nodes were worth."""
        self.copied.learn(chain, heard)
        self.hits.learn(heard)

    def held_alone(self, chain: Chain, heard: Heard, least: float) -> int:
        """How many tokens of what the target said after the root a plan without a draft would have held, if that held
        all paths that weigh at least `least`: along the chain, and along the rows of accepted nodes."""
        return self.copied.held_alone(chain, heard, self.hits.retrieved[ALONE], least)


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
        count = tree.drafted
        plan = Plan._make([numbers[:count] for numbers in self.plan])
        drafted, copied = plan.draft_rank >= 0, plan.copied > 0
        grafts, copies = np.flatnonzero(~(drafted | copied)), np.flatnonzero(~drafted & copied)
        above = [float(self.plan.score[place]) if place >= 0 else 0.0 for place in plan.parent[grafts].tolist()]
        return {
            "nodes": count,
            "depth": int(plan.depth.max(initial=-1)) + 1,
            "expected_accepted": float(np.exp(plan.score).sum()),
            "grafts": {
                "node": (grafts + 1).tolist(),
                "row": tree.token[tree.parent[grafts + 1]].tolist(),
                "rank": plan.row_rank[grafts].tolist(),
            },
            "copied": {"node": (copies + 1).tolist(), "place": self.chain.place, "matched": self.chain.matched},
            "graft_weight": np.round(np.exp(plan.score[grafts] - above), 5).tolist(),
            "merged": (np.flatnonzero(drafted & (plan.row_rank >= 0)) + 1).tolist(),
            "rates": self._rates.as_json(),
        }

    def heard(self, tree: Tree, verdict: Verdict) -> Heard:
        """What the target said after every accepted node of a `tree` made of this plan."""
        said, drafted = _said_after_root(tree, verdict), self.marginals
        return Heard(verdict.path, said, self._seen, drafted.token, drafted.logprob, self.plan.believed)

    def retrieved(self, count: int) -> int:
        """How many of the first `count` nodes are retrieved, be they drafted, too."""
        return int(np.count_nonzero((self.plan.row_rank[:count] >= 0) | (self.plan.copied[:count] > 0)))


def _said_after_root(tree: Tree, verdict: Verdict) -> Ints:
    """The tokens of the accepted path and the bonus, where there is one."""
    said = np.append(tree.token[verdict.path[1:]], np.int32(verdict.bonus))
    return said if verdict.bonus >= 0 else said[:-1]

// One question "what if": a round, another tree in its place, and what the record says about it. No page in here.

import { growthByBudget, prefixTokens } from "./heap.js";
import { heapAfter } from "./heap_list.js";
import { PLANNERS, expectedAccepted, misfit } from "./planners.js";
import { orderOfRecorded, prefixOfRecorded } from "./recorded_prefix.js";
import { Rows } from "./rows.js";
import { acceptedPath, coming, decides, depthLimit, recordEnds } from "./score.js";
import { supposedRound } from "./supposed.js";

export const WITHIN = "within"; // in place of a strategy: the recorded tree's most probable nodes

// What does not depend on the budget or the strategy: made once for a round.
export class Ground {
  constructor(log, index, most) {
    this.log = log;
    this.round = log.rounds[index];
    this.tokens = coming(log, index);
    this.decided = decides(log);
    this.rows = this.round.marginals ? new Rows(this.round.marginals, depthLimit(log, index)) : null;
    this.growth = this.rows ? growthByBudget(this.rows, this.tokens, most) : null;
    this.order = this.rows ? null : orderOfRecorded(this.round);
  }

  // Why nothing else can be planned here; null where it can.
  refusal() {
    if (this.rows) return this.rows.positions ? null : "The text ends behind this round\u2019s root: there is nothing to draft.";
    if (this.order) return null;
    return "This needs a one-pass drafter (or one with probabilities): no marginals were recorded in this round, and the " +
      "nodes of its tree have no probability by which a smaller tree could be chosen.";
  }
}

// The tree of `strategy` with `settings` and `budget`: {plan, nodes, expected, accepted, atLeast, notes}. `accepted` is
// null where the text decides nothing. Where the record does not reach, the budget is cut and a note says so; a plan
// that cannot be made is null, with the reason in the notes.
export function answer(ground, strategy, settings, budget) {
  const notes = [];
  const plan = planned(ground, strategy, settings, budget, notes);
  if (!plan) return { plan: null, notes };
  const accepted = acceptedPath(plan, ground.tokens).length - 1;
  const scored = plan.logprob.every((logprob) => logprob !== null);
  return { plan, notes, nodes: plan.token.length - 1, expected: scored ? expectedAccepted(plan) : null,
    accepted: ground.decided ? accepted : null, atLeast: recordEnds(ground.log, ground.tokens, accepted) };
}

function planned(ground, strategy, settings, budget, notes) {
  const { rows, growth, round } = ground;
  if (strategy === WITHIN) {
    notes.push("No marginals were recorded: only smaller trees within the recorded one can be planned, its most " +
      "probable nodes first. Other strategies need a one-pass drafter.");
    return prefixOfRecorded(round, budget);
  }
  const asked = { ...settings, budget: Math.min(budget, PLANNERS[strategy].settings.budget.high) };
  const limit = strategy === "ddtree" ? growth.limit : strategy === "opt_tree" && !rows.holds(asked.budget) ? rows.ranks : Infinity;
  if (asked.budget > limit) {
    asked.budget = limit;
    notes.push(`The ${rows.ranks} recorded ranks decide trees of up to ${limit} nodes in this round: this is the one of ${limit}.`);
  }
  const wrong = misfit(strategy, asked, rows);
  if (wrong) return void notes.push(wrong);
  return PLANNERS[strategy].plan(rows, round.tree.token[0], asked);
}

// The round to show. With `heap`, all that enters the heap by `horizon` pops is shown too, so that nothing moves
// while the pops go on.
export function shownRound(ground, { plan, nodes }, name, pop = null, heap = false, horizon = 0) {
  const { rows, round } = ground;
  const state = pop ? heapAfter(rows, nodes, heap ? Math.min(horizon, ground.growth.limit) : nodes) : null;
  const waiting = new Set(state?.waiting);
  const others = !state || !heap ? [] : state.made.map((prefix) => ({
    path: prefixTokens(rows, prefix), logprob: rows.logprob[prefix.position][prefix.rank],
    fate: waiting.has(prefix) ? "waiting" : "later", key: prefix }));
  const shown = supposedRound(round, plan, ground.decided ? ground.tokens : null, name, others);
  if (state) {
    shown.lit = [{ node: nodes, role: "popped" }, { node: shown.keys.get(state.sibling), role: "sibling" },
      { node: shown.keys.get(state.child), role: "child" }].filter(({ node }) => node !== undefined);
  }
  return { shown, state };
}

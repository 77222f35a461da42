// The strategies that can be planned again from recorded marginals alone: name, settings and the tree they grow.
// Settings repeat the declarations in decoding/strategies (the tests compare them), because no server is asked here.
//
// Left out: `sampled` (draws its nodes), `svip` (needs the entropy of whole distributions, of which only the first
// ranks are recorded), `auto` (needs this machine's costs and the run's history), `ddtree-graft` and the retrieved part
// of `graft` and `graft-block` (need the table as it stood in that round), `lookahead`, `pld` and `sam` (do not draft
// from marginals), and DynaTree's history (needs the rounds that its own trees would have had).

import { pops } from "./heap.js";
import { chain, ddd, dynatree, eagle, echo, fixed, graftPruned, optTree, recycle } from "./layered.js";
import { CHOICES } from "./template.js";

const whole = (value, low, high, label) => ({ value, low, high, step: 1, label });
const share = (value, low, high, label) => ({ value, low, high, step: 0.01, label });

function ddtree(rows, root, { budget }) {
  const plan = { token: [root], parent: [-1], logprob: [0] };
  for (const { popped } of pops(rows)) {
    plan.token.push(rows.token[popped.position][popped.rank]);
    plan.parent.push(popped.parent ? popped.parent.place + 1 : 0);
    plan.logprob.push(rows.logprob[popped.position][popped.rank]);
    if (popped.place + 1 >= budget) break;
  }
  return plan;
}

// `asks`: the most ranks of a position that it looks at; what it would not find in the record, it cannot plan.
// DDTree's own limit is finer: see `growthByBudget`.
export const PLANNERS = {
  ddtree: { title: "DDTree (best first)", plan: ddtree, asks: () => 1, settings: {
    budget: whole(32, 1, 1024, "nodes") } },
  linear: { title: "Linear chain", plan: chain, asks: () => 1, settings: {
    budget: whole(5, 1, 64, "tokens") } },
  "graft-block": { title: "Sure chain (Graft over a block, no retrieval)", asks: () => 1,
    plan: (rows, root, settings) => chain(rows, root, settings, settings.tau_block), settings: {
      budget: whole(15, 1, 64, "tokens"), tau_block: share(0.3, 0, 1, "least probability of a token") } },
  fixed: { title: "Fixed tree", plan: fixed, asks: (settings) => settings.branching, settings: {
    budget: whole(256, 1, 1024, "nodes"), depth: whole(8, 1, 32, "levels"),
    branching: whole(3, 1, 16, "children of a node"), threshold: share(0.1, 0, 1, "least path probability") } },
  recycle: { title: "Static template (Token Recycling)", plan: recycle, asks: () => CHOICES, settings: {
    budget: whole(80, 1, 1024, "nodes") } },
  eagle: { title: "EAGLE dynamic tree", plan: eagle, asks: (settings) => settings.top_k, settings: {
    budget: whole(60, 1, 1024, "nodes"), top_k: whole(10, 1, 64, "beams"), depth: whole(7, 0, 31, "steps") } },
  dynatree: { title: "DynaTree, without history", plan: dynatree,
    asks: (settings) => Math.max(settings.max_branches, settings.root_width), settings: {
      budget: whole(256, 1, 1024, "nodes"), root_width: whole(1, 0, 16, "tokens after the root (0: by confidence)"),
      high_confidence: share(0.9, 0, 1, "\u03c4h: few children from here"),
      low_confidence: share(0.4, 0, 1, "\u03c4l: many children below"),
      min_branches: whole(1, 1, 16, "fewest children"), mid_branches: whole(2, 1, 16, "children in between"),
      max_branches: whole(3, 1, 16, "most children"), base_depth: whole(5, 1, 31, "D0: levels on every path"),
      max_depth: whole(8, 2, 32, "Dmax: levels on a likely path"),
      stop_below: share(0.1, 0, 1, "\u03c1stop: not drafted further"), deep_above: share(0.5, 0, 1, "\u03c1deep: may go deeper"),
      prune_below: share(0.05, 0, 1, "\u03c4: least path probability") } },
  opt_tree: { title: "OPT-Tree", plan: optTree, asks: (settings) => settings.budget, settings: {
    budget: whole(50, 1, 1024, "nodes"), threshold: share(0.5, 0, 1, "\u03b4: least gain of a layer"),
    depth: whole(10, 1, 64, "levels") } },
  ddd: { title: "Dynamic Depth Decoding", plan: ddd, asks: (settings) => settings.width, settings: {
    budget: whole(59, 1, 1024, "nodes"), depth: whole(11, 1, 64, "levels"), width: whole(10, 1, 64, "beams"),
    first_check: whole(5, 1, 64, "first check"), check_every: whole(2, 1, 64, "levels between checks"),
    last_check: whole(9, 1, 64, "last check"), threshold: share(-0.3, -20, 0, "log of the beam\u2019s probability") } },
  echo: { title: "ECHO (confidence gates)", plan: echo, asks: (settings) => settings.width, settings: {
    budget: whole(59, 1, 1024, "nodes"), depth: whole(8, 1, 64, "levels"), width: whole(10, 1, 64, "beams"),
    root_threshold: share(0.14, 0, 1, "gate at the root"), shallow_gate: whole(1, 1, 63, "depth of the second gate"),
    shallow_threshold: share(0.14, 0, 1, "its confidence"), deep_gate: whole(5, 1, 63, "depth of the third gate"),
    deep_threshold: share(0.49, 0, 1, "its confidence") } },
  graft: { title: "Graft, no retrieval", plan: graftPruned, asks: (settings) => settings.width, settings: {
    budget: whole(60, 1, 1024, "nodes"), depth: whole(8, 1, 32, "levels"), width: whole(10, 1, 64, "beams"),
    tau_d0: share(0.14, 0, 1, "gate d0"), tau_d1: share(0.14, 0, 1, "gate d1"), tau_d5: share(0.49, 0, 1, "gate d5") } },
};

export function defaults(name) {
  return Object.fromEntries(Object.entries(PLANNERS[name].settings).map(([key, { value }]) => [key, value]));
}

// What is wrong with the settings of a planner over these rows, in words; null where it can plan.
export function misfit(name, settings, rows) {
  const asks = PLANNERS[name].asks(settings);
  if (!rows.holds(asks)) return `It asks for ${asks} tokens of a position; ${rows.ranks} were recorded.`;
  const rising = name !== "dynatree" ||
    (settings.min_branches <= settings.mid_branches && settings.mid_branches <= settings.max_branches &&
     settings.low_confidence < settings.high_confidence && settings.base_depth < settings.max_depth &&
     settings.stop_below < settings.deep_above);
  return rising ? null : "Children must rise from fewest to most, \u03c4l stay below \u03c4h, D0 below Dmax and \u03c1stop below \u03c1deep.";
}

// The expected accepted tokens of a plan: the sum of its paths' probabilities under the drafter (Proposition 1).
export function expectedAccepted(plan) {
  const score = [0];
  let sum = 0;
  for (let node = 1; node < plan.token.length; node++) {
    score.push(score[plan.parent[node]] + Math.min(plan.logprob[node], 0));
    sum += Math.exp(score[node]);
  }
  return sum;
}

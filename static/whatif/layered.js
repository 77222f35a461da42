// The strategies that draft layer by layer, over one round's marginals. Each maps to its file in decoding/strategies;
// what is settled by thresholds is compared as there, so that the trees agree node for node.

import { Expansion, both, growBeams, range } from "./expansion.js";
import { CHOICES, recyclePaths } from "./template.js";

export function fixed(rows, root, { budget, depth, branching, threshold }) {
  const expansion = new Expansion(rows, root);
  const least = threshold > 0 ? Math.log(threshold) : -Infinity;
  let frontier = [0];
  for (let level = 0; level < depth && frontier.length; level++) {
    const layer = expansion.add(frontier, branching, (_, __, score) => score >= least);
    frontier = both(layer, expansion.best(budget));
  }
  return expansion.plan(expansion.best(budget));
}

export function eagle(rows, root, { budget, top_k: width, depth }) {
  const expansion = new Expansion(rows, root);
  let beams = [0];
  for (let level = 0; level < depth + 1 && beams.length; level++) {
    const layer = expansion.add(beams, width);
    beams = both(expansion.best(width, layer), expansion.best(budget));
  }
  return expansion.plan(expansion.best(budget));
}

// OPT-Tree, Algorithm 1: another layer as long as it raises the expected acceptance by more than the threshold.
export function optTree(rows, root, { budget, threshold, depth }) {
  const expansion = new Expansion(rows, root);
  let frontier = [0];
  let best = [];
  let before = 0;
  for (let level = 1; level <= Math.min(depth, budget); level++) {
    const layer = expansion.add(frontier, budget - level + 1);
    best = expansion.best(budget);
    const expected = best.reduce((sum, node) => sum + Math.exp(expansion.score[node]), 0);
    frontier = both(layer, best);
    if (expected - before <= threshold || !frontier.length) break;
    before = expected;
  }
  return expansion.plan(best);
}

// DDD, Equation 1: as deep as the logarithm of the beam's summed probability stays above the threshold.
export function ddd(rows, root, settings) {
  const { first_check: first, check_every: every, last_check: last, threshold } = settings;
  const goOn = (level, beam) =>
    level < first || level > last || (level - first) % every !== 0 || logOfSum(beam) >= threshold;
  const expansion = growBeams(rows, root, settings.depth, settings.width, goOn);
  return expansion.plan(expansion.best(settings.budget));
}

function logOfSum(logs) {
  return logs.reduce((sum, value) => {
    const high = Math.max(sum, value);
    return high === -Infinity ? high : high + Math.log1p(Math.exp(-Math.abs(sum - value)));
  }, -Infinity);
}

// ECHO: a gate after drafter step d + 1 ends the draft where its best path is not likelier than tau_d.
export function echo(rows, root, settings) {
  const gates = new Map([[0, settings.root_threshold]]);
  for (const gate of ["shallow", "deep"]) {
    const depth = settings[gate + "_gate"];
    gates.set(depth, Math.max(settings[gate + "_threshold"], gates.get(depth) ?? 0));
  }
  const goOn = (level, beam) => !gates.has(level - 1) || Math.exp(Math.max(...beam)) > gates.get(level - 1);
  const expansion = growBeams(rows, root, settings.depth, settings.width, goOn);
  return expansion.plan(expansion.best(settings.budget));
}

const GRAFT_STAGES = new Map([[0, { tau: "tau_d0", share: 8 }], [1, { tau: "tau_d1", share: 24 }],
  [5, { tau: "tau_d5", share: 40 }]]); // drafted nodes kept of the paper's 60

// Graft, Algorithm 2, lines 2 to 13, without retrieval: a gate ends the draft and cuts its budget to the stage's share.
export function graftPruned(rows, root, settings) {
  const expansion = new Expansion(rows, root);
  let frontier = [0];
  for (let level = 0; level < settings.depth; level++) {
    const layer = expansion.add(frontier, settings.width);
    if (!layer.length) break;
    const confidence = Math.exp(Math.max(...layer.map((node) => expansion.score[node])));
    const stage = GRAFT_STAGES.get(level);
    if (stage && confidence <= settings[stage.tau]) {
      const share = Math.max(1, Math.floor((2 * settings.budget * stage.share + 60) / 120));
      return expansion.plan(expansion.best(share));
    }
    frontier = expansion.best(settings.width, layer);
  }
  return expansion.plan(expansion.best(settings.budget));
}

// DynaTree, Algorithm 1, as in the first round of a run: the history has not moved its thresholds yet.
export function dynatree(rows, root, settings) {
  const expansion = new Expansion(rows, root);
  const room = () => settings.budget + 1 - expansion.length;
  const width = (node) => {
    if (!rows.has(expansion.depth[node], 0)) return 0;
    const confidence = Math.exp(rows.logprob[expansion.depth[node]][0]);
    return confidence >= settings.high_confidence ? settings.min_branches
      : confidence < settings.low_confidence ? settings.max_branches : settings.mid_branches;
  };
  const grow = (nodes, widthOf) => {
    let left = room();
    return expansion.add(nodes, settings.max_branches, (node, rank) => rank < widthOf(node) && left-- > 0);
  };
  const expanded = (node, level) => {
    const probability = Math.exp(expansion.score[node]);
    return probability >= settings.prune_below && level < settings.max_depth && probability >= settings.stop_below &&
      (level < settings.base_depth || probability > settings.deep_above);
  };
  let left = room();
  let frontier = settings.root_width
    ? expansion.add([0], settings.root_width, () => left-- > 0) : grow([0], width);
  for (let level = 0; frontier.length && room() > 0; level++) {
    frontier = grow(frontier.filter((node) => expanded(node, level)), width);
  }
  return expansion.plan();
}

// Token Recycling's template with the ranks of the marginals for successors; what is missing is left out.
export function recycle(rows, root, { budget }) {
  const index = new Map([["", 0]]);
  const plan = { token: [root], parent: [-1], logprob: [0] };
  for (const path of recyclePaths(budget)) {
    const above = index.get(path.slice(0, -1).join());
    const [position, rank] = [path.length - 1, path.at(-1) - 1];
    if (above === undefined || rank >= CHOICES || !rows.has(position, rank)) continue;
    index.set(path.join(), plan.token.length);
    plan.token.push(rows.token[position][rank]);
    plan.parent.push(above);
    plan.logprob.push(rows.logprob[position][rank]);
  }
  return plan;
}

// The best token of every position; with `least`, up to the first that is not likelier.
export function chain(rows, root, { budget }, least = -1) {
  const plan = { token: [root], parent: [-1], logprob: [0] };
  for (const position of range(0, Math.min(budget, rows.positions))) {
    const logprob = rows.logprob[position][0];
    if (Math.fround(Math.exp(logprob)) <= Math.fround(least)) break;
    plan.token.push(rows.token[position][0]);
    plan.parent.push(position);
    plan.logprob.push(logprob);
  }
  return plan;
}

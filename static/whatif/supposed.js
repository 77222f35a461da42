// A round that was never run: another tree in the place of the recorded one, in the form in which TreeView and
// NodePanel know rounds. What the target said is taken over for every node that was recorded; the rest is unknown.
//
// Behind the nodes of the tree stand ghosts: nodes that are shown but not in it. Their `fate` is one of GHOSTS.

import { RETRIEVAL, targetLogprob } from "../run_log.js";
import { acceptedPath } from "./score.js";

// `plan` {token, parent, logprob, source?}; `others` are more nodes to show, {path: tokens from the root, logprob,
// fate, key}; `tokens` the coming text, null where it decides nothing. `name` says what is supposed.
export function supposedRound(recorded, plan, tokens, name, others = []) {
  const nodes = new Nodes(recorded, plan);
  for (let node = 1; node < recorded.tree.token.length; node++) nodes.addRecorded(node);
  for (const other of others) nodes.addPath(other);
  const planned = plan.token.length;
  const path = tokens ? acceptedPath(plan, tokens) : [0];
  const accepted = path.length - 1;
  const end = path[accepted];
  const next = tokens?.[accepted];
  const round = {
    ...recorded,
    tree: nodes.tree(),
    ...nodes.shape(),
    standing: nodes.standing(),
    path, accepted, end,
    bonus: next === undefined ? null : { parent: end, token: next },
    drafted: planned - 1,
    supposed: name,
    keys: nodes.keys,
    recordedAs: nodes.same,
  };
  round.fate = fates(round, planned, nodes.fate, Boolean(tokens));
  round.verdict = verdict(recorded, round, tokens);
  round.retrieved = round.tree.source.slice(0, planned).filter((source) => source === RETRIEVAL).length;
  return round;
}

class Nodes {
  constructor(recorded, plan) {
    this.recorded = recorded;
    this.planned = plan.token.length;
    this.token = [...plan.token];
    this.parent = [...plan.parent];
    this.logprob = [...plan.logprob];
    this.source = plan.source ? [...plan.source] : plan.token.map((_, node) => (node ? 1 : 0));
    this.fate = plan.token.map(() => null);
    this.same = [0];
    this.keys = new Map();
    this.index = new Map();
    this.ofRecorded = new Map([[0, 0]]);
    for (let node = 1; node < this.planned; node++) this.index.set(this.parent[node] + " " + this.token[node], node);
    // Which recorded node each planned one is, by its way from the root.
    const edges = new Map(recorded.tree.token.map((token, node) => [recorded.tree.parent[node] + " " + token, node]));
    for (let node = 1; node < this.planned; node++) {
      const above = this.same[this.parent[node]];
      this.same[node] = above < 0 ? -1 : edges.get(above + " " + this.token[node]) ?? -1;
      if (this.same[node] >= 0) this.ofRecorded.set(this.same[node], node);
    }
  }

  #add(parent, token, logprob, source, fate, same) {
    const edge = parent + " " + token;
    const there = this.index.get(edge);
    if (there !== undefined) return there;
    const node = this.token.length;
    this.index.set(edge, node);
    this.token.push(token);
    this.parent.push(parent);
    this.logprob.push(logprob);
    this.source.push(source);
    this.fate.push(fate);
    this.same.push(same);
    return node;
  }

  addRecorded(node) {
    const { tree } = this.recorded;
    if (this.ofRecorded.has(node)) return;
    const above = this.ofRecorded.get(tree.parent[node]);
    this.ofRecorded.set(node, this.#add(above, tree.token[node], tree.logprob[node], tree.source[node], "gone", node));
  }

  // Shows one more node; a ghost that is there already takes the fate. Left out where its parent is not there.
  addPath({ path, logprob, fate, key }) {
    let above = 0;
    for (const token of path.slice(0, -1)) {
      above = this.index.get(above + " " + token);
      if (above === undefined) return;
    }
    const node = this.#add(above, path.at(-1), logprob, 1, fate, -1);
    if (node >= this.planned) this.fate[node] = fate;
    if (key !== undefined) this.keys.set(key, node);
  }

  tree() {
    return { token: this.token, parent: this.parent, logprob: this.logprob, source: this.source };
  }

  // Depth, cumulative log-probability and children of every node; siblings by probability, so that a node keeps its
  // place among them whether it is in the tree or a ghost.
  shape() {
    const count = this.token.length;
    const depth = new Int32Array(count);
    const cumulative = new Array(count).fill(0);
    const children = Array.from({ length: count }, () => []);
    for (let node = 1; node < count; node++) {
      const above = this.parent[node];
      depth[node] = depth[above] + 1;
      cumulative[node] = this.logprob[node] === null || cumulative[above] === null ? null
        : cumulative[above] + this.logprob[node];
      children[above].push(node);
    }
    const weight = (node) => this.logprob[node] ?? -1e9;
    for (const list of children) list.sort((a, b) => weight(b) - weight(a) || this.token[a] - this.token[b]);
    return { depth, cumulative, children };
  }

  // both: in this tree and the recorded one; here: only in this one; gone: only in the recorded one; null: in neither.
  standing() {
    return this.token.map((_, node) => (node >= this.planned ? (this.same[node] >= 0 ? "gone" : null)
      : this.same[node] >= 0 ? "both" : "here"));
  }
}

function fates(round, planned, ghosts, decided) {
  const fate = round.tree.token.map((_, node) => (node < planned ? "unreached" : ghosts[node]));
  if (decided) {
    for (const node of round.path) for (const child of round.children[node]) if (child < planned) fate[child] = "rejected";
    for (const node of round.path) fate[node] = "accepted";
  }
  fate[0] = "root";
  return fate;
}

// The recorded verdict, node by node; for a new node what the target's best list at its parent tells.
function verdict(recorded, round, tokens) {
  const { verdict: said } = recorded;
  const { token, parent } = round.tree;
  const all = { path: round.path, bonus: round.bonus?.token ?? null, logprob: [], rank: [], choice: [], entropy: [],
    top_token: [], top_logprob: [] };
  token.forEach((_, node) => {
    const same = round.recordedAs[node];
    const above = node ? round.recordedAs[parent[node]] : -1;
    const known = same >= 0;
    const listed = above < 0 ? -1 : said.top_token[above].indexOf(token[node]);
    all.logprob.push(known ? said.logprob[same] : above < 0 ? null : targetLogprob(recorded, above, token[node]));
    all.rank.push(known ? said.rank[same] : listed + 1);
    all.choice.push(known ? said.choice[same] : null);
    all.entropy.push(known ? said.entropy[same] : null);
    all.top_token.push(known ? said.top_token[same] : []);
    all.top_logprob.push(known ? said.top_logprob[same] : []);
  });
  if (tokens) round.path.forEach((node, place) => { all.choice[node] = tokens[place] ?? all.choice[node]; });
  return all;
}

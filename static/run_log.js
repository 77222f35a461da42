// A run in the browser: the events of a trace (header, rounds, summary), and what can be derived from each round.

import { label } from "./glyphs.js";

const DRAFT = 1;
const TRACE = new Set(["header", "round", "summary", "comparison"]); // the rest is only said to the page
export const RETRIEVAL = 2;

// Fates of nodes that are shown without being in the tree, where another tree is supposed in the recorded one's place
// (see whatif/supposed.js): only in the recorded tree, waiting in the heap, not in the heap yet.
export const GHOSTS = new Set(["gone", "waiting", "later"]);

export class RunLog {
  constructor(id) {
    this.id = id;
    this.received = 0;
    this.header = null;
    this.rounds = [];
    this.events = []; // as they came, to be written down again
    this.text = null; // of a whole trace that was read from text
    this.summary = null;
    this.comparison = null;
    this.pieces = new Map();
    this.labels = new Map();
    this.deepest = 1; // the deepest node of any round so far, the bonus counted: columns keep their place
    this.longest = 1; // the most tokens emitted in a round
  }

  // A whole trace: JSON Lines.
  static fromLines(id, text) {
    const log = new RunLog(id);
    for (const line of text.split("\n")) if (line.trim()) log.add(JSON.parse(line));
    log.text = text;
    log.events = [];
    return log;
  }

  // The trace: JSON Lines, as read or as they came.
  lines() {
    return this.text ?? this.events.map((event) => JSON.stringify(event) + "\n").join("");
  }

  add(event) {
    this.received += 1;
    if (TRACE.has(event.kind)) this.events.push(event);
    if (event.kind === "header") this.header = event;
    else if (event.kind === "summary") this.summary = event;
    else if (event.kind === "comparison") this.comparison = event;
    else if (event.kind === "round") this.#addRound(event);
  }

  #addRound(event) {
    for (const [token, text] of Object.entries(event.pieces ?? {})) this.pieces.set(Number(token), text);
    const round = derive(event);
    this.rounds.push(round);
    for (const depth of round.depth) this.deepest = Math.max(this.deepest, depth);
    if (round.bonus) this.deepest = Math.max(this.deepest, round.depth[round.bonus.parent] + 1);
    this.longest = Math.max(this.longest, round.emitted.length);
  }

  piece(token) {
    return this.pieces.get(token);
  }

  // The token as a label. Kept, because a big tree asks for a thousand of them in a frame.
  label(token) {
    let text = this.labels.get(token);
    if (text === undefined) this.labels.set(token, (text = label(this.pieces.get(token))));
    return text;
  }

  // The figures so far, by the conventions of decoding.metrics; the summary's own where the run has ended.
  figures() {
    if (this.summary) return this.summary.metrics ?? {};
    const total = (pick) => this.rounds.reduce((sum, round) => sum + pick(round), 0);
    const count = this.rounds.length;
    const emitted = total((r) => r.emitted.length);
    const accepted = total((r) => r.accepted);
    const drafted = total((r) => r.drafted);
    const seconds = total((r) => r.total);
    return {
      rounds: count,
      tokens_per_round: count ? emitted / count : null,
      accepted_per_round: count ? accepted / count : null,
      acceptance_rate: drafted ? accepted / drafted : null,
      tokens_per_second: seconds > 0 ? emitted / seconds : null,
      ttft_seconds: this.header?.prefill_seconds ?? null,
    };
  }

  // The output token by token: text, where it came from, its round (-1: the prefill).
  tokens(fromRound = -1) {
    const list = [];
    if (fromRound < 0 && this.header) list.push({ text: this.header.first_text ?? "", from: "bonus", round: -1 });
    for (let index = Math.max(0, fromRound); index < this.rounds.length; index++) {
      const round = this.rounds[index];
      round.emitted.forEach((token, place) => {
        const node = round.verdict.path[place + 1];
        const from = node === undefined ? "bonus" : round.tree.source[node] === RETRIEVAL ? "retrieval" : "draft";
        list.push({ text: round.emitted_text?.[place] ?? this.piece(token) ?? "", from, round: index });
      });
    }
    return list;
  }
}

// Depth, cumulative log-probability, children and fate of every node; a node's fate is one of
// root, accepted, rejected (the target looked here and chose otherwise) and unreached.
export function derive(event) {
  const { parent, logprob, source } = event.tree;
  const count = parent.length;
  const depth = new Int32Array(count);
  const cumulative = new Array(count).fill(0);
  const children = Array.from({ length: count }, () => []);
  for (let node = 1; node < count; node++) {
    const above = parent[node];
    depth[node] = depth[above] + 1;
    cumulative[node] =
      logprob[node] === null || cumulative[above] === null ? null : cumulative[above] + logprob[node];
    children[above].push(node);
  }
  const accepted = Math.min(event.verdict.path.length - 1, event.emitted.length);
  const path = event.verdict.path.slice(0, accepted + 1);
  const fate = new Array(count).fill("unreached");
  for (const node of path) for (const child of children[node]) fate[child] = "rejected";
  for (const node of path) fate[node] = "accepted";
  fate[0] = "root";
  const end = path[path.length - 1];
  const bonus = event.emitted.length > accepted ? { parent: end, token: event.verdict.bonus } : null;
  const total = Object.values(event.seconds ?? {}).reduce((sum, value) => sum + value, 0);
  return { ...event, depth, cumulative, children, fate, path, accepted, end, bonus, total, drafted: count - 1,
    retrieved: source.filter((s) => s === RETRIEVAL).length };
}

// What the target gave a token after a node: its own top list first, else the verdict on the child.
export function targetLogprob(round, node, token) {
  const place = round.verdict.top_token[node].indexOf(token);
  if (place >= 0) return round.verdict.top_logprob[node][place];
  const child = round.children[node].find((c) => round.tree.token[c] === token);
  return child === undefined ? null : round.verdict.logprob[child];
}

// What the drafter gave a token after a node: the tree's own edge, else the marginals of that depth.
export function draftLogprob(round, node, token) {
  const child = round.children[node].find((c) => round.tree.token[c] === token && round.tree.source[c] === DRAFT);
  if (child !== undefined) return round.tree.logprob[child];
  const row = round.marginals?.token[round.depth[node]];
  const place = row ? row.indexOf(token) : -1;
  return place >= 0 ? round.marginals.logprob[round.depth[node]][place] : null;
}

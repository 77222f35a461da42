// The detail panel of one node: what drafter and target thought of it, and what each expected next, side by side.

import { make } from "./dom.js";
import { number, probability } from "./glyphs.js";
import { RETRIEVAL, draftLogprob, targetLogprob } from "./run_log.js";

const ROWS = 10;
const FATES = { root: "committed", accepted: "accepted", rejected: "rejected", unreached: "not reached", bonus: "bonus" };

export class NodePanel {
  constructor(part) {
    this.part = part;
  }

  show(round, node, labelOf, locked) {
    const { part } = this;
    part.nodeHint.textContent = !round ? ""
      : locked ? "Selected. Esc lets go." : "Where this draft ended. Click any node to look at it.";
    if (!round) return;
    const isBonus = round.bonus && node === round.tree.token.length;
    const token = isBonus ? round.bonus.token : round.tree.token[node];
    part.nodeToken.textContent = labelOf(token);
    part.nodeToken.title = "token " + token;
    this.#chips(round, node, isBonus);
    this.#facts(round, node, isBonus);
    this.#next(round, node, isBonus, labelOf);
  }

  #chips(round, node, isBonus) {
    const fate = isBonus ? "bonus" : round.fate[node];
    const from = isBonus ? "target" : node === 0 ? "root" : round.tree.source[node] === RETRIEVAL ? "retrieval" : "draft";
    this.part.nodeChips.replaceChildren(
      make("span", "cy-chip cy-fate-" + fate + (from === "retrieval" ? " cy-from-retrieval" : ""), FATES[fate]),
      make("span", "cy-chip", from === "root" ? "root" : { draft: "from the drafter", retrieval: "retrieved", target: "from the target" }[from]),
      make("span", "cy-chip", "depth " + (isBonus ? round.depth[round.bonus.parent] + 1 : round.depth[node])));
  }

  #facts(round, node, isBonus) {
    const drafted = !isBonus && node > 0;
    const parent = isBonus ? round.bonus.parent : round.tree.parent[node];
    const target = isBonus ? targetLogprob(round, parent, round.bonus.token) : drafted ? round.verdict.logprob[node] : null;
    const rank = isBonus ? round.verdict.top_token[parent].indexOf(round.bonus.token) + 1
      : drafted ? round.verdict.rank[node] : 0;
    const siblings = drafted ? round.children[parent].filter((n) => round.tree.logprob[n] !== null) : [];
    const draftRank = drafted && round.tree.logprob[node] !== null
      ? 1 + siblings.filter((n) => round.tree.logprob[n] > round.tree.logprob[node]).length : 0;
    const facts = [
      ["Drafter", probability(drafted ? round.tree.logprob[node] : null), draftRank ? "rank " + draftRank : ""],
      ["Target", probability(target), rank ? "rank " + rank : ""],
      ["Path so far", probability(drafted ? round.cumulative[node] : null), "drafter"],
      ["Entropy after", isBonus ? number(null) : number(round.verdict.entropy[node]), "nats, target"],
    ];
    this.part.nodeFacts.replaceChildren(...facts.flatMap(([name, value, note]) => {
      const dd = make("dd", "", value);
      dd.append(make("small", "", note));
      return [make("dt", "", name), dd];
    }));
  }

  // The target's best tokens after the node and the drafter's children, on one line per token.
  #next(round, node, isBonus, labelOf) {
    const body = this.part.nodeNext;
    if (isBonus) {
      body.replaceChildren(make("p", "cy-empty", "The bonus token is the root of the next round."));
      return;
    }
    const rows = new Map();
    round.verdict.top_token[node].forEach((token) => rows.set(token, {}));
    round.children[node].forEach((child) => rows.set(round.tree.token[child], { child }));
    const listed = [...rows].map(([token, { child }]) => ({ token, child,
      draft: draftLogprob(round, node, token), target: targetLogprob(round, node, token) }));
    const weight = (row) => (row.target ?? -99) + (row.child === undefined ? 0 : 1e-6);
    listed.sort((a, b) => weight(b) - weight(a));
    const top = listed.slice(0, 8);
    const rest = listed.slice(8).filter((row) => row.child !== undefined)
      .sort((a, b) => (b.draft ?? -99) - (a.draft ?? -99)).slice(0, ROWS - top.length);
    const choice = round.verdict.choice[node];
    body.replaceChildren(...[...top, ...rest].map((row) => this.#row(round, row, choice, labelOf)));
  }

  #row(round, row, choice, labelOf) {
    const fate = row.child === undefined ? (row.token === choice ? "choice" : "none") : round.fate[row.child];
    const line = make("div", "cy-pair cy-pair-" + fate);
    const graft = row.child !== undefined && round.tree.source[row.child] === RETRIEVAL;
    if (graft) line.classList.add("cy-from-retrieval");
    const bar = (side, logprob) => {
      const cell = make("span", "cy-bar cy-bar-" + side);
      const fill = make("i");
      fill.style.width = (logprob === null || logprob === undefined ? 0 : Math.max(1, 100 * Math.exp(logprob))) + "%";
      cell.append(fill, make("b", "", probability(logprob)));
      return cell;
    };
    const name = make("span", "cy-pair-token", labelOf(row.token));
    name.title = (row.token === choice ? "the target\u2019s choice here; " : "") +
      (row.child === undefined ? "not in the tree" : graft ? "in the tree, retrieved" : "in the tree");
    line.append(bar("draft", row.draft), name, bar("target", row.target));
    return line;
  }
}

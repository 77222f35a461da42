// The detail panel of one node: what drafter and target thought of it, and what each expected next, side by side.

import { make } from "./dom.js";
import { number, probability } from "./glyphs.js";
import { FATES, depthOf, draftEntropy, draftRank, entropyText, fateOf, isBonus as bonusAt, sourceOf, targetOf, tokenOf }
  from "./node_facts.js";
import { GHOSTS, RETRIEVAL, draftLogprob, targetLogprob } from "./run_log.js";

const ROWS = 10;
const SOURCES = { root: "root", drafted: "drafted", retrieved: "retrieved", target: "the target\u2019s" };

export class NodePanel {
  constructor(part) {
    this.part = part;
  }

  show(round, node, labelOf, locked) {
    const { part } = this;
    part.nodeHint.textContent = !round ? ""
      : locked ? "Selected. Esc lets go." : "Where this draft ended. Click any node.";
    if (!round) return;
    const isBonus = bonusAt(round, node);
    const token = tokenOf(round, node);
    part.nodeToken.textContent = labelOf(token);
    part.nodeToken.title = "token " + token;
    this.#chips(round, node);
    this.#facts(round, node, isBonus);
    this.#next(round, node, isBonus, labelOf);
  }

  #chips(round, node) {
    const fate = fateOf(round, node);
    const from = sourceOf(round, node);
    this.part.nodeChips.replaceChildren(
      make("span", "cy-chip cy-fate-" + fate + (from === "retrieved" ? " cy-from-retrieval" : ""), FATES[fate]),
      make("span", "cy-chip", SOURCES[from]),
      make("span", "cy-chip", "depth " + depthOf(round, node)));
  }

  #facts(round, node, isBonus) {
    const drafted = !isBonus && node > 0;
    const target = targetOf(round, node);
    const rank = draftRank(round, node);
    const facts = [
      ["Drafter", probability(drafted ? round.tree.logprob[node] : null),
        rank ? `rank ${rank.rank}${rank.among === "siblings" ? " of its siblings" : ""}` : ""],
      ["Target", probability(target.logprob), target.rank ? "rank " + target.rank : ""],
      ["Path so far", probability(drafted ? round.cumulative[node] : null), "drafter"],
      ["Entropy, nats", isBonus ? number(null) : number(round.verdict.entropy[node]),
        `target \u00b7 ${entropyText(draftEntropy(round, node))} drafter`],
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
      body.replaceChildren(make("p", "cy-pairs-empty", "The bonus token is the root of the next round."));
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
      (row.child === undefined || GHOSTS.has(fate) ? "not in the tree" : graft ? "in the tree, retrieved" : "in the tree");
    line.append(bar("draft", row.draft), name, bar("target", row.target));
    return line;
  }
}

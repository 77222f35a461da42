// The detail panel of one node: what drafter and target thought of it, and what each expected next, side by side.

import { make, write } from "./dom.js";
import { number, probability } from "./glyphs.js";
import { FATES, depthOf, draftEntropy, draftRank, entropyText, fateOf, isBonus as bonusAt, sourceOf, targetOf, tokenOf }
  from "./node_facts.js";
import { GHOSTS, RETRIEVAL, draftLogprob, targetLogprob } from "./run_log.js";

const ROWS = 10;
const SOURCES = { root: "root", drafted: "drafted", retrieved: "retrieved", target: "the target\u2019s" };

// Elements are made once and written into: at every step of scrubbing only what differs is laid out.
export class NodePanel {
  constructor(part) {
    this.part = part;
    this.chips = Array.from({ length: 3 }, () => make("span", "cy-chip"));
    part.nodeChips.replaceChildren(...this.chips);
    this.facts = ["Drafter", "Target", "Path so far", "Entropy, nats"].map((name) => new Fact(name));
    part.nodeFacts.replaceChildren(...this.facts.flatMap((fact) => fact.elements));
    this.pairs = Array.from({ length: ROWS }, () => new Pair());
    this.none = make("p", "cy-pairs-empty", "The bonus token is the root of the next round.");
    this.none.hidden = true;
    part.nodeNext.replaceChildren(this.none, ...this.pairs.map((pair) => pair.line));
  }

  show(round, node, labelOf, locked) {
    const { part } = this;
    write(part.nodeHint, !round ? "" : locked ? "Selected. Esc lets go." : "Where this draft ended. Click any node.");
    if (!round) return;
    const isBonus = bonusAt(round, node);
    const token = tokenOf(round, node);
    write(part.nodeToken, labelOf(token));
    part.nodeToken.title = "token " + token;
    this.#chips(round, node);
    this.#facts(round, node, isBonus);
    this.#next(round, node, isBonus, labelOf);
  }

  #chips(round, node) {
    const fate = fateOf(round, node);
    const from = sourceOf(round, node);
    setClasses(this.chips[0], "cy-chip cy-fate-" + fate + (from === "retrieved" ? " cy-from-retrieval" : ""));
    [FATES[fate], SOURCES[from], "depth " + depthOf(round, node)].forEach((text, at) => write(this.chips[at], text));
  }

  #facts(round, node, isBonus) {
    const drafted = !isBonus && node > 0;
    const target = targetOf(round, node);
    const rank = draftRank(round, node);
    const said = [
      [probability(drafted ? round.tree.logprob[node] : null),
        rank ? `rank ${rank.rank}${rank.among === "siblings" ? " of its siblings" : ""}` : ""],
      [probability(target.logprob), target.rank ? "rank " + target.rank : ""],
      [probability(drafted ? round.cumulative[node] : null), "drafter"],
      [isBonus ? number(null) : number(round.verdict.entropy[node]),
        `target \u00b7 ${entropyText(draftEntropy(round, node))} drafter`],
    ];
    said.forEach(([value, note], at) => this.facts[at].show(value, note));
  }

  // The target's best tokens after the node and the drafter's children, on one line per token.
  #next(round, node, isBonus, labelOf) {
    const rows = isBonus ? [] : nextTokens(round, node);
    const choice = round.verdict.choice[node];
    this.none.hidden = !isBonus;
    this.pairs.forEach((pair, at) => pair.show(round, rows[at], choice, labelOf));
  }
}

function nextTokens(round, node) {
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
  return [...top, ...rest];
}

// A name, its value, and a note on it.
class Fact {
  constructor(name) {
    this.value = make("b");
    this.note = make("small");
    const line = make("span");
    line.append(this.value, this.note);
    const dd = make("dd");
    dd.append(line);
    this.elements = [make("dt", "", name), dd];
  }

  show(value, note) {
    write(this.value, value);
    write(this.note, note);
  }
}

// A token that may come next, between the drafter's and the target's probability of it.
class Pair {
  constructor() {
    this.line = make("div", "cy-pair");
    this.line.hidden = true;
    this.draft = new Bar("draft");
    this.token = make("span", "cy-pair-token");
    this.target = new Bar("target");
    this.line.append(this.draft.cell, this.token, this.target.cell);
  }

  show(round, row, choice, labelOf) {
    this.line.hidden = !row;
    if (!row) return;
    const fate = row.child === undefined ? (row.token === choice ? "choice" : "none") : round.fate[row.child];
    const graft = row.child !== undefined && round.tree.source[row.child] === RETRIEVAL;
    setClasses(this.line, "cy-pair cy-pair-" + fate + (graft ? " cy-from-retrieval" : ""));
    this.draft.show(row.draft);
    this.target.show(row.target);
    write(this.token, labelOf(row.token));
    this.token.title = (row.token === choice ? "the target\u2019s choice here; " : "") +
      (row.child === undefined || GHOSTS.has(fate) ? "not in the tree" : graft ? "in the tree, retrieved" : "in the tree");
  }
}

class Bar {
  constructor(side) {
    this.cell = make("span", "cy-bar cy-bar-" + side);
    this.fill = make("i");
    this.text = make("b");
    this.cell.append(this.fill, this.text);
  }

  show(logprob) {
    const there = logprob !== null && logprob !== undefined;
    this.fill.style.transform = `scaleX(${there ? Math.max(0.01, Math.exp(logprob)) : 0})`;
    write(this.text, probability(logprob));
  }
}

function setClasses(element, classes) {
  if (element.className !== classes) element.className = classes;
}

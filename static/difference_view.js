// What two ways had drafted at the same place of the text, in one tree.

import { make, onThemeChange, write } from "./dom.js";
import { plural, probability } from "./glyphs.js";
import { commonLength } from "./lanes.js";
import { canvasHost, textBefore } from "./linked_trees.js";
import { fillSelect } from "./settings_form.js";
import { difference } from "./tree_difference.js";
import { TreeView } from "./tree_view.js";

const ROWS = 200;

export class DifferenceView {
  constructor(part) {
    this.part = part;
    const { host, canvas, blank } = canvasHost("Difference of two draft trees");
    part.difference.append(host);
    this.canvas = canvas;
    this.blank = blank;
    this.tree = new TreeView(host);
    for (const select of [part.left, part.right]) select.onchange = () => this.at(this.position);
    part.differenceTable.ontoggle = () => this.#fillTable();
    onThemeChange(() => { this.tree.readColours(); this.tree.draw(); });
  }

  show(ways) {
    this.ways = ways;
    const choices = ways.map((lane) => [`${lane.letter} \u00b7 ${lane.name}`, lane.number]);
    fillSelect(this.part.left, choices, ways[0].number);
    fillSelect(this.part.right, choices, (ways[1] ?? ways[0]).number);
    this.part.differencePanel.hidden = ways.length < 2;
  }

  // Looks at a text position: both trees as they stood when that many tokens were written.
  at(position) {
    this.position = position;
    if (!this.ways || this.part.differencePanel.hidden) return;
    const [left, right] = [this.part.left, this.part.right].map((select) => this.ways.find((lane) => lane.number === Number(select.value)));
    this.sides = [left, right];
    const why = this.#whyNot(left, right, position);
    this.found = why ? null : difference(...this.sides.map((lane) => side(lane, position)));
    const { round = null } = this.found ?? {};
    this.tree.show(round, (token) => (left.log.pieces.has(token) ? left : right).log.label(token), Math.max(left.log.deepest, right.log.deepest));
    write(this.blank, why);
    this.blank.hidden = !why;
    this.#say(left, right, position);
    if (this.part.differenceTable.open) this.#fillTable();
  }

  #whyNot(left, right, position) {
    if (left === right) return "Choose two different ways.";
    const missing = this.sides.find((lane) => !lane.log.rounds.length);
    if (missing) return `Way ${missing.letter} has no rounds.`;
    const short = this.sides.find((lane) => !side(lane, position));
    if (short) return `Way ${short.letter} had no tree here: its text had ended.`;
    const common = commonLength(left.output, right.output);
    return common < position ? `The two texts part at token ${common + 1}: from there on the trees stand after different texts.` : "";
  }

  #say(left, right, position) {
    const { part, found } = this;
    write(part.both, found ? `${found.both} in both` : "in both");
    write(part.onlyLeft, (found ? found.left + " " : "") + "only in " + left.letter);
    write(part.onlyRight, (found ? found.right + " " : "") + "only in " + right.letter);
    const cut = found ? this.sides.map((lane) => [lane, side(lane, position).offset]).filter(([, offset]) => offset > 0) : [];
    write(part.differenceHint, !found ? "" : `After ${textBefore(left, position)}` + cut.map(([lane, offset]) =>
      ` \u00b7 ${lane.letter}\u2019s round began ${plural(offset, "token")} earlier: the part of its tree below the accepted path`).join(""));
    this.canvas.setAttribute("aria-label", !found ? this.blank.textContent
      : `Both trees in one: ${found.both} nodes in both, ${found.left} only in ${left.letter}, ${found.right} only in ${right.letter}.`);
  }

  // The tree as a table, for those who do not see it.
  #fillTable() {
    const { part, found, sides } = this;
    if (!found || !part.differenceTable.open) return part.differenceRows.replaceChildren();
    const { round } = found;
    const [left, right] = sides;
    write(part.leftHead, `draft p, ${left.letter}`);
    write(part.rightHead, `draft p, ${right.letter}`);
    const words = (node) => (node ? words(round.tree.parent[node]) + this.tree.labelOf(round.tree.token[node]) : "");
    const nodes = [...round.half.keys()].slice(1, 1 + ROWS);
    part.differenceRows.replaceChildren(...nodes.map((node) => {
      const line = make("tr");
      const notes = round.notes[node];
      line.append(make("th", "", words(node)), ...[notes[0][1], notes[1][1], notes[2][1], probability(round.verdict.logprob[node]),
        { accepted: "accepted", rejected: "rejected", unreached: "not reached" }[round.fate[node]]].map((text) => make("td", "", text)));
      line.firstChild.scope = "row";
      return line;
    }));
  }
}

// A lane's tree at a text position; null where its text had already ended.
function side(lane, position) {
  const index = lane.roundAt(position);
  const round = lane.log.rounds[index];
  const offset = position - lane.starts[index];
  return round && offset >= 0 && offset < round.path.length ? { name: lane.letter, round, offset } : null;
}

// The heat map of what the drafter expected at each position, by rank, against what the target really wrote there.

import { label, plural, probability } from "../glyphs.js";
import { nodeFacts, parentOf } from "../node_facts.js";
import { CanvasView, cut } from "./canvas_view.js";
import { positionTable, written } from "./position_table.js";

const LEFT = 46;
const HEAD = 52; // position, what the target wrote there, and its rank
const ROW = 19; // of a rank that has room for its token
const THIN = 1.6; // of one of the ranks pressed together below
const NARROWEST = 46;

const sourcesOf = (header) => label([header.drafter, header.retrieval].filter((name) => name && name !== "none").join(" + ").slice(0, 60)
  || header.strategy.slice(0, 60));

export class MarginalsView extends CanvasView {
  constructor(host, options) {
    super(host, { ...options, name: "Marginals" });
  }

  show(round, log) {
    this.table = round ? positionTable(round) : null;
    super.show(round, log);
  }

  empty() {
    const { header } = this.log;
    if (!this.round.drafted && !this.table.columns.length) return "Nothing was drafted in this round: there is nothing to show by position.";
    if (this.table.from === "tree" && !this.table.columns.some((column) => column.some((cell) => cell.logprob !== null))) {
      return `Nothing in this tree has a probability: it comes from look-ups (${sourcesOf(header)}), and a look-up knows no distribution.`;
    }
    return "";
  }

  narrowest() {
    return LEFT + NARROWEST * this.table.columns.length;
  }

  caption() {
    const { columns, from, stray } = this.table;
    this.taken = written(this.round, this.log, columns.length);
    const ranks = this.taken.map(({ token }, position) => columns[position].findIndex((cell) => cell.token === token));
    const first = ranks.filter((rank) => rank === 0).length;
    const missing = ranks.filter((rank) => rank < 0).length;
    const longest = Math.max(0, ...columns.map((column) => column.length));
    const outcome = !ranks.length ? "" : from === "tree"
      ? ` The tree held what the target wrote at ${ranks.length - missing} of ${plural(ranks.length, "depth")}.`
      : ` The target\u2019s token ranked first at ${first} of ${ranks.length}` +
      (missing ? `, not among the top ${longest} at ${missing}.` : ".");
    if (from === "tree") {
      return "This drafter goes step by step and gives no marginals. Shown instead, by depth: the drafted tree\u2019s own tokens, path probabilities of the same token added up." + outcome;
    }
    return `One pass gave ${plural(columns.length, "position")}, top ${longest} recorded; darker is likelier.` + outcome +
      (stray ? ` ${plural(stray, "node")} of the tree not in these lists (grafts).` : "");
  }

  arrange() {
    const { columns } = this.table;
    this.column = (this.size.width - LEFT) / Math.max(1, columns.length);
    const ranks = Math.max(0, ...columns.map((column) => column.length));
    const room = this.size.height - HEAD - 4;
    this.full = ranks * ROW <= room ? ranks : Math.max(1, Math.floor((room - ranks * THIN) / (ROW - THIN)));
    this.thin = ranks > this.full ? Math.min(ROW, (room - this.full * ROW - 6) / (ranks - this.full)) : 0;
  }

  #top(rank) { return HEAD + (rank < this.full ? rank * ROW : this.full * ROW + 6 + (rank - this.full) * this.thin); }
  #tall(rank) { return rank < this.full ? ROW - 1 : Math.max(0.6, this.thin); }

  paint(pen) {
    this.#axes(pen);
    this.table.columns.forEach((column, position) => {
      for (const cell of column) this.#cell(pen, cell, position);
    });
    this.table.columns.forEach((column, position) => this.#taken(pen, column, position));
  }

  mark(pen) {
    this.#outline(pen, this.hovered?.cell ? this.hovered : null, this.colour.muted, 1.5);
    if (this.selected) this.#outline(pen, this.#holding(this.selected), this.colour.select, 2.2);
  }

  #axes(pen) {
    const { colour } = this;
    this.font(pen, false, 10);
    pen.fillStyle = colour.muted;
    pen.textAlign = "right";
    pen.fillText("wrote", LEFT - 6, 27);
    for (let rank = 0; rank < this.full; rank++) if (rank < 1 || (rank + 1) % 2 === 0) pen.fillText(String(rank + 1), LEFT - 6, this.#top(rank) + ROW / 2);
    if (this.thin) pen.fillText(`\u2026${Math.max(...this.table.columns.map((c) => c.length))}`, LEFT - 6, this.size.height - 9);
    pen.fillStyle = colour.faint;
    pen.fillText("rank", LEFT - 6, 9);
    pen.textAlign = "center";
    for (let position = 0; position < this.table.columns.length; position++) {
      pen.fillText(String(position + 1), LEFT + (position + 0.5) * this.column, 9);
    }
    pen.textAlign = "left";
  }

  #box(position, rank) {
    return { x: LEFT + position * this.column, y: this.#top(rank), width: this.column - 1.5, height: this.#tall(rank) };
  }

  #cell(pen, cell, position) {
    const { colour } = this;
    const box = this.#box(position, cell.rank);
    const known = cell.logprob !== null;
    const shade = known ? Math.sqrt(Math.exp(cell.logprob)) : 0;
    pen.fillStyle = colour.sunken;
    pen.fillRect(box.x, box.y, box.width, box.height);
    if (known) {
      pen.globalAlpha = shade;
      pen.fillStyle = colour.draft;
      pen.fillRect(box.x, box.y, box.width, box.height);
      pen.globalAlpha = 1;
    } else if (cell.nodes.length) {
      pen.fillStyle = this.hatch(pen, colour["retrieval-line"]);
      pen.globalAlpha = 0.5;
      pen.fillRect(box.x, box.y, box.width, box.height);
      pen.globalAlpha = 1;
    }
    if (cell.rank >= this.full) return;
    const marked = cell.nodes.length ? 11 : 0;
    const text = cut(this.labelOf(cell.token), box.width - 7 - marked);
    this.font(pen, cell.nodes.length > 0);
    pen.fillStyle = shade > 0.55 ? colour["on-fill"] : cell.nodes.length ? colour.ink : colour.muted;
    pen.fillText(text, box.x + 4, box.y + box.height / 2 + 0.5);
    if (cell.nodes.length) this.#node(pen, cell, box);
  }

  // That a cell is in the tree: the best of its nodes, as the tree draws it.
  #node(pen, cell, box) {
    const { round, colour } = this;
    const node = this.#best(cell);
    const fate = round.fate[node];
    const graft = round.tree.source[node] === 2;
    const [x, y, r] = [box.x + box.width - 8, box.y + box.height / 2, 3.6];
    pen.beginPath();
    if (graft) pen.rect(x - r, y - r, 2 * r, 2 * r);
    else pen.arc(x, y, r, 0, 2 * Math.PI);
    pen.fillStyle = fate === "accepted" ? colour.accepted : fate === "unreached" ? colour.surface : graft ? colour.retrieval : colour["draft-line"];
    pen.strokeStyle = fate === "unreached" ? colour.muted : colour.surface;
    pen.lineWidth = 1.2;
    pen.fill();
    pen.stroke();
  }

  #best(cell) {
    const { round } = this;
    const weight = (node) => ({ accepted: 2, rejected: 1 }[round.fate[node]] ?? 0) + Math.exp(round.cumulative[node] ?? -9);
    return cell.nodes.reduce((best, node) => (weight(node) > weight(best) ? node : best));
  }

  // The token that the target wrote at a position: named above the column, outlined where the list has it.
  #taken(pen, column, position) {
    const taken = this.taken[position];
    if (!taken) return;
    const { colour } = this;
    const line = { accepted: colour.accepted, bonus: colour.bonus, later: colour.muted }[taken.how];
    const x = LEFT + position * this.column;
    const cell = column.find((one) => one.token === taken.token);
    this.font(pen, taken.how !== "later");
    pen.fillStyle = taken.how === "later" ? colour.muted : colour.ink;
    pen.fillText(cut(this.labelOf(taken.token), this.column - 8), x + 4, 27);
    pen.strokeStyle = line;
    pen.lineWidth = 2;
    pen.setLineDash(taken.how === "later" ? [3, 3] : []);
    if (cell) {
      const box = this.#box(position, cell.rank);
      pen.strokeRect(box.x + 1, box.y + 1, box.width - 2, Math.max(2, box.height - 2));
    }
    pen.setLineDash([]);
    this.font(pen, false, 10);
    pen.fillStyle = cell ? colour.muted : colour.ink;
    const rank = cell ? `rank ${cell.rank + 1}` : `not in ${column.length}`;
    pen.fillText(this.column < 62 ? (cell ? "#" + (cell.rank + 1) : "none") : rank, x + 4, 42);
  }

  #holding(node) {
    for (const [position, column] of this.table.columns.entries()) {
      const cell = column.find((one) => one.nodes.includes(node));
      if (cell) return { cell, position };
    }
    const bonus = this.round.bonus && node === this.round.tree.token.length;
    const position = bonus ? this.round.depth[parentOf(this.round, node)] : -1;
    const cell = this.table.columns[position]?.find((one) => one.token === this.round.bonus.token);
    return cell ? { cell, position } : null;
  }

  #outline(pen, found, colour, width) {
    if (!found) return;
    const box = this.#box(found.position, found.cell.rank);
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.strokeRect(box.x, box.y, box.width, Math.max(2, box.height));
  }

  // A cell; a click goes to its best node, and to its others in turn.
  at(x, y) {
    const position = Math.floor((x - LEFT) / this.column);
    const column = this.table.columns[position];
    if (x < LEFT || !column) return null;
    if (y < HEAD) return y < 14 || !this.taken[position] ? null : this.#writtenAt(column, position, x, y);
    const thin = HEAD + this.full * ROW + 6;
    const rank = y < HEAD + this.full * ROW ? Math.floor((y - HEAD) / ROW) : this.thin && y >= thin ? this.full + Math.floor((y - thin) / this.thin) : -1;
    const cell = column[rank];
    return cell ? { cell, position, node: this.#nodeOf(cell), key: `${position}.${rank}`, x, y } : null;
  }

  #writtenAt(column, position, x, y) {
    const { how, token } = this.taken[position];
    const bonus = how === "bonus" && this.round.bonus ? this.round.tree.token.length : null;
    const node = how === "accepted" ? this.round.path[position + 1] : bonus;
    return { cell: column.find((one) => one.token === token) ?? null, position, node, key: `w${position}`, x, y };
  }

  #nodeOf(cell) {
    if (!cell.nodes.length) return null;
    const best = this.#best(cell);
    const rest = [best, ...cell.nodes.filter((node) => node !== best)];
    return rest[(rest.indexOf(this.selected) + 1) % rest.length];
  }

  facts({ cell, position }) {
    const taken = this.taken[position];
    const wrote = taken && cell?.token === taken.token;
    const how = { accepted: "and the target took it", bonus: "and the target chose it itself", later: "and the target wrote it here later" };
    if (!cell) {
      return [["token", this.labelOf(taken.token)], ["", `position ${position + 1}: what the target wrote`],
        ["", this.table.from === "tree" ? "not drafted at this depth" : `not among the top ${this.table.columns[position].length}`]];
    }
    const facts = [["token", this.labelOf(cell.token)], ["", `position ${position + 1}, rank ${cell.rank + 1}${wrote ? ", " + how[taken.how] : ""}`],
      [this.table.from === "tree" ? "path p, all nodes" : "draft p", probability(cell.logprob)]];
    if (!cell.nodes.length) return [...facts, ["", "not in the tree"]];
    if (cell.nodes.length > 1) return [...facts, ["", `in the tree: ${plural(cell.nodes.length, "node")}, a click goes through them`]];
    return [...facts, ...nodeFacts(this.round, cell.nodes[0], (token) => this.log.label(token)).slice(1)
      .filter(([name]) => name !== "draft p")];
  }
}

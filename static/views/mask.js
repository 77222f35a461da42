// The tree-attention mask: a row for each node, marked where it may look: at the committed text, its ancestors, itself.

import { plural } from "../glyphs.js";
import { nodeFacts } from "../node_facts.js";
import { seenBy } from "./attention.js";
import { CanvasView, LETTER, cut } from "./canvas_view.js";

const TOP = 24;
const BLOCK = 30; // the committed text, as one column
const LABEL = 92;
const LENS = { cell: 17, rows: 15, columns: 15 };
const READABLE = 11; // from this cell size on rows carry their tokens

const STEPS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

// A colour as one number of an image, whatever way it is written.
function pixelOf(colour) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d");
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  return new Uint32Array(pen.getImageData(0, 0, 1, 1).data.buffer)[0];
}

export class MaskView extends CanvasView {
  constructor(host, options) {
    super(host, { ...options, name: "Tree-attention mask" });
  }

  caption() {
    const { round } = this;
    const nodes = round.tree.token.length;
    const seen = round.depth.reduce((sum, depth) => sum + depth + 1, 0);
    return `Each of ${plural(nodes, "row")} is a node, each column what it may look at: the ${round.cache_before} committed tokens, ` +
      `its ancestors and itself. ${seen} of ${nodes * nodes} pairs are open; so one pass gives every path the scores that it gets alone.`;
  }

  arrange() {
    const { width, height } = this.size;
    const count = this.round.tree.token.length;
    const fitting = (labels, beside) =>
      Math.min(24, (width - labels - BLOCK - 8 - beside) / count, (height - TOP - 6) / count);
    this.named = fitting(LABEL, 0) >= READABLE;
    const labels = this.named ? LABEL : 34;
    const lens = !this.named && width >= 640;
    this.cell = fitting(labels, lens ? LENS.columns * LENS.cell + LABEL + 34 : 0);
    this.left = labels + BLOCK + 4;
    this.labels = labels;
    this.lens = lens ? { x: width - LENS.columns * LENS.cell - 12, y: TOP + 14 } : null;
    const taken = this.left + count * this.cell;
    if (this.named) { // alone on the canvas: in the middle
      const shift = Math.max(0, (width - taken - 8) / 2);
      this.left += shift;
      this.labels += shift;
    }
  }

  get focus() {
    const node = this.hovered?.node ?? this.selected ?? this.round.end;
    return node < this.round.tree.token.length ? node : this.round.bonus.parent;
  }

  paint(pen) {
    const { round, cell, colour } = this;
    const count = round.tree.token.length;
    const side = count * cell;
    pen.fillStyle = colour.sunken;
    pen.fillRect(this.left, TOP, side, side);
    pen.fillRect(this.labels, TOP, BLOCK, side);
    pen.fillStyle = colour.muted;
    pen.fillRect(this.labels, TOP, BLOCK - 1, side - this.#gap);
    if (cell < 3) this.#dots(pen, side);
    else for (let node = 0; node < count; node++) this.#row(pen, node, this.#colourOf(node));
    this.#axes(pen, count);
  }

  // The focus: its row, the columns that it sees, its name.
  mark(pen) {
    const { round, cell, colour, focus, selected } = this;
    const count = round.tree.token.length;
    const side = count * cell;
    const thick = Math.max(1.5, cell);
    pen.fillStyle = colour.ink;
    pen.globalAlpha = 0.12;
    pen.fillRect(this.labels, TOP + focus * cell, BLOCK + 4 + side, thick);
    for (const node of seenBy(round, focus)) pen.fillRect(this.left + node * cell, TOP, thick, side);
    pen.globalAlpha = 1;
    this.#row(pen, focus, colour.ink);
    pen.fillRect(this.labels, TOP + focus * cell, BLOCK - 1, this.#dot);
    if (this.named) this.#name(pen, focus, true);
    if (selected !== null && selected < count) {
      pen.strokeStyle = colour.select;
      pen.lineWidth = 1.5;
      pen.strokeRect(this.labels - 1, TOP + selected * cell - 1, BLOCK + 5 + side, this.#dot + 2);
    }
    if (this.lens) this.#lens(pen);
  }

  get #gap() { return this.cell > 5 ? 1 : 0; }
  get #dot() { return Math.max(1, this.cell - this.#gap); }

  #colourOf(node) {
    const { colour, round } = this;
    const fate = round.fate[node];
    return fate === "accepted" || fate === "root" ? colour.accepted : fate === "unreached" ? colour.faint
      : round.tree.source[node] === 2 ? colour.retrieval : colour["draft-line"];
  }

  #row(pen, node, colour) {
    const { cell, round } = this;
    pen.fillStyle = colour;
    for (let above = node; above >= 0; above = round.tree.parent[above]) {
      pen.fillRect(this.left + above * cell, TOP + node * cell, this.#dot, this.#dot);
    }
  }

  // A thousand rows as pixels: as rectangles they would take longer than a frame.
  #dots(pen, side) {
    const { cell, round } = this;
    const ratio = window.devicePixelRatio || 1;
    const edge = Math.ceil(side * ratio);
    const dot = Math.max(1, Math.round(cell * ratio));
    const image = new ImageData(edge, edge);
    const pixels = new Uint32Array(image.data.buffer);
    const colours = new Map();
    for (let node = 0; node < round.tree.token.length; node++) {
      const name = this.#colourOf(node);
      if (!colours.has(name)) colours.set(name, pixelOf(name));
      const top = Math.floor(node * cell * ratio);
      for (let above = node; above >= 0; above = round.tree.parent[above]) {
        const left = Math.floor(above * cell * ratio);
        for (let y = top; y < Math.min(edge, top + dot); y++) pixels.fill(colours.get(name), y * edge + left, y * edge + Math.min(edge, left + dot));
      }
    }
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = edge;
    canvas.getContext("2d").putImageData(image, 0, 0);
    pen.drawImage(canvas, this.left, TOP, edge / ratio, edge / ratio);
  }

  #axes(pen, count) {
    const { colour, cell } = this;
    this.font(pen, false, 10);
    pen.fillStyle = colour.muted;
    pen.textAlign = "center";
    pen.fillText("text", this.labels + BLOCK / 2, 12);
    const every = STEPS.find((step) => step * cell >= 22);
    for (let node = 0; node < count; node += every) pen.fillText(String(node), this.left + (node + 0.5) * cell, 12);
    pen.textAlign = "right";
    for (let node = 0; node < count; node += this.named ? 1 : every) {
      if (this.named) this.#name(pen, node, false);
      else pen.fillText(String(node), this.labels - 6, TOP + (node + 0.5) * cell);
    }
    pen.textAlign = "left";
  }

  #name(pen, node, strong) {
    const { colour, round } = this;
    this.font(pen, strong);
    pen.textAlign = "right";
    pen.fillStyle = strong || round.fate[node] !== "unreached" ? colour.ink : colour.muted;
    pen.fillText(cut(this.labelOf(round.tree.token[node]), LABEL - 8), this.labels - 6, TOP + (node + 0.5) * this.cell);
    pen.textAlign = "left";
  }

  // The rows around the focus with their tokens, and of the columns only those that one of them sees.
  #lens(pen) {
    const { round, colour, focus } = this;
    const count = round.tree.token.length;
    const from = Math.max(0, Math.min(count - LENS.rows, focus - 7));
    const rows = Array.from({ length: Math.min(LENS.rows, count) }, (_, i) => from + i);
    const own = seenBy(round, focus);
    const others = new Set(rows.flatMap((node) => seenBy(round, node)).filter((node) => !own.includes(node)));
    const columns = [...own.slice(-LENS.columns), ...[...others].sort((a, b) => b - a)].slice(0, LENS.columns).sort((a, b) => a - b);
    const { x, y } = this.lens;
    pen.fillStyle = colour.muted;
    this.font(pen, false, 10);
    pen.fillText(`rows ${rows[0]}\u2013${rows[rows.length - 1]}, the columns that they see`, x - LABEL - 4, y - 22);
    pen.textAlign = "center";
    columns.forEach((node, i) => { if (i % 2 === 0 || LENS.cell > 24) pen.fillText(String(node), x + (i + 0.5) * LENS.cell, y - 8); });
    rows.forEach((node, row) => {
      const at = y + row * LENS.cell;
      const strong = node === focus;
      pen.textAlign = "right";
      this.font(pen, strong);
      pen.fillStyle = strong || round.fate[node] !== "unreached" ? colour.ink : colour.muted;
      pen.fillText(cut(this.labelOf(round.tree.token[node]), LABEL - 3 * LETTER), x - 6, at + LENS.cell / 2);
      const seen = new Set(seenBy(round, node));
      columns.forEach((column, i) => {
        pen.fillStyle = !seen.has(column) ? colour.sunken : strong ? colour.ink : this.#colourOf(node);
        pen.fillRect(x + i * LENS.cell, at, LENS.cell - 1, LENS.cell - 1);
      });
    });
    pen.textAlign = "left";
  }

  // A row, wherever in it; in the lens one of its rows.
  at(x, y) {
    const count = this.round.tree.token.length;
    if (this.lens && x > this.lens.x - LABEL) return null;
    const node = Math.floor((y - TOP) / this.cell);
    if (node < 0 || node >= count || x > this.left + count * this.cell + 4) return null;
    return { node, key: node, x, y };
  }

  facts({ node }) {
    const { round } = this;
    const names = seenBy(round, node).map((above) => this.labelOf(round.tree.token[above]));
    const path = names.join(" ");
    return [...nodeFacts(round, node, (token) => this.log.label(token)).slice(0, 2),
      ["sees", `${round.cache_before} committed tokens and ${plural(names.length, "node")}`],
      ["", path.length > 60 ? "\u2026" + path.slice(-58) : path]];
  }
}

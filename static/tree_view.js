// The draft tree of one round on a canvas. Knows nothing of runs, panels or the server: `show` a round, hear of
// selections. Colour, shape and dash mean the same everywhere: see canopy.css and the legend.

import { layout } from "./tree_layout.js";
import { plural } from "./glyphs.js";
import { nodeFacts } from "./node_facts.js";
import { GHOSTS, RETRIEVAL } from "./run_log.js";
import { fillTip } from "./tip.js";

const PAD = { left: 30, right: 84, top: 22, bottom: 18 };
const LETTER = 6.7; // width of a letter of the label font
const NARROWEST = 54; // of a column on a phone, where not the whole tree was asked for
const PHONE = 600;
const COLOURS = ["ink", "muted", "surface", "accepted", "draft", "draft-line", "retrieval", "retrieval-line",
  "bonus", "select", "edge"];
const TOGETHER = 16; // edges in one path: more at once take longer to paint
const DIMMED = 0.2; // what is left of a node that is not emphasised
const reduceText = (text, limit) => (text.length > limit ? text.slice(0, Math.max(1, limit - 1)) + "\u2026" : text);

function copy(from, pen) {
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, from.width, from.height);
  pen.drawImage(from, 0, 0);
}

// What is taken on the canvas: boxes by bands of height, each with its owner, who does not stand in its own way.
class Bands {
  #bands = new Map();

  add(left, right, y, half, owner) {
    const band = Math.floor(y / 13);
    if (!this.#bands.has(band)) this.#bands.set(band, []);
    this.#bands.get(band).push({ left, right, y, half, owner });
  }

  touches(left, right, y, half, owner) {
    const band = Math.floor(y / 13);
    for (let b = band - 1; b <= band + 1; b++) {
      for (const box of this.#bands.get(b) ?? []) {
        if (box.owner !== owner && box.left < right && box.right > left && Math.abs(box.y - y) < half + box.half) return true;
      }
    }
    return false;
  }
}

export class TreeView {
  constructor(host, { onSelect = () => {} } = {}) {
    this.host = host;
    this.canvas = host.querySelector("canvas");
    this.tip = host.querySelector(".cy-tip");
    this.context = this.canvas.getContext("2d");
    this.drawing = document.createElement("canvas"); // the tree without what the pointer changes: hovering redraws none
    this.kept = false; // whether it is that of the round on show
    this.onSelect = onSelect;
    this.round = null;
    this.selected = null;
    this.hovered = null;
    this.moved = false; // the user has zoomed or panned: keep the view across rounds
    this.columns = 1;
    this.asleep = false; // another view stands in its place: nothing is drawn until it wakes
    this.pointers = new Map();
    this.size = { width: 0, height: 0 };
    this.magnified = 1;
    this.lit = null;
    this.readColours();
    this.#listen();
  }

  // `labelOf` gives a token's label; `columns` is the deepest of the run, so that columns keep their place.
  show(round, labelOf, columns) {
    this.round = round;
    this.labelOf = labelOf;
    this.columns = Math.max(1, columns);
    this.plan = round ? layout(round) : null;
    this.ranks = null;
    this.placed = null;
    this.selected = null;
    this.hovered = null;
    this.lit = null;
    this.tip.hidden = true;
    if (!this.moved) this.#fitAll();
    this.#anchor();
    this.draw();
  }

  select(node) {
    this.selected = node;
    this.#present();
  }

  sleep(on) {
    this.asleep = on;
    this.draw();
  }

  // Dims all but these nodes, until the next round is shown; null dims none. The bonus is the node after the last.
  emphasise(nodes) {
    this.lit = nodes && new Set(nodes);
    this.draw();
  }

  // Draws everything larger, for a room to read.
  magnify(factor) {
    if (factor === this.magnified) return;
    this.magnified = factor;
    this.#resize();
  }

  // All of the tree; with `path`, the accepted path and what stood beside it.
  fit(path = false) {
    if (this.asleep) return;
    this.moved = path;
    this.#fitAll(0);
    if (path && this.round) this.#focusPath();
    this.draw();
  }

  readColours() {
    const style = getComputedStyle(this.host);
    this.colour = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue("--cy-" + name).trim()]));
    this.font = style.getPropertyValue("--cy-mono").trim() || "monospace";
  }

  // ---- geometry -------------------------------------------------------------------------------------------------

  #fitAll(narrowest = this.size.width < PHONE ? NARROWEST : 0) {
    if (!this.plan || !this.size.width) return;
    const { width, height } = this.size;
    this.left = PAD.left + Math.min(56, 6.7 * this.#labelOf(0).length);
    const room = width - this.left - Math.min(PAD.right, width * 0.14);
    this.scale = { x: Math.min(Math.max(250, width * 0.2), Math.max(narrowest, room / this.columns)),
      y: Math.min(30, (height - PAD.top - PAD.bottom) / Math.max(1, this.plan.rows - 1)) };
    // Where columns stay legible at the price of the far end, the end of the accepted path stays in sight.
    const end = this.round.depth[this.round.end] + 1.2;
    const shift = narrowest ? Math.max(0, this.left + end * this.scale.x + 30 - width) : 0;
    this.offset = { x: this.left - shift, y: (height - this.scale.y * (this.plan.rows - 1)) / 2 };
  }

  // A view that the user has set keeps the root where it was.
  #anchor() {
    if (!this.plan || !this.scale) return;
    const rootY = this.offset.y + this.plan.row[0] * this.scale.y;
    if (this.moved && this.rootY !== undefined) this.offset.y += this.rootY - rootY;
    this.rootY = this.offset.y + this.plan.row[0] * this.scale.y;
  }

  #focusPath() {
    const nodes = [...this.round.path, ...(this.round.bonus ? [this.plan.count] : [])];
    const rows = nodes.map((n) => this.plan.row[n]);
    const depth = Math.max(...nodes.map((n) => this.plan.depth[n]));
    const low = Math.min(...rows) - 2.5;
    const high = Math.max(...rows) + 2.5;
    const { width, height } = this.size;
    this.scale = { x: Math.min(180, (width - this.left - PAD.right) / Math.max(1, depth)),
      y: Math.min(44, (height - PAD.top - PAD.bottom) / (high - low)) };
    this.offset = { x: this.left, y: height / 2 - ((low + high) / 2) * this.scale.y };
  }

  #x(node) { return this.offset.x + this.plan.depth[node] * this.scale.x; }
  #y(node) { return this.offset.y + this.plan.row[node] * this.scale.y; }

  at(x, y) {
    if (!this.plan || !this.scale) return null;
    let best = null;
    let nearest = 15 * 15;
    for (let node = 0; node < this.plan.total; node++) {
      const dx = this.#x(node) - x;
      const dy = this.#y(node) - y;
      const distance = dx * dx + dy * dy;
      if (distance < nearest) [nearest, best] = [distance, node];
    }
    return best;
  }

  // Where a node stands, in CSS pixels of the canvas.
  place(node) { return { x: this.#x(node) * this.magnified, y: this.#y(node) * this.magnified }; }

  #point(event) { return { x: event.offsetX / this.magnified, y: event.offsetY / this.magnified }; }

  // ---- what a node is -------------------------------------------------------------------------------------------

  #isBonus(node) { return node === this.plan.count; }
  #tokenOf(node) { return this.#isBonus(node) ? this.round.bonus.token : this.round.tree.token[node]; }
  #labelOf(node) { return this.labelOf(this.#tokenOf(node)); }
  #fate(node) { return this.#isBonus(node) ? "bonus" : this.round.fate[node]; }
  #retrieved(node) { return !this.#isBonus(node) && this.round.tree.source[node] === RETRIEVAL; }

  // By the drafter's probability of the path so far; by the target's where the source gives none.
  #weight(node) {
    if (this.#isBonus(node) || node === 0) return 1;
    return Math.exp(this.round.cumulative[node] ?? this.round.verdict.logprob[node] ?? -6);
  }

  #radius(node) {
    const crowd = Math.min(1, Math.max(0.42, this.scale.y / 13));
    const size = 2.4 + 4.6 * Math.sqrt(this.#weight(node));
    const fate = this.#fate(node);
    if (fate === "root") return 6.5;
    if (fate === "bonus") return 6;
    if (this.round.half) return Math.max(4.5, size * crowd);
    if (fate === "accepted") return Math.max(5, size);
    if (fate === "later") return 1.2;
    return (fate === "rejected" ? Math.max(3, Math.min(5, size)) : Math.min(5, size)) * crowd;
  }

  // ---- drawing --------------------------------------------------------------------------------------------------

  draw() {
    if (!this.size.width || this.asleep) return;
    const { context: pen } = this;
    const ratio = (window.devicePixelRatio || 1) * this.magnified;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.size.width, this.size.height);
    this.kept = false;
    if (!this.plan) return;
    if (!this.scale) this.#fitAll();
    this.#measure();
    this.#drawAll(pen);
    if (this.hovered !== null || this.selected !== null) this.#present();
  }

  // The tree as it is seen, on any pen that can do what is done here with a canvas: pictures.js brings others.
  paint(pen) {
    if (!this.scale) this.#fitAll();
    this.#measure();
    this.#drawAll(pen);
    this.#drawMarks(pen);
  }

  #drawAll(pen) {
    this.#drawColumns(pen);
    const { lit } = this;
    if (lit) {
      pen.globalAlpha = DIMMED;
      this.#drawTree(pen, (node) => !lit.has(node));
      pen.globalAlpha = 1;
    }
    this.#drawTree(pen, (node) => !lit || lit.has(node));
    this.#drawSupposed(pen);
    this.#drawLabels(pen);
  }

  // Where every node stands and how large it is, reckoned once for a drawing.
  #measure() {
    const { total } = this.plan;
    this.placed = { x: new Float32Array(total), y: new Float32Array(total), radius: new Float32Array(total) };
    for (let node = 0; node < total; node++) {
      this.placed.x[node] = this.#x(node);
      this.placed.y[node] = this.#y(node);
      this.placed.radius[node] = this.#radius(node);
    }
  }

  // The tree, and on it the rings of the node under the pointer and of the selected one, and their labels, whatever else
  // had to go. The bare tree is kept from the first such mark on: scrubbing, which has none, is spared the copy.
  #present() {
    const { canvas, context: pen, drawing } = this;
    if (this.asleep || !this.plan || !this.placed || !canvas.width || !canvas.height) return;
    if (this.kept) copy(drawing, pen);
    else copy(canvas, drawing.getContext("2d"));
    this.kept = true;
    const ratio = (window.devicePixelRatio || 1) * this.magnified;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#drawMarks(pen);
  }

  #drawMarks(pen) {
    this.#ring(pen, this.hovered, this.colour.muted, 1.5);
    this.#ring(pen, this.selected, this.colour.select, 2.2);
    for (const node of new Set([this.selected, this.hovered])) {
      if (node === null || node >= this.plan.total || this.labelled.has(node)) continue;
      const x = this.placed.x[node] + (node === 0 ? -1 : 1) * (this.placed.radius[node] + 6);
      const room = node === 0 ? 9 : Math.floor((this.size.width - x - 2) / LETTER);
      const text = reduceText(this.#labelOf(node), Math.min(16, room));
      const width = text.length * LETTER + 4;
      pen.fillStyle = this.colour.surface;
      pen.fillRect(node === 0 ? x - width + 2 : x - 2, this.#labelHeight(node) - 7, width, 14);
      pen.textBaseline = "middle";
      pen.strokeStyle = this.colour.surface;
      this.#drawLabel(pen, node, text, x, this.#labelHeight(node), true);
    }
  }

  #drawTree(pen, wanted) {
    this.#drawEdges(pen, wanted);
    this.#drawNodes(pen, wanted);
  }

  #drawColumns(pen) {
    pen.fillStyle = this.colour.muted;
    pen.font = "10px " + this.font;
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    const every = Math.ceil(26 / this.scale.x);
    for (let depth = 0; depth <= this.columns; depth += every) {
      pen.fillText(depth === 0 ? "root" : String(depth), this.offset.x + depth * this.scale.x, this.size.height - 5);
    }
  }

  #edge(pen, node) {
    const above = this.plan.parent(node);
    const { x, y } = this.placed;
    const x0 = x[above];
    const x1 = x[node];
    const y0 = y[above];
    const y1 = y[node];
    pen.moveTo(x0, y0);
    if (this.crowded) return void pen.lineTo(x1, y1);
    const bend = x0 + (x1 - x0) * 0.5;
    pen.bezierCurveTo(bend, y0, bend, y1, x1, y1);
  }

  // Rows stand so close that thin straight lines show more than curves, in a third of the time.
  get crowded() {
    return this.scale.y < 4;
  }

  // One stroke per kind, the accepted path last.
  #drawEdges(pen, wanted) {
    const groups = { ghost: [], later: [], unreached: [], unreachedGraft: [], rejected: [], rejectedGraft: [], accepted: [], acceptedGraft: [] };
    for (let node = 1; node < this.plan.count; node++) {
      if (!wanted(node)) continue;
      const fate = this.#fate(node);
      groups[fate === "later" ? fate : GHOSTS.has(fate) ? "ghost" : fate + (this.#retrieved(node) ? "Graft" : "")].push(node);
    }
    const thin = this.crowded ? 0.6 : 1;
    this.#stroke(pen, groups.ghost, this.colour.faint, thin, [2, 4]);
    this.#stroke(pen, groups.unreached, this.colour.edge, thin, []);
    this.#stroke(pen, groups.unreachedGraft, this.colour.edge, thin, [4, 3]);
    this.#stroke(pen, groups.rejected, this.colour["draft-line"], 1.2, []);
    this.#stroke(pen, groups.rejectedGraft, this.colour["retrieval-line"], 1.4, [4, 3]);
    if (this.round.bonus && wanted(this.plan.count)) this.#stroke(pen, [this.plan.count], this.colour.bonus, 2, [1.5, 4]);
    this.#stroke(pen, groups.acceptedGraft, this.colour.accepted, 3, [7, 4]);
    this.#stroke(pen, groups.accepted, this.colour.accepted, 3, []);
  }

  #stroke(pen, nodes, colour, width, dash) {
    if (!nodes.length) return;
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.lineCap = dash.length === 2 && dash[0] < 2 ? "round" : "butt";
    pen.setLineDash(dash);
    for (let first = 0; first < nodes.length; first += TOGETHER) {
      pen.beginPath();
      for (const node of nodes.slice(first, first + TOGETHER)) this.#edge(pen, node);
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  #shape(pen, node, grow = 0) {
    const x = this.placed.x[node];
    const y = this.placed.y[node];
    const r = this.placed.radius[node] + grow;
    if (this.#isBonus(node)) {
      const d = r * 1.2;
      pen.moveTo(x, y - d); pen.lineTo(x + d, y); pen.lineTo(x, y + d); pen.lineTo(x - d, y); pen.closePath();
    } else if (this.#retrieved(node)) {
      const s = r * 0.92;
      pen.rect(x - s, y - s, 2 * s, 2 * s);
    } else {
      pen.moveTo(x + r, y);
      pen.arc(x, y, r, 0, 2 * Math.PI);
    }
  }

  #drawNodes(pen, wanted) {
    const order = { later: [], gone: [], waiting: [], unreached: [], rejected: [], rejectedGraft: [], accepted: [], bonus: [], root: [] };
    for (let node = 0; node < this.plan.total; node++) {
      if (!wanted(node)) continue;
      const fate = this.#fate(node);
      order[fate === "rejected" && this.#retrieved(node) ? "rejectedGraft" : fate].push(node);
    }
    const { colour } = this;
    this.#fill(pen, order.later, colour.faint, colour.faint);
    this.#fill(pen, order.gone, colour.surface, colour.faint, [2, 2]);
    this.#fill(pen, order.waiting, colour.surface, colour["draft-line"]);
    this.#fill(pen, order.unreached, this.round.half ? colour.faint : colour.surface, colour.muted);
    this.#fill(pen, order.rejected, colour.draft, colour["draft-line"]);
    this.#fill(pen, order.rejectedGraft, colour.retrieval, colour["retrieval-line"]);
    this.#fill(pen, order.bonus, colour.bonus, colour.surface);
    this.#fill(pen, order.accepted, colour.accepted, colour.surface);
    this.#fill(pen, order.root, colour.ink, colour.surface);
    if (this.round.half) this.#openHalves(pen);
  }

  // In a supposed tree: a thin ring around what the recorded one has not, and what a step of its making touches.
  #drawSupposed(pen) {
    const { standing, lit } = this.round;
    if (!standing) return;
    pen.beginPath();
    for (let node = 1; node < this.plan.count; node++) if (standing[node] === "here") this.#shape(pen, node, 2.6);
    pen.strokeStyle = this.colour.ink;
    pen.lineWidth = 1;
    pen.stroke();
    for (const { node, role } of lit ?? []) {
      pen.setLineDash(role === "popped" ? [] : [3, 2]);
      this.#ring(pen, node, role === "popped" ? this.colour.select : this.colour["draft-line"], role === "popped" ? 2.6 : 1.6);
    }
    pen.setLineDash([]);
  }

  // Two trees in one (`round.half` by node: "left" or "right" for a node of one, "" for one of both): the half of the
  // tree that does not have the node stays open.
  #openHalves(pen) {
    const { half } = this.round;
    const halved = [...half.keys()].filter((node) => half[node]);
    const arcs = (span, grow) => {
      pen.beginPath();
      for (const node of halved) {
        const r = this.#radius(node) + grow;
        const start = half[node] === "left" ? -Math.PI / 2 : Math.PI / 2;
        pen.moveTo(this.#x(node) + r * Math.cos(start), this.#y(node) + r * Math.sin(start));
        pen.arc(this.#x(node), this.#y(node), r, start, start + span);
      }
    };
    pen.fillStyle = this.colour.surface;
    arcs(Math.PI, 0.8);
    pen.fill();
    pen.strokeStyle = this.colour.muted;
    pen.lineWidth = 1.1;
    arcs(2 * Math.PI, 0);
    pen.stroke();
  }

  #fill(pen, nodes, inside, outline, dash = []) {
    if (!nodes.length) return;
    pen.setLineDash(dash);
    pen.beginPath();
    for (const node of nodes) this.#shape(pen, node);
    pen.fillStyle = inside;
    pen.strokeStyle = outline;
    pen.lineWidth = this.crowded ? 0.6 : 1.1;
    pen.fill();
    pen.stroke();
    pen.setLineDash([]);
  }

  #ring(pen, node, colour, width) {
    if (node === null || node >= this.plan.total) return;
    pen.beginPath();
    this.#shape(pen, node, 4);
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.stroke();
  }

  // Labels where there is room: accepted path first, then by cumulative probability. A label that would touch another
  // label or a node is cut to its column, and left out if that does not help. Bands of 13 pixels keep this cheap.
  #drawLabels(pen) {
    const { plan, placed } = this;
    if (!this.ranks) this.#rankLabels();
    const taken = new Bands();
    this.labelled = new Set();
    for (let node = 0; node < plan.total; node++) {
      const r = placed.radius[node];
      taken.add(placed.x[node] - r, placed.x[node] + r, placed.y[node], r, node);
    }
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    pen.lineWidth = 3.5;
    pen.strokeStyle = this.colour.surface;
    for (const node of this.order) {
      if (this.lit && !this.lit.has(node)) continue;
      const strong = this.ranks[node] >= 2 || node === 0;
      if (this.#fate(node) !== "later" && (strong || this.scale.x > 26)) this.#placeLabel(pen, node, strong, taken);
    }
  }

  // In which order labels are placed: the same in every view of a round.
  #rankLabels() {
    const { plan, round } = this;
    const path = new Set(round.path);
    const lit = round.lit?.[0]?.node;
    this.ranks = Float64Array.from({ length: plan.total }, (_, node) => (node === lit ? 4 : this.#isBonus(node) ? 3
      : path.has(node) ? 2
      : GHOSTS.has(this.#fate(node)) ? 0.01 * this.#weight(node)
      : (this.#fate(node) === "rejected" ? 0.001 : 0) + this.#weight(node)));
    this.order = Uint32Array.from({ length: plan.total }, (_, node) => node).sort((a, b) => this.ranks[b] - this.ranks[a]);
  }

  #placeLabel(pen, node, strong, taken) {
    const root = node === 0;
    const y = this.#labelHeight(node);
    if (y < 4 || y > this.size.height - 16) return;
    const radius = this.placed.radius[node];
    const x = this.placed.x[node] + (root ? -1 : 1) * (radius + 4);
    const room = root ? 9 : Math.floor((this.size.width - x - 2) / LETTER);
    const own = Math.floor((this.scale.x - radius - 9) / LETTER);
    if (!strong && taken.touches(x, x + LETTER, y, 6, node)) return; // most labels of a large tree end here
    const full = reduceText(this.#labelOf(node), Math.min(strong ? 16 : 12, room));
    for (const text of [full, reduceText(full, Math.min(own, room))]) {
      const width = text.length * LETTER;
      const from = root ? x - width : x;
      if (text.length < Math.min(full.length, strong ? 2 : 3) || taken.touches(from, from + width, y, 6, node)) continue;
      taken.add(from, from + width, y, 6.5, node);
      this.labelled.add(node);
      return this.#drawLabel(pen, node, text, x, y, strong);
    }
  }

  // Beside a leaf; above an inner node, or below it where the accepted path turns up.
  #labelHeight(node) {
    const y = this.#y(node);
    if (node === 0 || this.#isLeaf(node)) return y;
    const place = this.round.path.indexOf(node);
    const next = place < 0 ? null : this.round.path[place + 1] ?? (this.round.bonus ? this.plan.count : null);
    return next !== null && next !== undefined && this.#y(next) < y - 3 ? y + 9 : y - 9;
  }

  #isLeaf(node) {
    return this.#isBonus(node) ||
      (!this.round.children[node].length && !(this.round.bonus && this.round.bonus.parent === node));
  }

  #drawLabel(pen, node, text, x, y, strong) {
    pen.font = (strong ? "600 " : "") + "11px " + this.font;
    const fate = this.#fate(node);
    pen.fillStyle = GHOSTS.has(fate) ? this.colour.faint : strong || fate !== "unreached" ? this.colour.ink : this.colour.muted;
    pen.textAlign = node === 0 ? "right" : "left";
    pen.strokeText(text, x, y);
    pen.fillText(text, x, y);
  }

  // ---- pointer --------------------------------------------------------------------------------------------------

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event));
    canvas.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => this.#hover(null));
    canvas.addEventListener("dblclick", () => this.fit());
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { x, y } = this.#point(event);
      this.#zoom(Math.exp(-event.deltaY * 0.0015), x, y);
    }, { passive: false });
    // The host's size is set by the style sheet, never by the canvas, so this cannot loop.
    new ResizeObserver(() => this.#resize()).observe(this.host);
  }

  #resize() {
    const [width, height] = [this.host.clientWidth / this.magnified, this.host.clientHeight / this.magnified];
    const ratio = (window.devicePixelRatio || 1) * this.magnified;
    if (!width || !height) return;
    if (width === this.size.width && height === this.size.height && this.canvas.width === Math.round(width * ratio)) return;
    this.size = { width, height };
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.drawing.width = this.canvas.width;
    this.drawing.height = this.canvas.height;
    if (!this.moved) this.#fitAll();
    this.draw();
  }

  #zoom(factor, x, y) {
    if (!this.scale) return;
    const bounded = (value, low, high) => Math.min(high, Math.max(low, value));
    const to = { x: bounded(this.scale.x * factor, 8, 600), y: bounded(this.scale.y * factor, 0.3, 160) };
    this.offset.x = x - ((x - this.offset.x) * to.x) / this.scale.x;
    this.offset.y = y - ((y - this.offset.y) * to.y) / this.scale.y;
    this.scale = to;
    this.#touched();
  }

  #touched() {
    this.moved = true;
    this.rootY = this.offset.y + this.plan.row[0] * this.scale.y;
    this.draw();
  }

  #down(event) {
    this.pointers.set(event.pointerId, this.#point(event));
    this.dragged = this.pointers.size > 1;
    this.canvas.setPointerCapture(event.pointerId);
  }

  #move(event) {
    const before = this.pointers.get(event.pointerId);
    const now = this.#point(event);
    if (!before) return this.#hover(this.at(now.x, now.y), now);
    if (!this.plan || !this.scale) return;
    if (!this.dragged && Math.hypot(now.x - before.x, now.y - before.y) < 4) return;
    this.dragged = true;
    this.#hover(null);
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, now);
    if (other) {
      const spread = (p) => Math.max(20, Math.hypot(p.x - other.x, p.y - other.y));
      return this.#zoom(spread(now) / spread(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
    }
    this.offset.x += now.x - before.x;
    this.offset.y += now.y - before.y;
    this.#touched();
  }

  #up(event) {
    const tapped = this.pointers.has(event.pointerId) && !this.dragged;
    this.pointers.delete(event.pointerId);
    if (!tapped) return;
    const { x, y } = this.#point(event);
    this.selected = this.at(x, y);
    this.onSelect(this.selected);
    this.#present();
  }

  #hover(node, at) {
    if (node === this.hovered) return;
    this.hovered = node;
    this.canvas.style.cursor = node === null ? "grab" : "pointer";
    this.tip.hidden = node === null;
    if (node !== null) this.#fillTip(node, at);
    this.#present();
  }

  #fillTip(node, at) {
    const { magnified, size } = this;
    fillTip(this.tip, this.describe(node), { x: this.#x(node) * magnified, y: at.y * magnified },
      { width: size.width * magnified, height: size.height * magnified });
  }

  // Name and value pairs of a node, as shown in the tooltip and read to screen readers.
  describe(node) {
    return nodeFacts(this.round, node, this.labelOf);
  }

  // One sentence for screen readers.
  summary(position, of) {
    const { round } = this;
    if (!round) return "No round to show.";
    const kept = round.path.slice(1).map((node) => this.#labelOf(node)).join(" ");
    return (round.supposed ? `What if, ${round.supposed}: ` : "") + `Round ${position} of ${of}: ${plural(round.drafted, "drafted node")}, ${round.accepted} accepted` +
      (kept ? `: ${kept}` : "") + (round.bonus ? `. The target added ${this.labelOf(round.bonus.token)}.` : ".");
  }
}


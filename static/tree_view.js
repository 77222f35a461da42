// The draft tree of one round on a canvas. Knows nothing of runs, panels or the server: `show` a round, hear of
// selections. Colour, shape and dash mean the same everywhere: see canopy.css and the legend.

import { layout } from "./tree_layout.js";
import { number, plural, probability } from "./glyphs.js";
import { RETRIEVAL } from "./run_log.js";

const PAD = { left: 30, right: 84, top: 22, bottom: 18 };
const LETTER = 6.7; // width of a letter of the label font
const NARROWEST = 54; // of a column on a phone, where not the whole tree was asked for
const PHONE = 600;
const COLOURS = ["ink", "muted", "faint", "surface", "accepted", "draft", "draft-line", "retrieval", "retrieval-line",
  "bonus", "select", "edge"];
const reduceText = (text, limit) => (text.length > limit ? text.slice(0, Math.max(1, limit - 1)) + "\u2026" : text);

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
    this.onSelect = onSelect;
    this.round = null;
    this.selected = null;
    this.hovered = null;
    this.moved = false; // the user has zoomed or panned: keep the view across rounds
    this.columns = 1;
    this.pointers = new Map();
    this.size = { width: 0, height: 0 };
    this.readColours();
    this.#listen();
  }

  // `labelOf` gives a token's label; `columns` is the deepest of the run, so that columns keep their place.
  show(round, labelOf, columns) {
    this.round = round;
    this.labelOf = labelOf;
    this.columns = Math.max(1, columns);
    this.plan = round ? layout(round) : null;
    this.selected = null;
    this.hovered = null;
    this.tip.hidden = true;
    if (!this.moved) this.#fitAll();
    this.#anchor();
    this.draw();
  }

  select(node) {
    this.selected = node;
    this.draw();
  }

  // All of the tree; with `path`, the accepted path and what stood beside it.
  fit(path = false) {
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
    this.scale = { x: Math.min(250, Math.max(narrowest, room / this.columns)),
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
  place(node) { return { x: this.#x(node), y: this.#y(node) }; }

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
    if (fate === "accepted") return Math.max(5, size);
    return (fate === "rejected" ? Math.max(3, Math.min(5, size)) : Math.min(5, size)) * crowd;
  }

  // ---- drawing --------------------------------------------------------------------------------------------------

  draw() {
    if (!this.size.width) return;
    const ratio = window.devicePixelRatio || 1;
    const pen = this.context;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.size.width, this.size.height);
    if (!this.plan) return;
    if (!this.scale) this.#fitAll();
    this.#drawColumns(pen);
    this.#drawEdges(pen);
    this.#drawNodes(pen);
    this.#drawLabels(pen);
  }

  #drawColumns(pen) {
    pen.fillStyle = this.colour.faint;
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
    const x0 = this.#x(above);
    const x1 = this.#x(node);
    const y0 = this.#y(above);
    const y1 = this.#y(node);
    const bend = x0 + (x1 - x0) * 0.5;
    pen.moveTo(x0, y0);
    pen.bezierCurveTo(bend, y0, bend, y1, x1, y1);
  }

  // One stroke per kind, the accepted path last.
  #drawEdges(pen) {
    const groups = { unreached: [], unreachedGraft: [], rejected: [], rejectedGraft: [], accepted: [], acceptedGraft: [] };
    for (let node = 1; node < this.plan.count; node++) {
      groups[this.#fate(node) + (this.#retrieved(node) ? "Graft" : "")].push(node);
    }
    const thin = this.scale.y < 4 ? 0.6 : 1;
    this.#stroke(pen, groups.unreached, this.colour.edge, thin, []);
    this.#stroke(pen, groups.unreachedGraft, this.colour.faint, thin, [4, 3]);
    this.#stroke(pen, groups.rejected, this.colour["draft-line"], 1.2, []);
    this.#stroke(pen, groups.rejectedGraft, this.colour["retrieval-line"], 1.4, [4, 3]);
    if (this.round.bonus) this.#stroke(pen, [this.plan.count], this.colour.bonus, 2, [1.5, 4]);
    this.#stroke(pen, groups.acceptedGraft, this.colour.accepted, 3, [7, 4]);
    this.#stroke(pen, groups.accepted, this.colour.accepted, 3, []);
  }

  #stroke(pen, nodes, colour, width, dash) {
    if (!nodes.length) return;
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.lineCap = dash.length === 2 && dash[0] < 2 ? "round" : "butt";
    pen.setLineDash(dash);
    pen.beginPath();
    for (const node of nodes) this.#edge(pen, node);
    pen.stroke();
    pen.setLineDash([]);
  }

  #shape(pen, node, grow = 0) {
    const x = this.#x(node);
    const y = this.#y(node);
    const r = this.#radius(node) + grow;
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

  #drawNodes(pen) {
    const order = { unreached: [], rejected: [], rejectedGraft: [], accepted: [], bonus: [], root: [] };
    for (let node = 0; node < this.plan.total; node++) {
      const fate = this.#fate(node);
      order[fate === "rejected" && this.#retrieved(node) ? "rejectedGraft" : fate].push(node);
    }
    const { colour } = this;
    this.#fill(pen, order.unreached, colour.surface, colour.muted);
    this.#fill(pen, order.rejected, colour.draft, colour["draft-line"]);
    this.#fill(pen, order.rejectedGraft, colour.retrieval, colour["retrieval-line"]);
    this.#fill(pen, order.bonus, colour.bonus, colour.surface);
    this.#fill(pen, order.accepted, colour.accepted, colour.surface);
    this.#fill(pen, order.root, colour.ink, colour.surface);
    this.#ring(pen, this.hovered, colour.muted, 1.5);
    this.#ring(pen, this.selected, colour.select, 2.2);
  }

  #fill(pen, nodes, inside, outline) {
    if (!nodes.length) return;
    pen.beginPath();
    for (const node of nodes) this.#shape(pen, node);
    pen.fillStyle = inside;
    pen.strokeStyle = outline;
    pen.lineWidth = this.scale.y < 4 ? 0.6 : 1.1;
    pen.fill();
    pen.stroke();
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
    const { plan, round } = this;
    const path = new Set(round.path);
    const rank = (node) =>
      node === this.selected || node === this.hovered ? 4 : this.#isBonus(node) ? 3 : path.has(node) ? 2
        : (this.#fate(node) === "rejected" ? 0.001 : 0) + this.#weight(node);
    const ranks = Float64Array.from({ length: plan.total }, (_, node) => rank(node));
    const order = Array.from({ length: plan.total }, (_, node) => node).sort((a, b) => ranks[b] - ranks[a]);
    const taken = new Bands();
    for (let node = 0; node < plan.total; node++) {
      const r = this.#radius(node);
      taken.add(this.#x(node) - r, this.#x(node) + r, this.#y(node), r, node);
    }
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    pen.lineWidth = 3.5;
    pen.strokeStyle = this.colour.surface;
    for (const node of order) {
      const strong = ranks[node] >= 2 || node === 0;
      if (strong || this.scale.x > 26) this.#placeLabel(pen, node, strong, taken);
    }
  }

  #placeLabel(pen, node, strong, taken) {
    const root = node === 0;
    const y = this.#labelHeight(node);
    if (y < 4 || y > this.size.height - 16) return;
    const x = this.#x(node) + (root ? -1 : 1) * (this.#radius(node) + 4);
    const room = root ? 9 : Math.floor((this.size.width - x - 2) / LETTER);
    const own = Math.floor((this.scale.x - this.#radius(node) - 9) / LETTER);
    const full = reduceText(this.#labelOf(node), Math.min(strong ? 16 : 12, room));
    for (const text of [full, reduceText(full, Math.min(own, room))]) {
      const width = text.length * LETTER;
      const from = root ? x - width : x;
      if (text.length < Math.min(full.length, strong ? 2 : 3) || taken.touches(from, from + width, y, 6, node)) continue;
      taken.add(from, from + width, y, 6.5, node);
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
    pen.fillStyle = strong || this.#fate(node) !== "unreached" ? this.colour.ink : this.colour.muted;
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
      this.#zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
    }, { passive: false });
    // The host's size is set by the style sheet, never by the canvas, so this cannot loop.
    new ResizeObserver(() => this.#resize()).observe(this.host);
  }

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.host;
    const ratio = window.devicePixelRatio || 1;
    if (!width || !height) return;
    if (width === this.size.width && height === this.size.height && this.canvas.width === Math.round(width * ratio)) return;
    this.size = { width, height };
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
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
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.dragged = this.pointers.size > 1;
    this.canvas.setPointerCapture(event.pointerId);
  }

  #move(event) {
    const before = this.pointers.get(event.pointerId);
    const now = { x: event.offsetX, y: event.offsetY };
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
    this.selected = this.at(event.offsetX, event.offsetY);
    this.onSelect(this.selected);
    this.draw();
  }

  #hover(node, at) {
    if (node === this.hovered) return;
    this.hovered = node;
    this.canvas.style.cursor = node === null ? "grab" : "pointer";
    this.tip.hidden = node === null;
    if (node !== null) this.#fillTip(node, at);
    this.draw();
  }

  #fillTip(node, at) {
    const facts = this.describe(node);
    this.tip.replaceChildren(...facts.map(([name, value], index) => {
      const line = document.createElement(index ? "span" : "strong");
      line.textContent = index ? name + " " + value : value;
      return line;
    }));
    const { offsetWidth: width, offsetHeight: height } = this.tip;
    const x = this.#x(node) + 14 + width > this.size.width ? this.#x(node) - width - 14 : this.#x(node) + 14;
    const y = Math.min(Math.max(4, at.y - height - 12), this.size.height - height - 4);
    this.tip.style.transform = `translate(${Math.round(Math.max(4, x))}px, ${Math.round(y)}px)`;
  }

  // Name and value pairs of a node, as shown in the tooltip and read to screen readers.
  describe(node) {
    const { round } = this;
    if (this.#isBonus(node)) {
      const place = round.verdict.top_token[round.bonus.parent].indexOf(round.bonus.token);
      return [["token", this.#labelOf(node)], ["", "bonus: the target\u2019s own token"], ["target p",
        probability(place < 0 ? null : round.verdict.top_logprob[round.bonus.parent][place])]];
    }
    const kind = node === 0 ? "root: the last committed token"
      : (this.#retrieved(node) ? "retrieved" : "drafted") + ", " +
        { accepted: "accepted", rejected: "rejected", unreached: "not reached" }[round.fate[node]];
    const facts = [["token", this.#labelOf(node)], ["", kind]];
    if (node > 0) {
      facts.push(["draft p", probability(round.tree.logprob[node])]);
      facts.push(["path p", probability(round.cumulative[node])]);
      facts.push(["target p", probability(round.verdict.logprob[node]) + ", rank " + round.verdict.rank[node]]);
    }
    facts.push(["entropy after", number(round.verdict.entropy[node]) + " nats"]);
    return facts;
  }

  // One sentence for screen readers.
  summary(position, of) {
    const { round } = this;
    if (!round) return "No round to show.";
    const kept = round.path.slice(1).map((node) => this.#labelOf(node)).join(" ");
    return `Round ${position} of ${of}: ${plural(round.drafted, "drafted node")}, ${round.accepted} accepted` +
      (kept ? `: ${kept}` : "") + (round.bonus ? `. The target added ${this.labelOf(round.bonus.token)}.` : ".");
  }
}


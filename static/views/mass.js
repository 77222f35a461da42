// The probability-mass icicle: depth to the right, a node as high as its path probability q(u), children side by side
// on their parent. By Proposition 1 of DDTree the area is the expected accepted length.

import { number, plural } from "../glyphs.js";
import { depthOf, isBonus, isRetrieved } from "../node_facts.js";
import { CanvasView, cut } from "./canvas_view.js";

const PAD = { top: 20, bottom: 24, right: 10 };
const ROOT = 20; // width of the root's column
const NARROWEST = 34; // of a column

// Heights of all nodes, 1 the root's; `known` is false where the drafter gave no path probability: such a node is as
// high as the target's own probability makes it, below a drafted one as well. `expected` is the sum of the known, and
// `reach` the same sum by depth: the chance, as the drafter sees it, that so many tokens are accepted.
export function massOf(round) {
  const { parent, logprob } = round.tree;
  const count = parent.length;
  const height = new Float64Array(count);
  const known = new Uint8Array(count);
  const reach = [];
  let expected = 0;
  height[0] = known[0] = 1;
  for (let node = 1; node < count; node++) {
    known[node] = round.cumulative[node] === null ? 0 : 1;
    height[node] = known[node] ? Math.exp(round.cumulative[node])
      : height[parent[node]] * Math.exp(logprob[node] ?? round.verdict.logprob[node] ?? -Infinity);
    if (!known[node]) continue;
    expected += height[node];
    reach[round.depth[node]] = (reach[round.depth[node]] ?? 0) + height[node];
  }
  return { height, known, reach, expected };
}

// Where each node's block begins. Retrieved children need not fit on their parent beside the drafted ones: a subtree
// then takes the room of its children, so that no two blocks cover each other.
export function stack(round, height) {
  const { parent } = round.tree;
  const count = parent.length;
  const below = new Float64Array(count);
  const extent = new Float64Array(count);
  for (let node = count - 1; node >= 0; node--) {
    extent[node] = Math.max(height[node], below[node]);
    if (node) below[parent[node]] += extent[node];
  }
  const top = new Float64Array(count);
  const next = new Float64Array(count);
  for (let node = 1; node < count; node++) {
    top[node] = next[parent[node]];
    next[node] = top[node];
    next[parent[node]] += extent[node];
  }
  return { top, extent: extent[0] };
}

export class MassView extends CanvasView {
  constructor(host, options) {
    super(host, { ...options, name: "Probability mass" });
  }

  show(round, log) {
    this.mass = round ? massOf(round) : null;
    super.show(round, log);
  }

  empty() {
    return this.round.drafted ? "" : "Nothing was drafted in this round: no mass to show.";
  }

  narrowest() {
    return ROOT + PAD.right + NARROWEST * this.log.deepest;
  }

  caption() {
    const { round, mass } = this;
    const unknown = round.drafted - mass.known.reduce((sum, value) => sum + value, -1);
    const really = `really accepted ${round.accepted}`;
    const below = " Below: the drafter\u2019s chance to get so far, bold where it came true.";
    if (unknown === round.drafted) {
      return `No expected length: nothing in this tree has a draft probability; ${really}. ` +
        "Hatched blocks are as high as the target\u2019s probability.";
    }
    return `Expected accepted length ${number(mass.expected)} = the area, the sum of q over ` +
      `${plural(round.drafted - unknown, "node")}; ${really}.` + below +
      (unknown ? ` Hatched: ${unknown} without q (${plural(round.retrieved, "graft")} and what hangs on them), as high as the target\u2019s probability, not in the sum.` : "");
  }

  arrange() {
    const { round, size, log } = this;
    const { top, extent } = stack(round, this.mass.height);
    this.fits = extent <= 1;
    this.unit = (size.height - PAD.top - PAD.bottom) / Math.max(1, extent);
    this.column = (size.width - ROOT - PAD.right) / log.deepest;
    const left = (depth) => (depth ? ROOT + (depth - 1) * this.column : 2);
    this.boxes = Array.from(top, (value, node) => ({ x: left(round.depth[node]), y: PAD.top + value * this.unit,
      width: round.depth[node] ? this.column - 1 : ROOT - 4, height: this.mass.height[node] * this.unit }));
    if (round.bonus) {
      const end = this.boxes[round.end];
      const y = Math.min(size.height - PAD.bottom - 8, Math.max(PAD.top + 8, end.y + end.height / 2));
      this.boxes.push({ x: left(depthOf(round, this.boxes.length)) + 4, y: y - 7, width: 14, height: 14 });
    }
  }

  paint(pen) {
    const { round, boxes, colour } = this;
    this.#columns(pen);
    const path = new Set(round.path);
    for (let node = 0; node < round.tree.token.length; node++) if (!path.has(node)) this.#block(pen, node);
    for (const node of round.path) this.#block(pen, node);
    pen.strokeStyle = colour.accepted;
    pen.lineWidth = 2.5;
    for (const node of round.path.slice(1)) this.#outline(pen, boxes[node]);
    if (round.bonus) this.#bonus(pen, boxes[boxes.length - 1]);
  }

  mark(pen) {
    const { boxes, colour } = this;
    pen.lineWidth = 1.5;
    if (this.hovered) { pen.strokeStyle = colour.muted; this.#outline(pen, boxes[this.hovered.node], 1); }
    pen.lineWidth = 2.2;
    if (this.selected !== null && boxes[this.selected]) { pen.strokeStyle = colour.select; this.#outline(pen, boxes[this.selected], 2); }
  }

  // Below each column the drafter's chance to get that far, bold where it did.
  #columns(pen) {
    const { round, size, colour } = this;
    pen.textAlign = "center";
    for (let depth = 1; depth <= this.log.deepest; depth++) {
      const x = ROOT + (depth - 0.5) * this.column;
      this.font(pen, false, 10);
      pen.fillStyle = colour.faint;
      pen.fillText(String(depth), x, 10);
      const reach = this.mass.reach[depth];
      if (reach === undefined) continue;
      this.font(pen, depth <= round.accepted, 10.5);
      pen.fillStyle = depth <= round.accepted ? colour.ink : colour.muted;
      pen.fillText(reach >= 0.995 ? "1.0" : reach < 0.005 ? "<.01" : reach.toFixed(2).slice(1), x, size.height - 10);
    }
    pen.textAlign = "left";
    this.#outside(pen);
  }

  // What the drafter thought possible at depth 1 and the tree left out.
  #outside(pen) {
    const left = 1 - (this.mass.reach[1] ?? 1);
    if (!this.fits || left * this.unit < 18) return;
    this.font(pen, false, 10.5);
    pen.fillStyle = this.colour.faint;
    pen.fillText(cut(`not drafted ${left.toFixed(2).replace(/^0/, "")}`, this.size.width), ROOT + 4, PAD.top + (1 - left / 2) * this.unit);
  }

  #block(pen, node) {
    const { round, colour } = this;
    const box = this.boxes[node];
    const fate = round.fate[node];
    const sure = this.mass.known[node];
    const graft = isRetrieved(round, node);
    const [fill, line] = fate === "root" ? [colour.ink, colour.ink] : fate === "accepted" ? [colour.accepted, colour.accepted]
      : fate === "unreached" ? [colour.sunken, colour.edge]
        : graft ? [colour.retrieval, colour["retrieval-line"]] : [colour.draft, colour["draft-line"]];
    if (sure) {
      pen.fillStyle = fill;
      pen.fillRect(box.x, box.y, box.width, box.height);
    } else {
      pen.fillStyle = this.hatch(pen, fate === "unreached" ? (graft ? colour["retrieval-line"] : colour.faint) : fill);
      pen.fillRect(box.x, box.y, box.width, box.height);
    }
    if (box.height > 2.5) {
      pen.strokeStyle = sure && fate !== "unreached" ? colour.surface : line;
      pen.lineWidth = 1;
      pen.setLineDash(graft ? [4, 3] : []);
      pen.strokeRect(box.x + 0.5, box.y + 0.5, box.width - 1, box.height - 1);
      pen.setLineDash([]);
    }
    if (box.height >= 12 && node) this.#label(pen, node, box, sure && fate !== "unreached");
  }

  #label(pen, node, box, solid) {
    const { round, colour } = this;
    const text = cut(this.labelOf(round.tree.token[node]), box.width - 8);
    if (!text) return;
    const strong = round.fate[node] === "accepted";
    const two = box.height >= 28;
    const y = box.y + box.height / 2 - (two ? 6 : 0);
    this.font(pen, strong);
    pen.fillStyle = solid ? colour["on-fill"] : colour.ink;
    if (!solid) this.#halo(pen, text, box.x + 5, y);
    pen.fillText(text, box.x + 5, y);
    if (!two) return;
    this.font(pen, false, 10.5);
    const share = this.mass.height[node].toFixed(2).replace(/^0/, "");
    if (!solid) this.#halo(pen, share, box.x + 5, y + 13);
    pen.fillText(share, box.x + 5, y + 13);
  }

  #halo(pen, text, x, y) {
    pen.strokeStyle = this.colour.surface;
    pen.lineWidth = 3;
    pen.lineJoin = "round";
    pen.strokeText(text, x, y);
  }

  #bonus(pen, box) {
    const { round, colour } = this;
    const [x, y, r] = [box.x + 7, box.y + 7, 7];
    pen.beginPath();
    pen.moveTo(x, y - r); pen.lineTo(x + r, y); pen.lineTo(x, y + r); pen.lineTo(x - r, y); pen.closePath();
    pen.fillStyle = colour.bonus;
    pen.fill();
    const text = cut(this.labelOf(round.bonus.token), Math.min(110, this.size.width - x - 14));
    this.font(pen, true);
    this.#halo(pen, text, x + 11, y);
    pen.fillStyle = colour.ink;
    pen.fillText(text, x + 11, y);
  }

  #outline(pen, box, grow = 0) {
    if (box) pen.strokeRect(box.x - grow + 0.5, box.y - grow, box.width + 2 * grow - 1, Math.max(1.5, box.height + 2 * grow));
  }

  // The block under the pointer, or the nearest within a few pixels: many are thinner than a pointer.
  at(x, y) {
    let best = null;
    let nearest = 4;
    const { boxes, round } = this;
    for (let node = boxes.length - 1; node >= 0; node--) {
      const box = boxes[node];
      if (x < box.x || x > box.x + box.width) continue;
      const distance = Math.max(box.y - y, y - box.y - box.height, 0);
      if (distance < nearest) {
        [nearest, best] = [distance, node];
        if (isBonus(round, node) && !distance) break;
      }
    }
    return best === null ? null : { node: best, key: best, x: x, y };
  }
}

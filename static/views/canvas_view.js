// What the views of a round have in common: a caption, a canvas, hover text and selection. The contract of a view:
// `new View(host, { onSelect })`, `show(round, log)`, `select(node)`; the host's size is set by the style sheet.

import { make, onThemeChange, write } from "../dom.js";
import { nodeFacts } from "../node_facts.js";
import { fillTip } from "../tip.js";

const COLOURS = ["ink", "muted", "faint", "surface", "sunken", "line", "accepted", "draft", "draft-line", "retrieval",
  "retrieval-line", "bonus", "select", "edge", "on-fill"];
export const COMING = "The first round is on its way\u2026";
export const LETTER = 6.6; // width of a letter of the label font

export const cut = (text, room) => {
  const letters = Math.floor(room / LETTER);
  return text.length <= letters ? text : letters < 2 ? "" : text.slice(0, letters - 1) + "\u2026";
};

// A view over a canvas. It says how: `arrange()` after a new round or size, `paint(pen)` what then stays, `mark(pen)`
// what is hovered and selected above it, `at(x, y)` for the thing under the pointer ({ node, key, x, y } or null), and
// `caption()`. `facts(hit)` is the hover text of such a thing.
export class CanvasView {
  constructor(host, { name, onSelect }) {
    this.host = host;
    this.onSelect = onSelect;
    this.captionLine = make("p", "cy-caption");
    this.scroller = make("div", "cy-scroller");
    this.canvas = make("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.dataset.name = name;
    this.tip = make("div", "cy-tip");
    this.tip.hidden = true;
    this.blank = make("p", "cy-blank");
    this.scroller.append(this.canvas, this.tip);
    host.append(this.captionLine, this.scroller, this.blank);
    this.pen = this.canvas.getContext("2d");
    this.still = document.createElement("canvas"); // what `paint` drew: hovering a big tree must not draw it again
    this.round = null;
    this.selected = null;
    this.hovered = null;
    this.size = { width: 0, height: 0 };
    this.#readColours();
    onThemeChange(() => { this.#readColours(); this.#paintStill(); this.draw(); });
    this.#listen();
  }

  show(round, log) {
    this.round = round;
    this.log = log;
    this.selected = null;
    this.#hover(null);
    this.refresh();
  }

  select(node) {
    this.selected = node;
    this.draw();
  }

  // Once more, where the log has grown or the size has changed.
  refresh() {
    const why = this.round ? this.empty() : COMING;
    write(this.blank, why);
    this.blank.hidden = !why;
    this.canvas.style.visibility = why ? "hidden" : "";
    const caption = why ? "" : this.caption();
    write(this.captionLine, caption);
    this.canvas.setAttribute("aria-label", `${this.canvas.dataset.name}. ${caption || why}`);
    this.#resize();
    this.ready = Boolean(!why && this.size.width);
    if (this.ready) this.arrange();
    this.#paintStill();
    this.draw();
  }

  // Why there is nothing to draw; an empty text where there is.
  empty() { return ""; }
  // The least width in which the view can be read: a narrower host scrolls.
  narrowest() { return 0; }
  facts(hit) { return nodeFacts(this.round, hit.node, (token) => this.log.label(token)); }
  labelOf(token) { return this.log.label(token); }

  draw() {
    const { pen, size, canvas } = this;
    if (!size.width) return;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    if (!this.ready) return;
    pen.drawImage(this.still, 0, 0);
    this.#prepare(pen);
    this.mark(pen);
  }

  #paintStill() {
    if (!this.ready) return;
    const { still, canvas } = this;
    if (still.width !== canvas.width || still.height !== canvas.height) [still.width, still.height] = [canvas.width, canvas.height];
    const pen = still.getContext("2d");
    this.#prepare(pen);
    pen.clearRect(0, 0, this.size.width, this.size.height);
    this.paint(pen);
  }

  #prepare(pen) {
    const ratio = window.devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    this.written = "";
  }

  // Set only where it changes: a browser reads a font anew each time.
  font(pen, strong = false, size = 11) {
    const font = (strong ? "600 " : "") + size + "px " + this.mono;
    if (font !== this.written) pen.font = this.written = font;
  }

  // Retrieved nodes are hatched wherever an area stands for them.
  hatch(pen, colour) {
    const ratio = window.devicePixelRatio || 1;
    const key = colour + ratio;
    this.hatches ??= new Map();
    if (!this.hatches.has(key)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 7 * ratio;
      const ink = tile.getContext("2d");
      ink.scale(ratio, ratio);
      ink.strokeStyle = colour;
      ink.lineWidth = 1.3;
      ink.beginPath();
      for (const shift of [-7, 0, 7]) { ink.moveTo(shift - 1, 8); ink.lineTo(shift + 8, -1); }
      ink.stroke();
      const pattern = pen.createPattern(tile, "repeat");
      pattern.setTransform(new DOMMatrix().scale(1 / ratio));
      this.hatches.set(key, pattern);
    }
    return this.hatches.get(key);
  }

  #readColours() {
    const style = getComputedStyle(this.host);
    this.colour = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue("--cy-" + name).trim()]));
    this.mono = style.getPropertyValue("--cy-mono").trim() || "monospace";
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => this.#hover(this.#under(event)));
    canvas.addEventListener("pointerleave", () => this.#hover(null));
    canvas.addEventListener("click", (event) => this.onSelect(this.#under(event)?.node ?? null));
    new ResizeObserver(() => {
      if (this.host.clientWidth && this.#resize()) this.refresh();
    }).observe(this.scroller);
  }

  #under(event) {
    return this.ready ? this.at(event.offsetX, event.offsetY) : null;
  }

  // Says whether anything has changed.
  #resize() {
    const { clientWidth, clientHeight: height } = this.scroller;
    if (!clientWidth || !height) return false;
    const width = Math.max(clientWidth, this.round ? this.narrowest() : 0);
    const ratio = window.devicePixelRatio || 1;
    const wanted = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width === wanted[0] && this.canvas.height === wanted[1] && this.size.width === width) return false;
    this.size = { width, height };
    [this.canvas.width, this.canvas.height] = wanted;
    this.canvas.style.width = width + "px";
    return true;
  }

  #hover(hit) {
    if (hit?.key === this.hovered?.key) return;
    this.hovered = hit;
    this.tip.hidden = !hit;
    this.canvas.style.cursor = hit && hit.node !== null ? "pointer" : "default";
    if (hit) fillTip(this.tip, this.facts(hit), hit, this.size);
    this.draw();
  }
}

// One chart on a canvas: layers over a row of places (rounds or depths), a line that reads, and a table of the same.
// The drawing is kept, so that the mark of the round on show moves without drawing anything again. Nothing is drawn where
// it cannot be seen.

import { make, write } from "../dom.js";
import { thinned } from "./series.js";

const PAD = { left: 34, right: 10, top: 8, bottom: 18 };
const TABLE_ROWS = 100;
const COLOURS = ["ink", "muted", "line", "accepted", "accepted-ink", "draft", "draft-line", "accent", "warn",
  "surface"];

export class Chart {
  // `note` says by which convention the figures are reckoned; `pick(place)` hears of clicks.
  constructor(title, note, pick) {
    this.element = make("figure", "cy-chart");
    this.name = make("span", "cy-chart-name", title);
    this.reading = make("span", "cy-chart-reading");
    this.canvas = make("canvas");
    this.canvas.setAttribute("role", "img");
    this.blank = make("div", "cy-chart-blank");
    this.table = make("div", "cy-chart-table");
    this.note = make("p", "cy-chart-note", note);
    const caption = make("figcaption");
    caption.title = note;
    caption.append(this.name, this.reading);
    const room = make("div", "cy-chart-room");
    room.append(this.canvas, this.blank, this.table);
    this.element.append(caption, room, this.note);
    this.drawing = document.createElement("canvas");
    this.title = title;
    this.spec = null;
    this.at = null; // the place that is read: under the pointer, else the one on show
    this.size = { width: 0, height: 0 };
    this.canvas.onpointermove = (event) => this.#point(this.#place(event.offsetX));
    this.canvas.onpointerleave = () => this.#point(null);
    this.canvas.onclick = (event) => this.spec?.count && pick(this.#place(event.offsetX));
    this.readColours();
    new ResizeObserver(([entry]) => {
      this.size = { width: entry.contentRect.width, height: entry.contentRect.height };
      this.draw();
    }).observe(room);
    this.inSight = true;
    new IntersectionObserver((entries) => {
      this.inSight = entries.at(-1).isIntersecting;
      this.draw();
    }, { rootMargin: "100px" }).observe(room);
  }

  readColours() {
    const style = getComputedStyle(document.body);
    this.colour = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue("--cy-" + name).trim()]));
    this.font = style.getPropertyValue("--cy-mono").trim() || "monospace";
  }

  // A spec: `count` places named `names(i)`, `top` of the scale, `ticks(y)` as text, `layers` of {kind, value, colour},
  // `levels` of {value, text, colour}, `read(i)` in words, `columns` of [heading, value(i)], `says` for screen readers.
  show(spec) {
    this.spec = spec;
    this.blank.hidden = spec.count > 0 && !spec.empty;
    this.canvas.style.visibility = this.blank.hidden ? "" : "hidden";
    if (spec.empty) this.blank.replaceChildren(...spec.empty);
    this.canvas.setAttribute("aria-label", this.title + ": " + spec.says);
    if (!this.table.hidden) this.#fillTable();
    this.draw();
  }

  // The place on show: of the current round.
  mark(place) {
    this.current = place;
    this.#present();
  }

  asTable(on) {
    this.table.hidden = !on;
    if (on && this.spec) this.#fillTable();
  }

  // ---- geometry ---------------------------------------------------------------------------------------------------

  get #wide() { return Math.max(1, this.size.width - PAD.left - PAD.right); }
  #x(place) { return PAD.left + ((place + 0.5) / this.spec.count) * this.#wide; }
  #y(value) { return PAD.top + (1 - Math.min(1, value / this.spec.top)) * (this.size.height - PAD.top - PAD.bottom); }
  #place(x) {
    return Math.min(this.spec.count - 1, Math.max(0, Math.floor(((x - PAD.left) / this.#wide) * this.spec.count)));
  }

  // ---- drawing ----------------------------------------------------------------------------------------------------

  draw() {
    const { width, height } = this.size;
    if (!width || !height || !this.spec || !this.inSight) return;
    const ratio = window.devicePixelRatio || 1;
    for (const each of [this.canvas, this.drawing]) {
      each.width = Math.round(width * ratio);
      each.height = Math.round(height * ratio);
    }
    const pen = this.drawing.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (this.spec.count) {
      this.#axes(pen);
      for (const layer of this.spec.layers) this["_" + layer.kind](pen, layer);
      for (const level of this.spec.levels ?? []) this.#level(pen, level);
    }
    this.#present();
  }

  #axes(pen) {
    const { spec, size } = this;
    pen.font = "10px " + this.font;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (const value of [0, spec.top / 2, spec.top]) {
      pen.fillStyle = this.colour.line;
      pen.fillRect(PAD.left, Math.round(this.#y(value)), this.#wide, 1);
      pen.fillStyle = this.colour.muted;
      pen.fillText(spec.ticks(value), PAD.left - 5, this.#y(value));
    }
    const every = Math.max(1, Math.ceil(spec.count / Math.max(1, Math.floor(this.#wide / 60))));
    pen.textAlign = "center";
    for (let i = 0; i < spec.count; i += every) pen.fillText(spec.names(i), this.#x(i), size.height - 7);
  }

  _dots(pen, { value, colour }) {
    const places = thinned(this.spec.count, this.#wide / 2, value);
    pen.fillStyle = this.colour[colour];
    const radius = Math.min(3, Math.max(1, this.#wide / this.spec.count / 2.5));
    for (const { first, last, low, high } of places) {
      const x = this.#x((first + last) / 2);
      if (first === last) {
        pen.beginPath();
        pen.arc(x, this.#y(low), radius, 0, 2 * Math.PI);
        pen.fill();
      } else {
        pen.fillRect(x - 0.75, this.#y(high) - 1, 1.5, this.#y(low) - this.#y(high) + 2);
      }
    }
  }

  _line(pen, { value, colour }) {
    pen.strokeStyle = this.colour[colour];
    pen.lineWidth = 2;
    pen.lineJoin = "round";
    pen.beginPath();
    const places = thinned(this.spec.count, this.#wide, value);
    places.forEach(({ first, last, mean }, index) => {
      const [x, y] = [this.#x((first + last) / 2), this.#y(mean)];
      if (index && places[index - 1].last === first - 1) pen.lineTo(x, y);
      else pen.moveTo(x, y);
    });
    pen.stroke();
  }

  _bars(pen, { value, colour }) {
    pen.fillStyle = this.colour[colour];
    const wide = Math.min(34, (this.#wide / this.spec.count) * 0.62);
    for (let i = 0; i < this.spec.count; i++) {
      pen.fillRect(this.#x(i) - wide / 2, this.#y(value(i)), wide, Math.max(1, this.#y(0) - this.#y(value(i))));
    }
  }

  _steps(pen, { value, colour }) {
    pen.strokeStyle = this.colour[colour];
    pen.lineWidth = 2;
    const wide = Math.min(44, (this.#wide / this.spec.count) * 0.84);
    pen.beginPath();
    for (let i = 0; i < this.spec.count; i++) {
      pen.moveTo(this.#x(i) - wide / 2, this.#y(value(i)));
      pen.lineTo(this.#x(i) + wide / 2, this.#y(value(i)));
    }
    pen.stroke();
  }

  #level(pen, { value, text, colour }) {
    const y = this.#y(value);
    pen.strokeStyle = pen.fillStyle = this.colour[colour];
    pen.lineWidth = 1.5;
    pen.setLineDash([5, 4]);
    pen.beginPath();
    pen.moveTo(PAD.left, y);
    pen.lineTo(this.size.width - PAD.right, y);
    pen.stroke();
    pen.setLineDash([]);
    pen.textAlign = "right";
    pen.lineWidth = 3; // a halo, so that no line strikes the word through
    pen.strokeStyle = this.colour.surface;
    const beside = y < PAD.top + 14 ? y + 9 : y - 8;
    pen.strokeText(text, this.size.width - PAD.right, beside);
    pen.fillText(text, this.size.width - PAD.right, beside);
  }

  #present() {
    const { drawing, spec } = this;
    if (!spec) return;
    const read = this.at ?? this.current ?? null;
    write(this.reading, spec.count && read !== null && read < spec.count ? spec.read(read) : "");
    if (!drawing.width || !drawing.height || !this.inSight) return;
    const pen = this.canvas.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, drawing.width, drawing.height);
    pen.drawImage(drawing, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (const [place, strength] of [[this.current, 0.13], [this.at, 0.22]]) {
      if ((place ?? null) === null || place >= spec.count) continue;
      pen.globalAlpha = strength;
      pen.fillStyle = this.colour.ink;
      const wide = Math.max(2, this.#wide / spec.count);
      pen.fillRect(this.#x(place) - wide / 2, PAD.top, wide, this.#y(0) - PAD.top);
      pen.globalAlpha = 1;
    }
  }

  #point(place) {
    if (!this.spec?.count || place === this.at) return;
    this.at = place;
    this.#present();
  }

  // ---- the same as a table ------------------------------------------------------------------------------------------

  #fillTable() {
    const { columns, count, names } = this.spec;
    const table = make("table");
    table.append(make("caption", "cy-sr", this.title));
    const head = make("tr");
    head.append(...columns.map(([heading]) => Object.assign(make("th", "", heading), { scope: "col" })));
    table.append(head);
    for (const { first, last } of thinned(count, TABLE_ROWS, () => 0)) {
      const row = make("tr");
      const named = first === last ? names(first) : names(first) + "\u2013" + names(last);
      row.append(make("th", "", named), ...columns.slice(1).map(([, value]) => make("td", "", value(last))));
      table.append(row);
    }
    this.table.replaceChildren(table);
  }
}

// Small charts as SVG elements. Styles come from classes in whatif.css; the only texts are numbers and fixed words.

const SVG = "http://www.w3.org/2000/svg";

export function shape(tag, attributes = {}, text = undefined) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// A plot area inside `svg`: scales from data to its view box, axes with ticks, and paths of points.
export class Plot {
  constructor(svg, { x, y, xTicks, yTicks, xName, yName }) {
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    this.svg = svg;
    this.box = { left: 30, right: width - 10, top: 10, bottom: height - 30 };
    this.range = { x, y };
    const { box } = this;
    svg.replaceChildren();
    for (const tick of yTicks) {
      this.add("line", { class: "w-grid", x1: box.left, x2: box.right, y1: this.y(tick), y2: this.y(tick) });
      this.add("text", { class: "w-tick", x: box.left - 6, y: this.y(tick) + 3.5, "text-anchor": "end" }, String(tick));
    }
    for (const tick of xTicks) {
      this.add("text", { class: "w-tick", x: this.x(tick), y: box.bottom + 13, "text-anchor": "middle" }, String(tick));
    }
    this.add("text", { class: "w-name", x: (box.left + box.right) / 2, y: height - 4, "text-anchor": "middle" }, xName);
    this.add("text", { class: "w-name", x: box.left + 3, y: box.top + 4 }, yName);
  }

  x(value) {
    const [low, high] = this.range.x;
    return this.box.left + ((value - low) / (high - low)) * (this.box.right - this.box.left);
  }

  y(value) {
    const [low, high] = this.range.y;
    return this.box.bottom - ((value - low) / (high - low)) * (this.box.bottom - this.box.top);
  }

  add(tag, attributes, text) {
    return this.svg.appendChild(shape(tag, attributes, text));
  }

  // A line through `values`, their index on the x axis; `stepped` holds each value until the next.
  line(values, name, stepped = false) {
    const points = values.map((value, index) => [this.x(index), this.y(value)]);
    const d = points.map(([x, y], i) => (i === 0 ? `M${x} ${y}` : stepped ? `H${x}V${y}` : `L${x} ${y}`)).join("");
    return this.add("path", { class: name, d });
  }
}

// Round steps for an axis: about `count` ticks from 0 to `high`.
export function ticks(high, count) {
  const rough = high / count;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough);
  return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, index) => Number((index * step).toFixed(6)));
}

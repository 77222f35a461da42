// A pen that draws SVG: it knows as much of a 2-D canvas context as TreeView uses, so that the drawing is the same one.

const SVG = "http://www.w3.org/2000/svg";
// What XML cannot hold, not even escaped.
const NOT_XML = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;
const places = (value) => String(Math.round(value * 100) / 100);

export class SvgPen {
  fillStyle = "#000";
  strokeStyle = "#000";
  lineWidth = 1;
  lineCap = "butt";
  lineJoin = "miter";
  globalAlpha = 1;
  font = "10px sans-serif";
  textAlign = "start";
  textBaseline = "alphabetic";
  #dash = [];
  #path = "";
  #drawn = null; // the element of the path in hand: a stroke goes onto its fill
  #root;

  constructor(width, height) {
    this.#root = document.createElementNS(SVG, "svg");
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) {
      this.#root.setAttribute(name, value);
    }
  }

  describe(title, text) {
    for (const [tag, value] of [["title", title], ["desc", text]]) this.#element(tag).textContent = clean(value);
  }

  #element(tag, attributes = {}) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (this.globalAlpha < 1) element.setAttribute("opacity", this.globalAlpha);
    this.#root.append(element);
    return element;
  }

  setLineDash(dash) { this.#dash = dash; }

  beginPath() { this.#path = ""; this.#drawn = null; }
  moveTo(x, y) { this.#path += `M${places(x)} ${places(y)}`; }
  lineTo(x, y) { this.#path += `L${places(x)} ${places(y)}`; }
  bezierCurveTo(...points) { this.#path += "C" + points.map(places).join(" "); }
  closePath() { this.#path += "Z"; }
  rect(x, y, w, h) { this.#path += `M${places(x)} ${places(y)}h${places(w)}v${places(h)}h${places(-w)}Z`; }

  // Whole circles, which is all that the drawing has.
  arc(x, y, r) {
    this.#path += `M${places(x + r)} ${places(y)}a${places(r)} ${places(r)} 0 1 0 ${places(-2 * r)} 0a${places(r)} ${places(r)} 0 1 0 ${places(2 * r)} 0Z`;
  }

  fill() {
    this.#drawn = this.#element("path", { d: this.#path, fill: this.fillStyle });
  }

  stroke() {
    const element = this.#drawn ?? this.#element("path", { d: this.#path, fill: "none" });
    this.#drawn = element;
    element.setAttribute("stroke", this.strokeStyle);
    element.setAttribute("stroke-width", this.lineWidth);
    if (this.lineCap !== "butt") element.setAttribute("stroke-linecap", this.lineCap);
    if (this.#dash.length) element.setAttribute("stroke-dasharray", this.#dash.join(" "));
  }

  fillRect(x, y, width, height) {
    this.#element("rect", { x, y, width, height, fill: this.fillStyle });
  }

  strokeText(text, x, y) {
    this.#text(text, x, y, { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-linejoin": this.lineJoin });
  }

  fillText(text, x, y) {
    this.#text(text, x, y, { fill: this.fillStyle });
  }

  #text(text, x, y, paint) {
    const [, weight, size, family] = this.font.match(/^(?:(\d+|bold) )?([\d.]+)px (.*)$/) ?? [null, null, "10", "sans-serif"];
    const element = this.#element("text", { x: places(x), y: places(y), "font-size": size, "font-family": family, ...paint });
    if (weight) element.setAttribute("font-weight", weight);
    if (this.textBaseline === "middle") element.setAttribute("dy", "0.35em"); // understood everywhere, unlike dominant-baseline
    if (this.textAlign !== "left" && this.textAlign !== "start") {
      element.setAttribute("text-anchor", this.textAlign === "center" ? "middle" : "end");
    }
    element.textContent = clean(text);
  }

  toString() {
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(this.#root) + "\n";
  }
}

function clean(text) {
  return text.replace(NOT_XML, "\ufffd");
}

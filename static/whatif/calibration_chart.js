// Predicted against real acceptance of the drafted nodes of all rounds: on the diagonal, probabilities mean what they say.

import { number, plural } from "../glyphs.js";
import { Plot } from "./draw.js";

const QUARTERS = [0, 0.25, 0.5, 0.75, 1];

export function showCalibration(svg, line, result) {
  const plot = new Plot(svg, { x: [0, 1], y: [0, 1], xTicks: QUARTERS, yTicks: QUARTERS,
    xName: "path probability under the drafter", yName: "share accepted" });
  plot.add("line", { class: "w-diagonal", x1: plot.x(0), y1: plot.y(0), x2: plot.x(1), y2: plot.y(1) });
  const largest = Math.max(1, ...result.bins.map((bin) => bin.nodes));
  const filled = result.bins.filter((bin) => bin.nodes);
  if (filled.length) {
    plot.add("path", { class: "w-calibration", d: filled.map((bin, i) =>
      (i ? "L" : "M") + plot.x(bin.predicted) + " " + plot.y(bin.right)).join("") });
  }
  for (const bin of filled) {
    const point = plot.add("circle", { class: "w-bin", cx: plot.x(bin.predicted), cy: plot.y(bin.right),
      r: 2.5 + 5 * Math.sqrt(bin.nodes / largest) });
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = `${plural(bin.nodes, "node")}: predicted ${number(bin.predicted)}, accepted ${number(bin.right)}`;
    point.append(title);
  }
  const text = result.nodes
    ? `expected ${number(result.expected)} a round, real ${number(result.accepted)} \u00b7 calibration error ${number(result.ece, 3)}`
    : "No drafted node has a probability to compare.";
  line.textContent = text;
  line.title = "Every drafted node that the text can judge, in ten bins by the drafter\u2019s probability of its whole path. " +
    "Calibration error: the mean over nodes of |predicted \u2212 accepted| of their bins (Guo et al. 2017).";
  svg.setAttribute("aria-label", "Calibration: " + text);
}

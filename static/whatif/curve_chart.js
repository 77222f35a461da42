// What every budget is worth: expected and exact accepted tokens of the best-first tree, this round and all rounds.

import { number } from "../glyphs.js";
import { Plot, ticks } from "./draw.js";

export class CurveChart {
  // `onBudget` hears of clicks and drags on the chart.
  constructor(svg, onBudget) {
    this.svg = svg;
    const follow = (event) => {
      if (!this.plot || (event.type === "pointermove" && !event.buttons)) return;
      const box = svg.getBoundingClientRect();
      const { left, right } = this.plot.box;
      const at = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      onBudget(Math.round(this.most * Math.min(1, Math.max(0, (at - left) / (right - left)))) || 1);
    };
    svg.addEventListener("pointerdown", follow);
    svg.addEventListener("pointermove", follow);
  }

  // `growth`: see heap.js; `decided` whether the text tells the exact length; `means` of the survey or null; `marks`
  // the recorded tree and the one on show: {nodes, expected, accepted}.
  show({ growth, decided, means, most, recorded, here }) {
    this.most = most;
    const peak = Math.max(1, here.expected, recorded.accepted ?? 0, here.accepted ?? 0, ...growth.expected,
      ...(decided ? growth.accepted : []), ...(means?.accepted ?? []), ...(means?.expected ?? []));
    const top = Math.ceil(peak + 0.25);
    const plot = (this.plot = new Plot(this.svg, { x: [0, most], y: [0, top], xTicks: ticks(most, 6),
      yTicks: ticks(top, 5).filter(Number.isInteger), xName: "budget (nodes)", yName: "accepted" }));
    if (growth.limit < most) {
      plot.add("rect", { class: "w-beyond", x: plot.x(growth.limit), y: plot.box.top,
        width: plot.box.right - plot.x(growth.limit), height: plot.box.bottom - plot.box.top });
    }
    if (means) {
      plot.line(means.expected, "w-line w-mean-expected");
      if (means.accepted) plot.line(means.accepted, "w-line w-mean-exact");
    }
    plot.line(growth.expected, "w-line w-expected");
    if (decided) plot.line(growth.accepted, "w-line w-exact", true);
    plot.add("line", { class: "w-cursor", x1: plot.x(here.nodes), x2: plot.x(here.nodes), y1: plot.box.top, y2: plot.box.bottom });
    if (recorded.nodes <= most && recorded.accepted !== null) {
      plot.add("rect", { class: "w-recorded", x: plot.x(recorded.nodes) - 4, y: plot.y(recorded.accepted) - 4, width: 8, height: 8 });
    }
    plot.add("circle", { class: "w-point-expected", cx: plot.x(here.nodes), cy: plot.y(here.expected), r: 4 });
    if (here.accepted !== null) plot.add("circle", { class: "w-point-exact", cx: plot.x(here.nodes), cy: plot.y(here.accepted), r: 4.5 });
    this.svg.setAttribute("aria-label", `Accepted tokens by budget up to ${most}. At ${here.nodes} nodes: expected ` +
      `${number(here.expected)}, exact ${here.accepted ?? "not decided"}; recorded ${recorded.accepted} with ${recorded.nodes}.`);
  }
}

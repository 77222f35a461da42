// The hover text of a canvas: name and value pairs, beside a place, inside its box.

import { make } from "./dom.js";

export function fillTip(tip, facts, { x, y }, size) {
  tip.replaceChildren(...facts.map(([name, value], index) =>
    make(index ? "span" : "strong", "", index ? (name ? name + " " : "") + value : value)));
  tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tip;
  const left = x + 14 + width > size.width ? x - width - 14 : x + 14;
  const top = Math.min(Math.max(4, y - height - 12), size.height - height - 4);
  tip.style.transform = `translate(${Math.round(Math.max(4, left))}px, ${Math.round(top)}px)`;
}

// The heap after a number of pops, as a list: what was just popped, what that pushed, and what waits, the next first.

import { make } from "../dom.js";
import { probability } from "../glyphs.js";
import { pops, prefixTokens } from "./heap.js";

const ROWS = 9;

// The state after `count` pops: the last step, the waiting candidates in order, and all that is made by `horizon` pops.
export function heapAfter(rows, count, horizon) {
  let at = null;
  const made = [];
  for (const { popped, sibling, child, waiting } of pops(rows)) {
    if (popped.place === 0) made.push(popped);
    if (sibling) made.push(sibling);
    if (child) made.push(child);
    if (popped.place + 1 <= count) at = { popped, sibling, child, waiting: waiting.sorted() };
    if (popped.place + 1 >= Math.max(count, horizon)) break;
  }
  return at && { ...at, made };
}

export function showHeap(list, line, rows, state, labelOf) {
  if (!state) {
    line.textContent = "Nothing can be drafted in this round.";
    list.replaceChildren();
    return;
  }
  const { popped, sibling, child, waiting } = state;
  const chip = (prefix) => make("code", "", labelOf(prefixTokens(rows, prefix).at(-1)));
  const parts = [`Pop ${popped.place + 1}: `, chip(popped), ` leaves with ${probability(popped.score)}. `];
  if (sibling) parts.push("Pushed: its next sibling ", chip(sibling), ` ${probability(sibling.score)}`);
  if (child) parts.push(sibling ? ", its first child " : "Pushed: its first child ", chip(child), ` ${probability(child.score)}`);
  line.replaceChildren(...parts, sibling || child ? "." : "It pushes nothing.");
  const shown = waiting.slice(0, waiting.length > ROWS ? ROWS - 1 : ROWS);
  list.replaceChildren(...shown.map((prefix) => row(rows, prefix, prefix === sibling ? "sibling" : prefix === child ? "child" : "", labelOf)));
  if (waiting.length > shown.length) list.append(make("li", "cy-what-rest", `and ${waiting.length - shown.length} more`));
}

function row(rows, prefix, role, labelOf) {
  const labels = prefixTokens(rows, prefix).map(labelOf);
  const item = make("li", role && "cy-what-pushed");
  const path = make("code", "", labels.at(-1));
  path.prepend(make("span", "", labels.slice(0, -1).join(" ") + (labels.length > 1 ? " " : "")));
  path.title = labels.join(" ");
  const bar = make("i");
  bar.style.width = Math.max(1, 100 * Math.exp(prefix.score)) + "%";
  const score = make("span", "cy-what-odds");
  score.append(bar, make("b", "", probability(prefix.score)));
  item.append(path, make("em", "", role), score);
  return item;
}

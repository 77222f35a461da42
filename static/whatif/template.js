// Static templates over ranks: decoding/template.py, as far as Token Recycling's tree needs it. A path of ranks (from
// 1) costs the product of its ranks times 1.5 per depth; good ranks get more children and go deeper.

import { Heap } from "./heap.js";

const WIDTHS = [8, 21, 25, 15, 8, 3]; // nodes at depths 1, 2, ... of Token Recycling's tree
export const CHOICES = 8;
const DEPTH_COST = 1.5;

function compared(one, other) {
  for (let i = 0; i < Math.min(one.length, other.length); i++) if (one[i] !== other[i]) return one[i] - other[i];
  return one.length - other.length;
}

const cost = (path) => path.reduce((product, rank) => product * rank, 1) * DEPTH_COST ** path.length;
const byCost = (one, other) => cost(one) - cost(other) || one.length - other.length || compared(one, other);

function pathsOfWidths() {
  const found = [];
  let level = [[]];
  for (const width of WIDTHS) {
    const below = level.flatMap((path) => Array.from({ length: CHOICES }, (_, index) => [...path, index + 1]));
    level = below.sort(byCost).slice(0, width);
    found.push(...level);
  }
  return found;
}

// Token Recycling's paths cut down or grown to `budget`, ordered by depth, then by ranks.
export function recyclePaths(budget) {
  const chosen = new Map(pathsOfWidths().sort(byCost).slice(0, budget).map((path) => [path.join(), path]));
  const queue = new Heap((one, other) => byCost(one, other) < 0);
  queue.push([1]);
  while (queue.size && chosen.size < budget) {
    const path = queue.pop();
    chosen.set(path.join(), path);
    if (path.at(-1) < CHOICES) queue.push([...path.slice(0, -1), path.at(-1) + 1]);
    if (path.length < WIDTHS.length) queue.push([...path, 1]);
  }
  return [...chosen.values()].sort((one, other) => one.length - other.length || compared(one, other));
}

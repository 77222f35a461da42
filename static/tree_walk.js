// Walking through a tree from node to node, and where in it a node stands, in words.

import { plural } from "./glyphs.js";
import { childrenOf, depthOf, nodesOf, parentOf } from "./node_facts.js";

// The node that `direction` (parent, child, previous, next) leads to; the node itself where there is none. A child is
// the accepted one, or the bonus, or else the one that the drafter thought likeliest.
export function stepFrom(round, node, direction) {
  if (node < 0 || node >= nodesOf(round)) return 0;
  if (direction === "parent") return node === 0 ? 0 : parentOf(round, node);
  if (direction === "child") {
    const children = childrenOf(round, node);
    const weight = (child) => round.path.includes(child) ? 2 : child === round.tree.token.length ? 1 : (round.tree.logprob[child] ?? -1e9);
    return children.length ? children.reduce((best, child) => (weight(child) > weight(best) ? child : best)) : node;
  }
  if (node === 0) return 0;
  const siblings = childrenOf(round, parentOf(round, node));
  const place = siblings.indexOf(node) + (direction === "next" ? 1 : -1);
  return siblings[Math.min(siblings.length - 1, Math.max(0, place))];
}

export function standing(round, node) {
  const children = childrenOf(round, node).length;
  const below = children === 1 ? "1 child" : children + " children";
  if (node === 0) return below;
  const siblings = childrenOf(round, parentOf(round, node));
  return `depth ${depthOf(round, node)}, ${siblings.indexOf(node) + 1} of ${plural(siblings.length, "sibling")}, ${below}`;
}

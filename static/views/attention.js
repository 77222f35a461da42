// Tree attention as the target computes it: which nodes a node may look at.

// The nodes on the way from the root to `node`, both included: all of the tree that it sees.
export function seenBy(round, node) {
  const seen = [];
  for (let above = node; above >= 0; above = round.tree.parent[above]) seen.push(above);
  return seen.reverse();
}

// A tidy layout in O(nodes): leaves take slots from top to bottom, an inner node stands between its first and last
// child. `row` is in slots, `depth` in columns; the canvas scales both. The bonus is one more leaf, numbered `count`.

const GAP = 0.45; // extra room where the next leaf has another parent

export function layout(round) {
  const count = round.tree.parent.length;
  const total = count + (round.bonus ? 1 : 0);
  const row = new Float32Array(total);
  const depth = new Int32Array(total);
  depth.set(round.depth);
  const kids = round.bonus
    ? (node) => (node === round.bonus.parent ? [...round.children[node], count] : round.children[node] ?? [])
    : (node) => round.children[node];
  if (round.bonus) depth[count] = round.depth[round.bonus.parent] + 1;

  let next = 0;
  let lastParent = -1;
  const stack = [[0, false]];
  while (stack.length) {
    const [node, done] = stack.pop();
    const below = node < count ? kids(node) : [];
    if (!below.length) {
      const above = node === count ? round.bonus.parent : round.tree.parent[node];
      if (lastParent !== -1 && above !== lastParent) next += GAP;
      lastParent = above;
      row[node] = next;
      next += 1;
    } else if (done) {
      row[node] = (row[below[0]] + row[below[below.length - 1]]) / 2;
    } else {
      stack.push([node, true]);
      for (let i = below.length - 1; i >= 0; i--) stack.push([below[i], false]);
    }
  }
  return { row, depth, count, total, rows: Math.max(1, next), parent: (node) =>
    node === count ? round.bonus.parent : round.tree.parent[node] };
}

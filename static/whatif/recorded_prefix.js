// Where a round has no marginals (stepwise drafters), a smaller budget can still be planned inside the recorded tree:
// its most probable nodes, parents first. Nothing can be told of nodes that were never drafted.

// The recorded nodes but the root, most probable path first; ties go to the earlier node, so parents precede their
// children. Null where a node has no probability (retrieval): then nothing orders them.
export function orderOfRecorded(round) {
  const nodes = round.tree.token.map((_, node) => node).slice(1);
  if (!nodes.length || nodes.some((node) => round.cumulative[node] === null)) return null;
  return nodes.sort((a, b) => round.cumulative[b] - round.cumulative[a] || a - b);
}

// The plan of the `budget` most probable nodes of the recorded tree, in the recorded order.
export function prefixOfRecorded(round, budget) {
  const order = orderOfRecorded(round);
  if (!order) return null;
  const kept = [0, ...order.slice(0, budget).sort((a, b) => a - b)];
  const place = new Map(kept.map((node, index) => [node, index]));
  const { token, parent, logprob, source } = round.tree;
  return { token: kept.map((node) => token[node]), parent: kept.map((node) => place.get(parent[node]) ?? -1),
    logprob: kept.map((node) => logprob[node]), source: kept.map((node) => source[node]) };
}

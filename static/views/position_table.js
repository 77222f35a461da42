// What a drafter thought of each position after the root: its recorded marginals, or, where it gives none, what the
// drafted tree holds of them.

import { RETRIEVAL } from "../run_log.js";

// { columns, from }: for every position the cells { token, logprob, rank, nodes }, most likely first. `from` is
// `marginals`, or `tree`: there a cell is the probability that the drafter puts a token at a position, as far as the
// tree covers it (the path probabilities of all nodes with that token and depth together), and a retrieved token that
// has none stands last. `stray` counts nodes of the tree without a cell.
export function positionTable(round) {
  const { token, logprob, source } = round.tree;
  if (round.marginals) {
    const columns = round.marginals.token.map((row, position) => row.map((value, rank) =>
      ({ token: value, logprob: round.marginals.logprob[position][rank], rank, nodes: [] })));
    const places = columns.map((column) => new Map(column.map((cell) => [cell.token, cell])));
    let stray = 0;
    for (let node = 1; node < token.length; node++) {
      const cell = places[round.depth[node] - 1]?.get(token[node]);
      if (cell) cell.nodes.push(node);
      else stray += 1;
    }
    return { columns, from: "marginals", stray };
  }
  const places = [];
  for (let node = 1; node < token.length; node++) {
    const column = (places[round.depth[node] - 1] ??= new Map());
    if (!column.has(token[node])) column.set(token[node], { token: token[node], mass: 0, nodes: [] });
    const cell = column.get(token[node]);
    cell.nodes.push(node);
    if (round.cumulative[node] !== null && source[node] !== RETRIEVAL) cell.mass += Math.exp(round.cumulative[node]);
  }
  const columns = places.map((column) => [...column.values()].sort((a, b) => b.mass - a.mass)
    .map(({ token: value, mass, nodes }, rank) => ({ token: value, logprob: mass > 0 ? Math.log(mass) : null, rank, nodes })));
  return { columns, from: "tree", stray: 0 };
}

// What the target really wrote at the positions after the root: this round's tokens, then, known in hindsight, those
// of later rounds. Each is { token, how }, `how` one of accepted, bonus, later.
export function written(round, log, positions) {
  const found = round.emitted.map((token, place) => ({ token, how: place < round.accepted ? "accepted" : "bonus" }));
  for (let next = round.index + 1; found.length < positions && next < log.rounds.length; next++) {
    for (const token of log.rounds[next].emitted) found.push({ token, how: "later" });
  }
  return found.slice(0, positions);
}

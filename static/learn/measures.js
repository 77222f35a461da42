// What the lessons reckon from recorded rounds. Pure functions of a run log or of one of its rounds.

// From the root down to the node, both included.
export function lineage(round, node) {
  const way = [];
  for (let at = node; at >= 0; at = round.tree.parent[at]) way.unshift(at);
  return way;
}

export function below(round, node) {
  return round.children[node].flatMap((child) => [child, ...below(round, child)]);
}

export const weight = (round, node) => Math.exp(round.cumulative[node] ?? -Infinity);

export const drafted = (round) => Array.from({ length: round.drafted }, (_, i) => i + 1);

// All that was written, token ids; the first came from the prefill.
export function written(log) {
  return [log.header.first_token, ...log.rounds.flatMap((round) => round.emitted)];
}

function alike(one, other) {
  let count = 0;
  while (count < one.length && count < other.length && one[count] === other[count]) count++;
  return count;
}

export const sameTokens = (one, other) => alike(written(one), written(other));

// How far all of the runs that answer the first one's prompt wrote the same.
export const samePrompt = (logs) => logs.filter((log) => log.header.prompt === logs[0].header.prompt);
export const sharedTokens = (logs) => Math.min(...samePrompt(logs).map((log) => sameTokens(log, logs[0])));

// The drafter's first choice all the way: the nodes that the tree holds of it.
export function chainNodes(round) {
  const chain = [];
  for (let node = 0; ; ) {
    const best = round.children[node].filter((child) => round.tree.logprob[child] !== null)
      .reduce((a, b) => (a === null || round.tree.logprob[b] > round.tree.logprob[a] ? b : a), null);
    if (best === null || (round.marginals && round.tree.token[best] !== round.marginals.token[round.depth[node]][0])) return chain;
    chain.push(node = best);
  }
}

// How many tokens of that chain the text goes on with: exact, as what was written after the root is known.
export function chainAccepted(log, index) {
  const round = log.rounds[index];
  const chain = round.marginals ? round.marginals.token.map((row) => row[0]) : chainNodes(round).map((n) => round.tree.token[n]);
  return alike(chain, log.rounds.slice(index).flatMap((later) => later.emitted));
}

// The chance, under the drafter, that the accepted path reaches each depth; their sum is the expected accepted length
// (DDTree, Proposition 1 and its proof).
export function depthMasses(round) {
  const mass = [];
  for (const node of drafted(round)) {
    const depth = round.depth[node] - 1;
    mass[depth] = (mass[depth] ?? 0) + weight(round, node);
  }
  return mass;
}

export const sum = (values) => values.reduce((total, value) => total + value, 0);
export const mean = (values) => (values.length ? sum(values) / values.length : null);
export const expected = (round) => sum(depthMasses(round));

export function median(values) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// The last round is cut short by the end of the text, and the first one warms the machine up.
export const typical = (log) => (log.rounds.length > 2 ? log.rounds.slice(1, -1) : log.rounds);

// Seconds of a usual round, stage by stage.
export function stageSeconds(log) {
  const rounds = typical(log);
  const names = new Set(rounds.flatMap((round) => Object.keys(round.seconds)));
  return Object.fromEntries([...names].map((name) => [name, median(rounds.map((round) => round.seconds[name] ?? 0))]));
}

export const roundSeconds = (log) => median(typical(log).map((round) => round.total));

// Tokens a round, the bonus included, over the rounds of the first `limit` tokens.
export function tokensPerRound(log, limit = Infinity) {
  let tokens = 0;
  let rounds = 0;
  for (const round of log.rounds) {
    if (tokens >= limit) break;
    tokens += round.emitted.length;
    rounds += 1;
  }
  return rounds ? tokens / rounds : null;
}

// Algorithm 1 of DDTree after `pops` pops: the nodes of a DDTree stand in pop order, and what waits in the heap is the
// next sibling and the first child of each, unless popped. Ranks count from 1.
export function heapAfter(round, pops) {
  const { token, logprob } = round.marginals;
  const ranks = [[]];
  const popped = drafted(round).slice(0, pops).map((node) => {
    ranks[node] = [...ranks[round.tree.parent[node]], token[round.depth[node] - 1].indexOf(round.tree.token[node]) + 1];
    return entry(round, ranks[node]);
  });
  const gone = new Set(popped.map(({ ranks: tuple }) => tuple.join()));
  const offered = popped.length ? popped.flatMap(({ ranks: tuple }) => [
    ...(tuple.at(-1) < token[0].length ? [[...tuple.slice(0, -1), tuple.at(-1) + 1]] : []),
    ...(tuple.length < logprob.length ? [[...tuple, 1]] : []),
  ]) : [[1]];
  const waiting = offered.filter((tuple) => !gone.has(tuple.join())).map((tuple) => entry(round, tuple));
  return { popped, waiting: waiting.sort((a, b) => b.logprob - a.logprob) };
}

function entry(round, ranks) {
  const { token, logprob } = round.marginals;
  return { ranks, tokens: ranks.map((rank, place) => token[place][rank - 1]),
    logprob: sum(ranks.map((rank, place) => logprob[place][rank - 1])) };
}

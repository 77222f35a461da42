// What is known of one node of a round, for every view of it: tooltips, the panel and what is read out say the same.
// The bonus counts as a node: the one after the last.

import { DASH, number, probability } from "./glyphs.js";
import { RETRIEVAL } from "./run_log.js";

export const FATES = { root: "committed", accepted: "accepted", rejected: "rejected", unreached: "not reached",
  bonus: "bonus", gone: "only recorded", waiting: "in the heap", later: "not yet in the heap" };

export const isBonus = (round, node) => Boolean(round.bonus) && node === round.tree.token.length;
export const nodesOf = (round) => round.tree.token.length + (round.bonus ? 1 : 0);
export const tokenOf = (round, node) => (isBonus(round, node) ? round.bonus.token : round.tree.token[node]);
export const parentOf = (round, node) => (isBonus(round, node) ? round.bonus.parent : round.tree.parent[node]);
export const depthOf = (round, node) =>
  isBonus(round, node) ? round.depth[round.bonus.parent] + 1 : round.depth[node];
export const fateOf = (round, node) => (isBonus(round, node) ? "bonus" : round.fate[node]);
export const isRetrieved = (round, node) => !isBonus(round, node) && round.tree.source[node] === RETRIEVAL;
export const sourceOf = (round, node) =>
  isBonus(round, node) ? "target" : node === 0 ? "root" : isRetrieved(round, node) ? "retrieved" : "drafted";

export function childrenOf(round, node) {
  if (isBonus(round, node)) return [];
  const children = round.children[node];
  return round.bonus?.parent === node ? [...children, round.tree.token.length] : children;
}

// The log-probability that the target gave a node's token, and its rank there; null where they were not recorded.
export function targetOf(round, node) {
  if (node === 0) return { logprob: null, rank: null };
  if (!isBonus(round, node)) return { logprob: round.verdict.logprob[node], rank: round.verdict.rank[node] };
  const place = round.verdict.top_token[round.bonus.parent].indexOf(round.bonus.token);
  return place < 0 ? { logprob: null, rank: null }
    : { logprob: round.verdict.top_logprob[round.bonus.parent][place], rank: place + 1 };
}

// The rank of a drafted token: in the drafter's whole distribution where that was recorded, else among its siblings.
export function draftRank(round, node) {
  if (isBonus(round, node) || node === 0 || isRetrieved(round, node)) return null;
  const place = round.marginals?.token[round.depth[node] - 1]?.indexOf(round.tree.token[node]) ?? -1;
  if (place >= 0) return { rank: place + 1, among: "all" };
  const { logprob, parent } = round.tree;
  if (logprob[node] === null) return null;
  const better = round.children[parent[node]].filter((n) => logprob[n] !== null && logprob[n] > logprob[node]);
  return { rank: 1 + better.length, among: "siblings" };
}

// Entropy (nats) of the drafter's distribution after a node. Of marginals only the first ranks are recorded: none of
// the others is likelier than the last of them, which bounds the entropy from below.
export function draftEntropy(round, node) {
  const row = isBonus(round, node) ? null : round.marginals?.logprob[round.depth[node]]?.filter((v) => v !== null);
  if (!row?.length) return null;
  let nats = 0;
  let rest = 1;
  for (const logprob of row) {
    nats -= Math.exp(logprob) * logprob;
    rest -= Math.exp(logprob);
  }
  if (rest < 0.001) return { nats, exact: true };
  return { nats: nats - rest * row[row.length - 1], exact: false };
}

export function entropyText(found) {
  return found ? (found.exact ? "" : "\u2265 ") + number(found.nats) : DASH;
}

// Name and value pairs of a node, as shown in tooltips and read to screen readers.
export function nodeFacts(round, node, labelOf) {
  const token = ["token", labelOf(tokenOf(round, node))];
  const target = targetOf(round, node);
  if (isBonus(round, node)) {
    return [token, ["", "bonus: the target\u2019s own token"], ["target p", probability(target.logprob)]];
  }
  const kind = node === 0 ? "root: the last committed token"
    : sourceOf(round, node) + ", " + FATES[round.fate[node]];
  const facts = [token, ["", kind]];
  if (node > 0) {
    const rank = draftRank(round, node);
    facts.push(["draft p", probability(round.tree.logprob[node]) + (rank ? ", rank " + rank.rank : "")]);
    facts.push(["path p", probability(round.cumulative[node])]);
    facts.push(["target p", probability(target.logprob) + (target.rank ? ", rank " + target.rank : "")]);
    if (round.standing?.[node] === "here") facts.push(["", "not in the recorded tree"]);
  }
  facts.push(...round.notes?.[node] ?? []);
  facts.push(["entropy after", number(round.verdict.entropy[node]) + " nats"]);
  return facts;
}

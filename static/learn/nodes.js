// The nodes that steps speak of: single ones (null where there is none), and the sets that a drawing lights up.

import { RETRIEVAL } from "../run_log.js";
import { below, chainNodes, drafted, lineage, weight } from "./measures.js";

const retrieved = (round) => (node) => round.tree.source[node] === RETRIEVAL;
const most = (nodes, score) => nodes.reduce((a, b) => (a === null || score(b) > score(a) ? b : a), null);

// The drafter's best guess after a node.
export function bestGuess(round, node) {
  return most(round.children[node].filter((child) => round.tree.logprob[child] !== null), (n) => round.tree.logprob[n]);
}

// Where the accepted path leaves the drafter's best chain.
export function fork(round) {
  const chain = new Set(chainNodes(round));
  return round.path.slice(1).find((node) => !chain.has(node)) ?? null;
}

// The nodes of depth 2 that hold one and the same token, of the token that most of them hold.
export function repeated(round) {
  const holders = new Map();
  for (const node of drafted(round)) {
    if (round.depth[node] !== 2) continue;
    const token = round.tree.token[node];
    holders.set(token, [...(holders.get(token) ?? []), node]);
  }
  return [...holders.values()].reduce((a, b) => (b.length > a.length ? b : a), []);
}

// The likeliest path of two tokens or more.
export const heavy = (round) => most(drafted(round).filter((node) => round.depth[node] > 1), (n) => weight(round, n));

// DynaTree: a node below the root that the confidence rule gave the most children.
export function unsure(round) {
  const { low_confidence: low } = round.decision;
  const widths = drafted(round).filter((node) => round.children[node].length > 1 &&
    Math.exp(round.tree.logprob[bestGuess(round, node)]) < low);
  return most(widths, (n) => round.children[n].length);
}

// DynaTree: leaves whose path is too unlikely to be drafted further.
export const stopped = (log, round) => drafted(round).filter((node) =>
  !round.children[node].length && weight(round, node) < log.header.settings.stop_below);

// The end of the accepted path, and a node as deep as it on another branch.
export function cousin(round) {
  const way = new Set(round.path);
  const rivals = drafted(round).filter((node) => !way.has(node) && round.tree.token[node] !== round.tree.token[round.end] &&
    round.tree.parent[node] !== round.tree.parent[round.end]);
  return most(rivals, (node) => -10 * Math.abs(round.depth[node] - round.depth[round.end]) + weight(round, node));
}

export const graft = (round) => round.path.find(retrieved(round)) ?? null;

const withBonus = (round, nodes) => (round.bonus ? [...nodes, round.tree.parent.length] : nodes);
const half = (round) => [0, ...drafted(round).slice(0, round.drafted >> 1)];

export const LIGHTS = {
  all: ({ round }) => withBonus(round, [0, ...drafted(round)]),
  drafted: ({ round }) => [0, ...drafted(round)],
  path: ({ round }) => round.path,
  outcome: ({ round }) => withBonus(round, round.path),
  bonus: ({ round }) => withBonus(round, [round.end]),
  chain: ({ round }) => [0, ...chainNodes(round)],
  forkSiblings: ({ round }) => [round.tree.parent[fork(round)], ...round.children[round.tree.parent[fork(round)]]],
  wasted: ({ round }) => drafted(round).filter((node) => round.fate[node] !== "accepted"),
  discarded: ({ round }) => [bestGuess(round, round.end), ...below(round, bestGuess(round, round.end))],
  repeated: ({ round }) => [0, ...repeated(round).flatMap((node) => [round.tree.parent[node], node])],
  heavy: ({ round }) => lineage(round, heavy(round)),
  firstHalf: ({ round }) => half(round),
  endLineage: ({ round }) => lineage(round, round.end),
  firstDepth: ({ round }) => drafted(round).filter((node) => round.depth[node] === 1),
  unsure: ({ round }) => [unsure(round), ...round.children[unsure(round)]],
  stopped: ({ log, round }) => stopped(log, round),
  fromDrafter: ({ round }) => [0, ...drafted(round).filter((node) => !retrieved(round)(node))],
  retrieved: ({ round }) => [0, ...drafted(round).filter(retrieved(round))],
};

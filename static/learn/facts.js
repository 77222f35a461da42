// What the sentences of the lessons fill in: numbers and tokens of the scene {log, index, round, logs, pops}, never
// written down in a lesson. A fact is a text, {tokens: [id, ...]}, or null where the recording does not have it.

import { milliseconds, number, percent, plural, probability, prose } from "../glyphs.js";
import { RETRIEVAL, targetLogprob } from "../run_log.js";
import * as of from "./measures.js";
import { bestGuess, cousin, fork, graft, heavy, repeated, stopped, unsure } from "./nodes.js";

const token = (round, node) => (node === null ? null : { tokens: [round.tree.token[node]] });
const tokens = (round, nodes) => (nodes.length ? { tokens: nodes.map((node) => round.tree.token[node]) } : null);
const count = (value, noun) => (value === 0 ? "none" : noun ? plural(value, noun) : String(value));
const times = (value) => (Number.isFinite(value) ? value.toFixed(2) + "\u00d7" : null);
const figure = (value, digits = 2) => (value === null || !Number.isFinite(value) ? null : number(value, digits));
const product = (round, node) =>
  of.lineage(round, node).slice(1).map((n) => probability(round.tree.logprob[n])).join(" \u00d7 ") +
  " = " + probability(round.cumulative[node]);
const masses = (log) => log.rounds.filter((round) => round.marginals && round.drafted).map(of.expected);
const acceptedMean = (log) => of.mean(log.rounds.map((round) => round.accepted));
const speedup = ({ log, logs }) => ((acceptedMean(log) + 1) * of.roundSeconds(logs.plain)) / of.roundSeconds(log);
const verifyOverPlain = ({ log, logs }) => of.stageSeconds(log).verify / of.stageSeconds(logs.plain).verify;

export const FACTS = {
  // the run
  target: ({ log }) => prose(log.header.target),
  drafter: ({ log }) => prose(log.header.drafter),
  prompt: ({ log }) => prose(log.header.prompt),
  firstToken: ({ log }) => ({ tokens: [log.header.first_token] }),
  rounds: ({ log }) => plural(log.rounds.length, "round"),
  tokens: ({ log }) => plural(of.written(log).length, "token"),
  plainRounds: ({ logs }) => String(logs.plain.rounds.length),
  sameAsPlain: ({ log, logs }) => {
    const [same, all] = [of.sameTokens(log, logs.plain), Math.min(of.written(log).length, of.written(logs.plain).length)];
    return same === all ? `all ${all} tokens` : `the first ${same} of ${all} tokens`;
  },
  sharedTokens: ({ logs }) => plural(of.sharedTokens(Object.values(logs)), "token"),
  tau: ({ log }) => figure(of.tokensPerRound(log)),
  chainTau: ({ log }) => figure(1 + of.mean(log.rounds.map((_, index) => of.chainAccepted(log, index)))),
  meanExpected: ({ log }) => figure(of.mean(masses(log))),
  meanAccepted: ({ log }) => figure(acceptedMean(log)),

  // the round
  root: ({ round }) => token(round, 0),
  drafted: ({ round }) => plural(round.drafted, "token"),
  nodes: ({ round }) => plural(round.drafted + 1, "token"),
  accepted: ({ round }) => count(round.accepted),
  pathTokens: ({ round }) => tokens(round, round.path.slice(1)),
  bonus: ({ round }) => (round.bonus ? { tokens: [round.bonus.token] } : null),
  choice: ({ round }) => ({ tokens: [round.verdict.choice[0]] }),
  choiceP: ({ round }) => probability(targetLogprob(round, 0, round.verdict.choice[0])),
  guess: ({ round }) => token(round, bestGuess(round, round.end)),
  discarded: ({ round }) => plural(of.below(round, bestGuess(round, round.end)).length, "token"),
  wasted: ({ round }) => plural(round.drafted - round.accepted, "node"),

  // the chain inside a tree
  chainTokens: ({ round }) => tokens(round, of.chainNodes(round)),
  chainAccepted: ({ log, index }) => count(of.chainAccepted(log, index)),
  forkToken: ({ round }) => token(round, fork(round)),
  forkRank: ({ round }) => {
    const rank = round.marginals?.token[round.depth[fork(round)] - 1].indexOf(round.tree.token[fork(round)]);
    return rank > 0 ? String(rank + 1) : null;
  },
  forkP: ({ round }) => probability(round.tree.logprob[fork(round)]),
  forkSiblings: ({ round }) => plural(round.children[round.tree.parent[fork(round)]].length, "guess", "guesses"),

  // marginals
  positions: ({ round }) => (round.marginals ? String(round.marginals.token.length) : null),
  repeatedToken: ({ round }) => token(round, repeated(round)[0] ?? null),
  repeatedParents: ({ round }) => plural(repeated(round).length, "different token"),
  repeatedP: ({ round }) => {
    const found = new Set(repeated(round).map((node) => probability(round.tree.logprob[node])));
    return found.size === 1 ? [...found][0] : null; // the claim of the step: it is one and the same
  },
  heavyTokens: ({ round }) => tokens(round, of.lineage(round, heavy(round)).slice(1)),
  product: ({ round }) => (heavy(round) === null ? null : product(round, heavy(round))),
  expected: ({ round }) => figure(of.expected(round)),
  firstMass: ({ round }) => figure(of.depthMasses(round)[0]),
  half: ({ round }) => String(round.drafted >> 1),

  // the heap
  pops: ({ pops }) => String(pops),
  lastPopped: ({ round, pops }) => token(round, pops || null),
  lastPoppedDepth: ({ round, pops }) => (pops ? "place " + round.depth[pops] : null),
  lastPoppedP: ({ round, pops }) => (pops ? probability(round.cumulative[pops]) : null),
  waiting: ({ round, pops }) => plural(of.heapAfter(round, pops).waiting.length, "candidate"),
  leastInside: ({ round, pops }) => (pops ? probability(Math.min(...round.cumulative.slice(1, pops + 1))) : null),
  bestOutside: ({ round, pops }) => probability(of.heapAfter(round, pops).waiting[0]?.logprob),

  // attention
  endToken: ({ round }) => token(round, round.end),
  endLineage: ({ round }) => tokens(round, of.lineage(round, round.end)),
  cousin: ({ round }) => token(round, cousin(round)),
  before: ({ round }) => String(round.cache_before),
  after: ({ round }) => String(round.cache_after),
  dropped: ({ round }) => String(round.cache_before + round.drafted + 1 - round.cache_after),
  atFirstDepth: ({ round }) => plural(round.children[0].length, "node"),
  firstPosition: ({ round }) => String(round.cache_before + 1),

  // DynaTree
  unsureToken: ({ round }) => token(round, unsure(round)),
  unsureConfidence: ({ round }) => (unsure(round) === null ? null : probability(round.tree.logprob[bestGuess(round, unsure(round))])),
  unsureWidth: ({ round }) => (unsure(round) === null ? null : plural(round.children[unsure(round)].length, "child", "children")),
  lowConfidence: ({ round }) => figure(round.decision.low_confidence),
  highConfidence: ({ round }) => figure(round.decision.high_confidence),
  fewestChildren: ({ log }) => figure(log.header.settings.min_branches, 0),
  stopBelow: ({ log }) => figure(log.header.settings.stop_below),
  stopped: ({ log, round }) => plural(stopped(log, round).length, "path"),

  // Graft
  stageConfidence: ({ round }) => figure(round.decision.confidence?.at(-1)),
  stageThreshold: ({ round }) => figure(round.decision.thresholds?.["tau_" + round.decision.stage]),
  stage: ({ round }) => round.decision.stage ?? null,
  keptDraft: ({ round }) => plural(round.drafted - round.retrieved, "node"),
  retrieved: ({ round }) => (round.retrieved ? plural(round.retrieved, "node") : null),
  graftToken: ({ round }) => token(round, graft(round)),
  graftParent: ({ round }) => token(round, graft(round) === null ? null : round.tree.parent[graft(round)]),
  graftsWritten: ({ log }) => plural(log.rounds.flatMap((round) => round.path.filter((n) => round.tree.source[n] === RETRIEVAL)).length, "token"),

  // time
  plainStep: ({ logs }) => milliseconds(of.roundSeconds(logs.plain)),
  roundTime: ({ log }) => milliseconds(of.roundSeconds(log)),
  tokensAccepted: ({ log }) => figure(acceptedMean(log)),
  speedup: (scene) => times(speedup(scene)),
  faster: (scene) => (speedup(scene) >= 1 ? "faster than plain decoding" : "slower than plain decoding"),
  verifyShare: ({ log }) => percent(of.stageSeconds(log).verify / of.roundSeconds(log)),
  usualNodes: ({ log }) => number(1 + of.median(of.typical(log).map((round) => round.drafted)), 0),
  verifyOverPlain: (scene) => times(verifyOverPlain(scene)),
  draftTime: ({ log }) => milliseconds(of.stageSeconds(log).draft),
  steppedDraftTime: ({ logs }) => milliseconds(of.stageSeconds(logs.graft).draft),
  steppedDrafter: ({ logs }) => prose(logs.graft.header.drafter),
  firstNodeMass: ({ round }) => probability(round.cumulative[1]),
  lastNodeMass: ({ round }) => probability(round.cumulative[round.drafted]),
};

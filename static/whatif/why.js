// Why a token was rejected, and what it would have taken to have the target's own in the tree. Plain sentences, given
// as parts: strings, and {token} for a token's label.

import { probability } from "../glyphs.js";
import { GHOSTS, targetLogprob } from "../run_log.js";

// `growth` is that of the best-first order in this round (null without marginals), `rows` its marginals.
export function why(round, node, { growth, rows, tokens, verifier, recorded }) {
  const count = round.tree.token.length;
  if (round.bonus && node === count) return bonus(round, growth, rows, tokens);
  if (node === 0) return ["The root is the last token of the text: it was not drafted in this round."];
  if (!tokens) return ["The recorded verifier draws in a way that depends on the tree: the text does not decide this node."];
  const token = { token: round.tree.token[node] };
  if (round.fate[node] === "accepted") {
    const least = growth?.reached[round.depth[node] - 1];
    return [token, " was accepted: it is the target\u2019s own choice there",
      ...odds(round.verdict.logprob[node], round.verdict.rank[node]), ". ",
      ...(least ? [`Best first, it is in every tree of ${least} nodes or more.`] : [])];
  }
  if (GHOSTS.has(round.fate[node])) return absent(round, node, recorded);
  const turned = firstOff(round, node);
  const parent = round.tree.parent[turned];
  const depth = round.depth[turned] - 1;
  const choice = tokens[depth];
  const lead = turned === node ? [token, " was rejected: "]
    : [token, " was not reached, because ", { token: round.tree.token[turned] }, " above it was rejected: "];
  if (choice === undefined) return [...lead, "the record ends here."];
  const drew = verifier === "greedy" ? "the target chose " : "the target drew ";
  return [...lead, drew, { token: choice }, ...oddsOf(round, parent, choice), ", not ", { token: round.tree.token[turned] },
    ...odds(round.verdict.logprob[turned], round.verdict.rank[turned]), ". ",
    ...price(round, parent, depth, choice, growth, rows)];
}

// The first node on the way down to `node` that is not on the accepted path.
function firstOff(round, node) {
  const path = new Set(round.path);
  let at = node;
  while (!path.has(round.tree.parent[at])) at = round.tree.parent[at];
  return at;
}

function bonus(round, growth, rows, tokens) {
  const { parent, token } = round.bonus;
  return [{ token }, " is the target\u2019s own token, added where this draft ended", ...oddsOf(round, parent, token), ". ",
    ...price(round, parent, round.accepted, tokens[round.accepted], growth, rows)];
}

function absent(round, node, recorded) {
  const token = { token: round.tree.token[node] };
  if (round.fate[node] !== "gone") {
    return [token, round.fate[node] === "waiting" ? " waits in the heap: likelier prefixes are popped first."
      : " is no candidate yet: it enters the heap when its parent or its left sibling is popped."];
  }
  const was = { accepted: "accepted", rejected: "rejected", unreached: "not reached" }[recorded.fate[round.recordedAs[node]]];
  return [token, ` is only in the recorded tree, where it was ${was}.`];
}

// From which budget on the target's token would have been in the best-first tree.
function price(round, parent, depth, choice, growth, rows) {
  const there = round.children[parent].find((child) => round.tree.token[child] === choice);
  if (there !== undefined && !GHOSTS.has(round.fate[there])) return ["That one is in this tree."];
  if (!growth) return ["Which budget would have drafted it cannot be told: no marginals were recorded."];
  if (depth >= rows.positions) return ["No budget drafts it: it lies behind the last position that the drafter looks at."];
  const least = growth.reached[depth];
  if (least) return [`Best first, a budget of ${least} would have had `, { token: choice }, " in the tree",
    rankOf(rows, depth, choice), "."];
  const rank = rows.token[depth].indexOf(choice);
  if (rank < 0) return [{ token: choice }, ` is not among the ${rows.ranks} ranks recorded at this depth (each behind them below p `,
    probability(rows.logprob[depth][rows.ranks - 1]), ")."];
  return [{ token: choice }, " is the drafter\u2019s", rankOf(rows, depth, choice).replace(", its", ""),
    `, but its path is not among the first ${growth.most} pops.`];
}

function rankOf(rows, depth, token) {
  const rank = rows.token[depth].indexOf(token);
  return rank < 0 ? "" : `, its rank ${rank + 1} at this depth (p ${probability(rows.logprob[depth][rank])})`;
}

function oddsOf(round, parent, token) {
  return odds(targetLogprob(round, parent, token), round.verdict.top_token[parent].indexOf(token) + 1);
}

function odds(logprob, rank) {
  if (logprob === null || logprob === undefined) return [];
  return [` (p ${probability(logprob)}${rank ? `, rank ${rank}` : ""})`];
}

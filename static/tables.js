// A run as tables: one line a round, one line a node. Comma-separated values, RFC 4180.

import { RETRIEVAL } from "./run_log.js";

// A spreadsheet would run a text that begins like a formula: a quote mark in front makes it a text again.
const FORMULA = /^\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/;

export function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(Number(value.toFixed(7))) : ""; // as exact as the trace
  const text = String(value);
  return '"' + (FORMULA.test(text) ? "'" + text : text).replaceAll('"', '""') + '"';
}

const csv = (names, rows) => [names, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");

export function roundsTable(log) {
  const stages = [...new Set(log.rounds.flatMap((round) => Object.keys(round.seconds ?? {})))];
  const names = ["round", "drafted", "retrieved", "accepted", "emitted", "text", "bonus_token", "bonus_text", "cache_before",
    "cache_after", "seconds", ...stages.map((stage) => "seconds_" + stage), "decision"];
  return csv(names, log.rounds.map((round, index) => [index + 1, round.drafted, round.retrieved, round.accepted,
    round.emitted.length, round.emitted_text.join(""), round.bonus ? round.bonus.token : null,
    round.bonus ? log.piece(round.bonus.token) : null, round.cache_before, round.cache_after, round.total,
    ...stages.map((stage) => round.seconds?.[stage]), JSON.stringify(round.decision ?? {})]));
}

export function nodesTable(log) {
  const names = ["round", "node", "parent", "depth", "token", "text", "source", "fate", "draft_logprob", "path_logprob",
    "target_logprob", "target_rank", "entropy_after", "target_choice"];
  const rows = [];
  log.rounds.forEach((round, index) => {
    const { tree, verdict } = round;
    for (let node = 0; node < tree.token.length; node++) {
      const source = node === 0 ? "root" : tree.source[node] === RETRIEVAL ? "retrieval" : "draft";
      rows.push([index + 1, node, tree.parent[node], round.depth[node], tree.token[node], log.piece(tree.token[node]) ?? null,
        source, round.fate[node], tree.logprob[node], round.cumulative[node], verdict.logprob[node], verdict.rank[node],
        verdict.entropy[node], verdict.choice[node]]);
    }
  });
  return csv(names, rows);
}

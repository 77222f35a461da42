// The rows and columns that the lessons draw as bars, reckoned from the scene {log, index, round, logs}.

import { BUNDLED } from "../bundled.js";
import { milliseconds, number, plural, probability } from "../glyphs.js";
import * as of from "./measures.js";

const titleOf = (name) => BUNDLED.find((run) => run.name === name).title;
const usualNodes = (log) => Math.round(1 + of.median(of.typical(log).map((round) => round.drafted)));

// The runs of the lesson that answer one prompt, as [title, log].
function comparable(logs) {
  const kept = new Set(of.samePrompt([logs.plain, ...Object.values(logs)]));
  return Object.entries(logs).filter(([, log]) => kept.has(log)).map(([name, log]) => [titleOf(name), log]);
}

const byRun = (logs, value, write) => comparable(logs).map(([name, log]) => ({ name, value: value(log), text: write(value(log)) }));

// Rows {name | token, value, text, kind}: `kind` gives the colour that its meaning has everywhere.
export const ROWS = {
  choices: ({ log, round }) => round.verdict.top_token[0].map((token, place) => ({
    token: log.label(token), value: Math.exp(round.verdict.top_logprob[0][place]),
    text: probability(round.verdict.top_logprob[0][place]), kind: token === round.verdict.choice[0] ? "bonus" : "" })),
  depthMasses: ({ round }) => [
    ...of.depthMasses(round).map((mass, place) => ({ name: "depth " + (place + 1), value: mass, text: number(mass), kind: "draft" })),
    { name: "together", value: of.expected(round), text: number(of.expected(round)) },
  ],
  gates: ({ round }) => round.decision.confidence.map((confidence, depth) => {
    const threshold = round.decision.thresholds["tau_d" + depth];
    return { name: "d" + depth, value: confidence, mark: threshold, kind: confidence <= threshold ? "retrieval" : "draft",
      text: number(confidence) + (threshold === undefined ? "" : ", gate at " + number(threshold)) };
  }),
  passes: ({ logs }) => comparable(logs).map(([name, log]) => ({ name: `${plural(usualNodes(log), "node")}: ${name}`,
    nodes: usualNodes(log), value: of.stageSeconds(log).verify, text: milliseconds(of.stageSeconds(log).verify), kind: "verify" }))
    .sort((a, b) => a.nodes - b.nodes),
  tokensPerRound: ({ logs }) => {
    const shared = of.sharedTokens(of.samePrompt([logs.plain, ...Object.values(logs)]));
    return byRun(logs, (log) => of.tokensPerRound(log, shared), (value) => number(value)).map((row) => ({ ...row, kind: "accepted" }));
  },
  speeds: ({ logs }) => byRun(logs, (log) => log.figures().tokens_per_second, (value) => number(value, 1) + " tokens/s"),
};

// {across, series}: a series is {name, kind, values}, one value for each place across, null where it has none.
export const COLUMNS = {
  chainAgainstTree: ({ log }) => ({ across: "rounds, tokens written", series: [
    { name: "the chain alone", kind: "draft", values: log.rounds.map((_, index) => 1 + of.chainAccepted(log, index)) },
    { name: "the tree", kind: "accepted", values: log.rounds.map((round) => 1 + round.accepted) },
  ] }),
  expectedAgainstAccepted: ({ log }) => {
    const rounds = log.rounds.filter((round) => round.marginals && round.drafted);
    return { across: "rounds, accepted tokens", series: [
      { name: "expected by the drafter", kind: "draft", values: rounds.map(of.expected) },
      { name: "accepted by the target", kind: "accepted", values: rounds.map((round) => round.accepted) },
    ] };
  },
  nodeMasses: ({ round }) => ({ across: "nodes in the order of the heap, probability of the path", series: [
    { name: "not accepted", kind: "draft", values: of.drafted(round).map((node) => (round.fate[node] === "accepted" ? null : of.weight(round, node))) },
    { name: "accepted", kind: "accepted", values: of.drafted(round).map((node) => (round.fate[node] === "accepted" ? of.weight(round, node) : null)) },
  ] }),
};

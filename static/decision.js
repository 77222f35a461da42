// What a strategy decided in a round, in words, out of the `decision` that it records. The fields are those of
// decoding/strategies; a trace may hold any others, or of another shape: they are told as they are, or left out.

import { DASH, label, milliseconds, number, plural } from "./glyphs.js";

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const share = (value) => (!isNumber(value) ? DASH : value > 0 && value < 0.005 ? "<.01" : number(value).replace(/^0\./, "."));
const numbers = (value) => (Array.isArray(value) ? value.filter(isNumber) : []);
const mapping = (value) => (value && typeof value === "object" && !Array.isArray(value) ? value : {});
const pairs = (value, show = share) => Object.entries(mapping(value)).filter(([, v]) => isNumber(v)).slice(0, 12)
  .map(([name, v]) => `${label(name)} ${show(v)}`).join(", ");
const row = (value, show = share) => numbers(value).slice(0, 16).map((one) => show(one)).join(", ");

// One sentence for the round, by the fields that are there; empty where nothing was recorded.
export function headline(round, header) {
  const decision = mapping(round.decision);
  const has = (name) => name in decision;
  const drafted = plural(round.drafted, "node");
  if (has("way")) return autoLine(round, decision);
  if (has("stage")) return graftLine(decision);
  if (has("thresholds")) return blockLine(decision);
  if (has("cut_at_gate")) return decision.cut_at_gate === null ? "No gate closed: the tree grew to its full depth."
    : `Cut at gate ${text(decision.cut_at_gate)}: the best path, ${share(mapping(decision.confidence)[decision.cut_at_gate])}, was too unlikely.`;
  if (has("stopped_at")) return decision.stopped_at === null ? "Confident to the end: drafted to its full depth."
    : `Drafting ended at depth ${text(decision.stopped_at)}: the beam was too unsure.`;
  if (has("stopped")) return decision.stopped ? `Drafting ended after ${plural(numbers(decision.entropy).length, "token")}: too unsure to go on.`
    : "Sure enough to the end of the chain.";
  if (has("matched")) return decision.matched ? "The text repeats itself: a copied chain." : "No match in the text: Token Recycling\u2019s template instead.";
  if (has("guesses")) return `${plural(decision.guesses ?? 0, "n-gram")} of the pool to verify, beside the lookahead window.`;
  if (has("base_depth")) return `${plural(decision.drafter_steps ?? 0, "drafter step")}; base depth ${number(decision.base_depth, 1)}, ${text(decision.pruned ?? 0)} pruned.`;
  if (has("template_nodes")) return `${text(decision.filled_nodes)} of the template\u2019s ${text(decision.template_nodes)} nodes could be filled.`;
  if (has("draws")) return `${plural(decision.draws ?? 0, "draw")} made ${drafted}.`;
  if (has("expected_accepted")) return expectedLine(round, decision, drafted);
  if (has("considered")) return `The best ${round.drafted} of ${text(decision.considered - 1)} considered.`;
  return header?.strategy === "ar" ? "Plain decoding: nothing is drafted." : "";
}

function expectedLine(round, decision, drafted) {
  const expected = Array.isArray(decision.expected_accepted) ? numbers(decision.expected_accepted).at(-1) : decision.expected_accepted;
  const grafts = numbers(mapping(decision.grafts).node).length, copied = numbers(mapping(decision.copied).node).length;
  const more = [grafts && plural(grafts, "graft"), copied && copied + " copied"].filter(Boolean).join(", ");
  return `The ${drafted} of most weight${more ? ` (${more})` : ""}: ${number(expected)} accepted expected, ${round.accepted} came.`;
}

function autoLine(round, decision) {
  const rate = `${number(decision.expected_tokens_per_second, 0)} tokens/s expected`;
  if (decision.way === "plain") return `A plain step pays best here (${rate}): nothing drafted.`;
  const way = decision.way === "drafted" ? "Drafted" : decision.way === "retrieved" ? "Retrieval alone" : "Planned";
  return `${way}, ${plural(round.drafted, "node")} pay best: ${number(decision.expected_accepted)} accepted expected, ${round.accepted} came (${rate}).`;
}

function graftLine(decision) {
  const { stage, draft_budget: drafted, retrieval_budget: retrieved } = decision;
  const shares = `${text(drafted)} drafted, ${text(retrieved)} to graft`;
  if (stage === null) return `No gate ended the draft: ${shares}.`;
  const best = numbers(decision.confidence).at(-1);
  return `Ended at gate ${text(stage)}, best path ${share(best)} \u2264 ${share(mapping(decision.thresholds)["tau_" + stage])}: ${shares}.`;
}

function blockLine(decision) {
  const threshold = Object.values(mapping(decision.thresholds))[0];
  return `${text(decision.draft_budget)} tokens surer than ${share(threshold)} drafted, then ${text(decision.retrieval_budget)} places for retrieval.`;
}

// Every field in words: name, value, and why it is there.
const TOLD = {
  nodes: ["nodes planned", text],
  depth: ["deepest", (value) => "depth " + text(value)],
  way: ["way", text],
  expected_accepted: ["expected accepted", (value) => (Array.isArray(value) ? "after each layer: " + row(value, number) : number(value))],
  expected_tokens_per_second: ["expected speed", (value) => number(value, 1) + " tokens/s"],
  expected_ms: ["expected cost", (value) => milliseconds(value / 1000)],
  by_budget: ["expected speed by budget", (value) => {
    const rate = numbers(mapping(value).tokens_per_second);
    return numbers(mapping(value).nodes).slice(0, 16).map((nodes, i) => `${nodes}: ${number(rate[i], 0)}`).join(", ");
  }],
  acceptance_factor: ["measured over expected, by weight", (value) => row(value, number)],
  stage: ["gate that ended the draft", (value) => (value === null ? "none" : text(value))],
  confidence: ["best path", (value) => (Array.isArray(value) ? "by depth: " + row(value) : "at gate " + pairs(value))],
  thresholds: ["thresholds", (value) => pairs(value)],
  draft_budget: ["places for the draft", text],
  retrieval_budget: ["places for grafts", text],
  grafts: ["grafted", (value) => plural(numbers(mapping(value).node).length, "node")],
  copied: ["copied", (value) => { const { node, matched } = mapping(value);
    return numbers(node).length ? `${plural(numbers(node).length, "node")}, after ${plural(matched, "token")} that stood before` : "nothing"; }],
  merged: ["drafted and retrieved alike", (value) => plural(numbers(value).length, "node")],
  rates: ["hit rates of matrix ranks", (value) => row(numbers(mapping(value).retrieved).length ? mapping(value).retrieved : mapping(value).retrieved?.[0])],
  evaluated: ["nodes asked of the drafter", text],
  considered: ["nodes considered, root counted", text],
  drafter_steps: ["drafter steps", text],
  template_nodes: ["nodes of the template", text],
  filled_nodes: ["of these filled", text],
  matched: ["match in the text", (value) => (value ? "yes" : "no")],
  guesses: ["n-grams verified", text],
  guess_nodes: ["their nodes", text],
  rows: ["rows of the window", text],
  base_depth: ["base depth D\u2080", (value) => number(value)],
  high_confidence: ["breadth: sure above", share],
  low_confidence: ["breadth: unsure below", share],
  mean_acceptance: ["mean acceptance", share],
  nodes_by_width: ["nodes by number of children", (value) => pairs(value, text)],
  expanded: ["expanded", text],
  pruned: ["pruned", text],
  at_max_depth: ["at the greatest depth", text],
  stopped_at: ["drafting ended at depth", (value) => (value === null ? "not ended early" : text(value))],
  at_base_depth: ["stopped at base depth", text],
  cut_at_gate: ["gate that cut the tree", (value) => (value === null ? "none" : text(value))],
  beam_confidence: ["H by depth", (value) => pairs(value, number)],
  entropy: ["drafter\u2019s entropy by token (nats)", (value) => row(value, number)],
  stopped: ["stopped", (value) => (typeof value === "boolean" ? (value ? "too unsure" : "no") : text(value))],
  draws: ["draws", text],
  acceptance: ["acceptance by rank", (value) => row(value)],
};
const LEFT_OUT = new Set(["graft_weight"]); // one number a graft: the tree shows them

export function facts(round) {
  return Object.entries(mapping(round.decision)).filter(([name]) => !LEFT_OUT.has(name)).slice(0, 40).map(([name, value]) => {
    const [title, show] = Object.hasOwn(TOLD, name) ? TOLD[name] : [label(name.slice(0, 40)).replaceAll("_", " "), text];
    return [title, show(value) || DASH];
  });
}

function text(value) {
  if (isNumber(value)) return String(Math.round(value * 1000) / 1000);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "string" ? label(value.slice(0, 60)) : DASH;
}

// All figures of all lanes in one table. Every row states its convention; undefined is a dash.

import { make } from "./dom.js";
import { DASH, milliseconds, number, percent } from "./glyphs.js";
import { PLAIN } from "./lanes.js";

const megabytes = (bytes) => (typeof bytes === "number" ? (bytes / 2 ** 20).toFixed(0) + " MB" : DASH);

function draftShare({ stage_seconds: stages }) {
  const total = Object.values(stages ?? {}).reduce((sum, value) => sum + value, 0);
  return total ? ((stages.draft ?? 0) + (stages.retrieve ?? 0)) / total : null;
}

// Title, its convention (two, where it is another one for recorded runs), how it is read from a lane's figures, how it is
// written.
const METRICS = [
  ["tokens / round", "bonus included: the papers\u2019 \u03c4", (f) => f.tokens_per_round, number],
  ["accepted / round", "bonus excluded: mean accepted tokens, MAT", (f) => f.accepted_per_round, number],
  ["acceptance rate", "accepted over drafted nodes; low for a wide tree by construction", (f) => f.acceptance_rate, (v) => percent(v, 1)],
  ["tokens / s", "after the first token", (f) => f.tokens_per_second, (v) => number(v, 1)],
  ["speedup", ["tokens / s over plain decoding\u2019s in this session of runs", "tokens / s over the recorded plain decoding\u2019s, each by its own recorded seconds"], (f, lane) => lane.comparison?.speedup ?? (lane.number === PLAIN && lane.log.summary ? 1 : null), (v) => (typeof v === "number" ? v.toFixed(2) + "\u00d7" : DASH)],
  ["first token", "TTFT: the prefill", (f) => f.ttft_seconds, milliseconds],
  ["per token", "TPOT: decode time per token after the first", (f) => f.tpot_seconds, milliseconds],
  ["draft share", "drafting and retrieving, of the time of all stages", draftShare, (v) => percent(v, 0)],
  ["rounds", "passes of the target after the prefill", (f) => f.rounds, (v) => number(v, 0)],
  ["new tokens", "the first one included", (f) => f.new_tokens, (v) => number(v, 0)],
  ["drafted", "nodes of all trees, roots not counted", (f) => f.drafted_tokens, (v) => number(v, 0)],
  ["peak memory", ["on a CPU: of the whole process, the models of all ways included", "on a CPU: of the whole process, which ran this way alone"], (f) => f.peak_memory_bytes, megabytes],
];

export function showMetrics(part, { lanes, recorded }) {
  const head = make("tr");
  head.append(make("td"), ...lanes.map((lane) => {
    const cell = make("th");
    cell.scope = "col";
    cell.append(make("b", "cy-letter", lane.letter), make("span", "", lane.name));
    return cell;
  }));
  part.metricsHead.replaceChildren(head);
  const figures = lanes.map((lane) => lane.log.figures());
  part.metricsBody.replaceChildren(...METRICS.map(([title, convention, read, written]) => {
    const line = make("tr");
    const name = make("th");
    name.scope = "row";
    name.append(make("span", "", title), make("small", "", Array.isArray(convention) ? convention[Number(recorded)] : convention));
    const values = lanes.map((lane, place) => read(figures[place], lane) ?? null);
    line.append(name, ...values.map((value, place) => {
      const cell = make("td", "", written(value));
      if (title === "speedup" && lanes[place].number !== PLAIN && value !== null) {
        cell.classList.add(value < 1 ? "cy-slower" : "cy-faster");
        if (value < 1) cell.append(make("small", "", "slower than plain"));
      }
      return cell;
    }));
    return line;
  }));
}

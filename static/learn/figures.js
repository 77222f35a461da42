// The drawings of the lessons beside the tree itself: each fills a host from a resolved scene (see scene.js).

import { BUNDLED } from "../bundled.js";
import { make } from "../dom.js";
import { milliseconds, probability, prose } from "../glyphs.js";
import { STAGES } from "../readouts.js";
import { drawMask } from "./mask.js";
import { chainNodes, heapAfter, roundSeconds, stageSeconds } from "./measures.js";
import { fork } from "./nodes.js";
import { COLUMNS, ROWS } from "./sources.js";

const ROW = 2.1; // height of a list's row, in the figure's type size
const rowsIn = (host, less = 0) =>
  Math.max(3, Math.floor(host.clientHeight / parseFloat(getComputedStyle(host).fontSize) / ROW) - less);

// The text up to the round of the scene.
function text(host, { log, index, show }) {
  const last = show.until === "prefill" ? -1 : index;
  const running = make("p", "cy-fig-text");
  for (const { text: piece, from, round } of log.tokens()) {
    if (round > last) break;
    running.append(make("span", `cy-token cy-token-${from}${round === last ? " cy-now" : ""}`, prose(piece)));
  }
  host.replaceChildren(make("p", "cy-fig-prompt", prose(log.header.prompt)), running);
}

// What the drafter guessed against what the target would have written, place by place.
function agreement(host, { log, round }) {
  const table = make("table", "cy-fig-table");
  const row = (tag, cells, fate = "") => {
    const line = make("tr", fate && "cy-fate-" + fate);
    line.append(...cells.map(([content, classes]) => make(tag, classes ?? "", content)));
    return line;
  };
  const say = { accepted: "\u2713 taken", rejected: "\u2717 refused", unreached: "thrown away" };
  table.append(row("th", [["place"], ["drafter"], ["target"], [""]]), ...chainNodes(round).map((node) => row("td", [
    [String(round.depth[node])], [log.label(round.tree.token[node]), "cy-fig-token"],
    [log.label(round.verdict.choice[round.tree.parent[node]]), "cy-fig-token"], [say[round.fate[node]]],
  ], round.fate[node])));
  host.replaceChildren(table);
}

// The distributions of the next places; what the target took is marked.
function marginals(host, { log, round, show }) {
  const { token, logprob } = round.marginals;
  const wide = parseFloat(getComputedStyle(host).fontSize) * 7.5;
  const places = Math.max(2, Math.min(token.length, Math.floor(host.clientWidth / wide)));
  const ranks = Math.min(token[0].length, rowsIn(host, 2));
  const marked = show.mark === "fork" ? fork(round) : null;
  const grid = make("div", "cy-fig-marginals");
  grid.style.gridTemplateColumns = `repeat(${places}, minmax(0, 1fr))`;
  for (let place = 0; place < places; place++) {
    const column = make("div");
    column.append(make("h3", "", "place " + (place + 1)));
    const taken = round.path[place + 1];
    const isBonus = round.bonus && round.depth[round.bonus.parent] === place;
    for (let rank = 0; rank < ranks; rank++) {
      const here = token[place][rank];
      const kind = taken !== undefined && round.tree.token[taken] === here ? "accepted"
        : isBonus && round.bonus.token === here ? "bonus" : "draft";
      const line = bar({ token: log.label(here), value: Math.exp(logprob[place][rank]), text: probability(logprob[place][rank]), kind }, 1);
      if (marked !== null && round.depth[marked] === place + 1 && round.tree.token[marked] === here) line.classList.add("cy-marked");
      column.append(line);
    }
    grid.append(column);
  }
  const shown = places < token.length ? `${places} of ${token.length} places shown. ` : "";
  host.replaceChildren(grid, make("p", "cy-fig-note", shown + "Green: accepted. Pink: the target\u2019s own, where the drafter had it on its list."));
}

function bar({ name, token, value, text: written, kind, mark }, full) {
  const line = make("div", "cy-fig-bar" + (kind ? " cy-kind-" + kind : ""));
  const track = make("span", "cy-fig-track");
  const fill = make("i");
  fill.style.width = Math.max(0.5, (100 * value) / full) + "%";
  track.append(fill);
  if (mark !== undefined) {
    const gate = make("i", "cy-fig-gate");
    gate.style.left = (100 * mark) / full + "%";
    track.append(gate);
  }
  line.append(make("span", token === undefined ? "cy-fig-name" : "cy-fig-name cy-fig-token", token ?? name), track, make("b", "", written));
  return line;
}

function bars(host, scene) {
  const rows = ROWS[scene.show.of](scene);
  const full = Math.max(...rows.flatMap((row) => [row.value, row.mark ?? 0])) || 1;
  const list = make("div", "cy-fig-bars");
  list.append(...rows.slice(0, rowsIn(host)).map((row) => bar(row, full)));
  host.replaceChildren(list);
}

function columns(host, scene) {
  const { across, series } = COLUMNS[scene.show.of](scene);
  const full = Math.max(...series.flatMap(({ values }) => values)) || 1;
  const plot = make("div", "cy-fig-columns");
  series[0].values.forEach((_, place) => {
    const slot = make("span");
    for (const { kind, values } of series) {
      if (values[place] === null) continue;
      const column = make("i", "cy-kind-" + kind);
      column.style.height = (100 * values[place]) / full + "%";
      slot.append(column);
    }
    plot.append(slot);
  });
  const key = make("p", "cy-fig-note cy-fig-key");
  key.append(...series.map(({ name, kind }) => make("span", "cy-kind-" + kind, name)), make("span", "", "across: " + across));
  host.replaceChildren(plot, key);
}

// Usual rounds of some runs on one scale of time, stage by stage.
function stages(host, { logs, show }) {
  const runs = show.runs.map((name) => [BUNDLED.find((run) => run.name === name).title, logs[name]]);
  const longest = Math.max(...runs.map(([, log]) => roundSeconds(log)));
  const used = new Set();
  const rows = runs.map(([title, log]) => {
    const seconds = stageSeconds(log);
    const line = make("div", "cy-fig-stages");
    const track = make("div", "cy-stage-bar");
    for (const stage of STAGES.filter((name) => seconds[name])) {
      const part = make("i", "cy-stage-" + stage);
      part.style.flex = `0 0 ${(100 * seconds[stage]) / longest}%`;
      used.add(stage);
      track.append(part);
    }
    line.append(make("span", "", title), make("b", "", milliseconds(roundSeconds(log))), track);
    return line;
  });
  const key = make("p", "cy-fig-note cy-fig-key");
  key.append(...STAGES.filter((stage) => used.has(stage)).map((stage) => {
    const item = make("span", "cy-fig-stage");
    item.append(make("i", "cy-stage-" + stage), stage);
    return item;
  }), make("span", "", "medians over the recording, on the machine that made it"));
  host.replaceChildren(...rows, key);
}

// The heap beside the tree: what was popped last, and what waits, the likeliest on top.
function heap(host, { log, round, pops }) {
  const { popped, waiting } = heapAfter(round, pops);
  const line = ({ ranks, tokens, logprob }, classes = "") => {
    const row = make("li", classes);
    row.append(make("span", "cy-fig-ranks", `(${ranks.join(", ")})`), make("span", "cy-fig-token", tokens.map((t) => log.label(t)).join(" ")),
      make("b", "", probability(logprob)));
    return row;
  };
  const list = make("ol", "cy-fig-heap");
  const room = rowsIn(host, 4);
  list.append(...waiting.slice(0, room).map((entry) => line(entry)));
  const last = popped.at(-1);
  const before = make("ol", "cy-fig-heap");
  before.append(last ? line(last, "cy-popped") : make("li", "cy-fig-none", "nothing popped yet"));
  const more = waiting.length - Math.min(room, waiting.length);
  host.replaceChildren(make("h3", "", "popped last"), before, make("h3", "", `in the heap: ${waiting.length}`), list,
    make("p", "cy-fig-note", more ? `and ${more} more` : ""));
}

export const FIGURES = { text, agreement, marginals, bars, columns, stages, heap, mask: drawMask };

// The comparison that ships with the page: recorded runs of one prompt, set side by side with no model and no server.

import { BUNDLED, openBundled } from "./bundled.js";
import { prose } from "./glyphs.js";
import { judged } from "./judgement.js";
import { Lane, PLAIN } from "./lanes.js";

// All that answer plain decoding's prompt at its length. First the two that share a drafter.
export const WAYS = BUNDLED.filter((run) => run.way).map((run) => run.name);

// {recorded, lanes, said}; fails with a readable message where a run cannot be had.
export async function recordedComparison() {
  const logs = await Promise.all(WAYS.map(openBundled));
  const lanes = logs.map((log, number) => new Lane(number, about(WAYS[number], log), log));
  for (const lane of lanes.slice(PLAIN + 1)) lane.judgement = judged(lane.log, logs[PLAIN]);
  return { recorded: true, lanes, said: said(logs) };
}

function about(name, { header }) {
  const drafter = header.drafter === "none" ? "None" : header.drafter;
  return { name: BUNDLED.find((run) => run.name === name).way, drafter, settings: {} };
}

// What was asked, when and where, as the traces say.
function said(logs) {
  const { prompt, target, max_new_tokens: tokens } = logs[PLAIN].header;
  const all = (read) => [...new Set(logs.map(({ header }) => read(header)))].join(" and ");
  const times = logs.map(({ header }) => new Date(header.created).toISOString().slice(0, 16).replace("T", " ")).sort();
  return prose(`\u201c${prompt}\u201d, ${tokens} tokens from ${target}. Recorded ${times[0]} to ${times.at(-1).slice(11)} UTC on ` +
    `${all((header) => header.device)}, ${all((header) => header.dtype)}, torch ${all((header) => header.versions.torch)}; ` +
    "nothing runs now, and no model is loaded for it.");
}

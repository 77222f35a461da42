// What the page opens on: the run that stands in the page itself (a stand-alone page), the one that the address names,
// or the one that ships with it, so that no model is needed.

import { readPlace } from "./address.js";
import { bundled } from "./bundled.js";
import { library } from "./library.js";
import { note } from "./notes.js";
import { RunLog } from "./run_log.js";
import { shelf } from "./shelf.js";

const inside = document.getElementById("cy-trace");
if (!inside) bundled("welcome").catch(() => {}); // reported where it is used

let wanted = null; // of a link whose run is gone: where its file is to be opened, should it be imported

export async function openFirst(explore) {
  if (inside) {
    const { name, place } = JSON.parse(document.getElementById("cy-place").textContent);
    return goTo(explore, shelf.add(RunLog.fromLines("inside", inside.textContent), name, "recorded").log, place);
  }
  const place = readPlace();
  const entry = place.asked === null ? null : await named(place);
  const welcome = bundled("welcome");
  if (entry) welcome.catch(() => {}); // the others find it on the shelf
  const { log } = entry ?? (await welcome);
  if (!explore.log && !explore.ticket) goTo(explore, log, entry || place.asked === null ? place : {});
}

async function named(place) {
  let problem = ["The run in this link is not here.", "The server keeps linked runs for a time only, in its memory, and a " +
    "browser its own. If you have the file of the run, import it; meanwhile, this is the recorded run."];
  try {
    const entry = place.run && (await library.find(place.run));
    if (entry) return entry;
  } catch (error) {
    problem = ["The run in this link could not be fetched. " + error.message, error.hint ?? "Load the page again."];
  }
  wanted = place;
  note(problem[0], { hint: problem[1], kind: "warning", actions: { "Import its file\u2026": () => window.canopy.importRun() } });
  return null;
}

// Where an imported run opens: at the place of a link that had lost its run, once.
export function openImported(explore, log) {
  const place = wanted ?? {};
  wanted = null;
  goTo(explore, log, place);
}

// Opens a run at a place; what is out of range goes to the nearest that there is, and says so.
export function goTo(explore, log, { round = null, node = null, view = null }) {
  const said = [];
  const near = (value, low, high, what, shown) => {
    const to = Math.min(high, Math.max(low, value));
    if (to !== value) said.push(`There is no ${what} ${value} ${shown}: this is ${what} ${to}.`);
    return to;
  };
  const last = log.rounds.length;
  explore.open(log, round === null || !last ? -1 : near(round, 1, last, "round", "in this run") - 1);
  const shown = log.rounds[explore.current];
  if (node !== null && shown) {
    explore.select(near(node, 0, shown.tree.token.length - (shown.bonus ? 0 : 1), "node", "in this round"));
  }
  if (view !== null) explore.showView?.(view);
  if (said.length) note(said.join(" "));
}

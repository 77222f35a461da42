// The address of what is on show: ?run=ID&round=7&node=3&view=mass (round as written on the page, from 1; node as in the
// trace, from 0). On a Hugging Face Space the page stands in an iframe: the Hub hands its own query down at opening, and
// takes updates by postMessage.

import { shelf } from "./shelf.js";

const HUB = "https://huggingface.co";
const OURS = ["run", "round", "node", "view"];
const EVERY = 400; // browsers refuse to have their address changed more often than about three times a second
const EVERY_LIVE = 2000; // while a run comes in: each change takes the browser's time, beside the model's
const DEFAULT_VIEW = "tree";

// What an address asks for; null where it says nothing, or nothing that could be meant.
export function readPlace(search = location.search) {
  const query = new URLSearchParams(search);
  const whole = (name) => (/^-?\d{1,9}$/.test(query.get(name) ?? "") ? Number(query.get(name)) : null);
  const word = (name) => (/^[0-9a-z-]{1,64}$/.test(query.get(name) ?? "") ? query.get(name) : null);
  return { run: word("run"), asked: query.get("run"), round: whole("round"), node: whole("node"), view: word("view") };
}

export const embedded = () => new URLSearchParams(location.search).get("embed") === "1";

// What is on show now. A run that still comes in has no address yet.
export function placeOf(explore) {
  const entry = shelf.of(explore.log);
  const run = entry?.link ?? entry?.key ?? null;
  if (!run || explore.current < 0) return null;
  return { run, round: explore.current + 1, node: explore.selected, view: explore.view ?? null };
}

// The query of a place, on top of what else the page was opened with.
export function queryOf(place, { search = location.search, shared = false, embed = false } = {}) {
  const query = new URLSearchParams(search);
  for (const name of [...query.keys()]) {
    if (OURS.includes(name) || (shared && (name === "embed" || name.startsWith("__")))) query.delete(name);
  }
  for (const name of OURS) {
    const value = place?.[name];
    if (value !== null && value !== undefined && !(name === "view" && value === DEFAULT_VIEW)) query.set(name, value);
  }
  if (embed) query.set("embed", "1");
  return query.size ? "?" + query : "";
}

// A link to a place that works for others: on a Space, the page that people know.
export function linkTo(place, { embed = false } = {}) {
  const space = onHub() && !embed ? window.gradio_config?.space_id : null;
  const page = space ? `${HUB}/spaces/${space}` : location.origin + location.pathname;
  return page + queryOf(place, { shared: true, embed });
}

// Keeps the address at what is on show, once the visitor has moved.
export function followAddress(explore) {
  let written = JSON.stringify(placeOf(explore));
  let timer = null;
  const write = () => {
    timer = null;
    const place = placeOf(explore);
    if (JSON.stringify(place) === written) return;
    written = JSON.stringify(place);
    try {
      history.replaceState(history.state, "", location.pathname + queryOf(place) + location.hash);
    } catch { /* refused by the browser, for instance in a sandbox: "copy link" works all the same */ }
    tellHub(queryOf(place, { shared: true }));
  };
  const live = () => explore.log && explore.log.id === explore.ticket && !explore.log.summary;
  const changed = () => { timer ??= setTimeout(write, live() ? EVERY_LIVE : EVERY); };
  for (const event of ["run", "round", "node", "view"]) explore.addEventListener(event, changed);
  shelf.addEventListener("change", changed);
}

function onHub() {
  if (window.parent === window) return false;
  const above = location.ancestorOrigins?.[0] ?? document.referrer;
  return above === HUB || above.startsWith(HUB + "/");
}

function tellHub(queryString) {
  if (onHub()) window.parent.postMessage({ queryString }, HUB);
}

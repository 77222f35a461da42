// The server's side of a link: it checks a trace with the strict reader and keeps it in memory under an id that nobody
// can guess. See workbench/run_routes.py.

import { randomHex } from "./ticket.js";

const RUNS = "runs";
const STORED = "canopy-visitor";

// A secret of this browser: what it has put on the server, only it can take away.
function visitor() {
  let secret = null;
  try { secret = localStorage.getItem(STORED); } catch { /* a private window has no storage */ }
  if (/^[0-9a-f]{32}$/.test(secret ?? "")) return secret;
  secret = (visitor.made ??= randomHex());
  try { localStorage.setItem(STORED, secret); } catch { /* as above */ }
  return secret;
}

// What went wrong and the way out, for a person to read.
export class Refused extends Error {
  constructor(message, hint = "", status = 0) {
    super(message);
    this.hint = hint;
    this.status = status;
  }
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(new URL(RUNS + path, import.meta.url), { ...options, headers: { "x-canopy-visitor": visitor() } });
  } catch {
    throw new Refused("The server does not answer.", "See whether it still runs, then try again.");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Refused(said.message ?? `The server answered with ${answer.status}.`, said.hint ?? "Try again.", answer.status);
}

// Both give {id, lines, rounds, torn}.
export const upload = async (body) => (await ask("", { method: "POST", body })).json();
export const keepOwn = async (ticket) => (await ask("/of/" + encodeURIComponent(ticket), { method: "POST" })).json();

export const fetchKept = async (id) => (await ask("/" + id)).text();
export const drop = (id) => ask("/" + id, { method: "DELETE" });
export const stillKept = (id) => ask("/" + id, { method: "HEAD" }).then(() => true, (error) => {
  if (error.status === 404) return false;
  throw error;
});

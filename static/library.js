// All runs of this visitor: those on the shelf, and those that the browser has kept from earlier visits. Own and
// imported runs are written down by themselves as soon as they stop growing.

import { BUNDLED, bundled, keyOf } from "./bundled.js";
import { prose } from "./glyphs.js";
import { drop, fetchKept, keepOwn, stillKept, upload } from "./kept_runs.js";
import { MAX_BYTES, MAX_RUNS, deleteAll, deleteRun, describeRun, listRuns, readTrace, writeRun } from "./run_db.js";
import { RunLog } from "./run_log.js";
import { shelf } from "./shelf.js";
import { randomHex } from "./ticket.js";

const LOOK_EVERY = 1500;
const KEPT = ["own", "imported"];

export function promptName(log) {
  return prose(log.header?.prompt ?? "").replace(/\s+/g, " ").trim().slice(0, 80) || "A run";
}

// What a list says of a run.
export function factsOf(log) {
  const { header, rounds } = log;
  return { prompt: (header?.prompt ?? "").slice(0, 400), target: header?.target, drafter: header?.drafter,
    retrieval: header?.retrieval, strategy: header?.strategy, created: header?.created, rounds: rounds.length,
    tokensPerRound: log.figures().tokens_per_round ?? null };
}

class Library extends EventTarget {
  #looks = new WeakMap(); // of each log: how far it was at the last look
  #traceless = false;
  bytes = 0;

  // Whether this browser lets runs be kept at all.
  get works() { return !this.#traceless; }

  start() {
    shelf.addEventListener("change", () => this.#nameAll());
    this.#nameAll();
    setInterval(() => this.#look(), LOOK_EVERY);
  }

  #nameAll() {
    for (const entry of shelf.list()) entry.key ??= entry.origin === "recorded" ? entry.log.id : randomHex();
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }

  // Every run, newest first: {key, name, origin, link, at, bytes, facts, entry}; `entry` where it is on the shelf.
  async rows() {
    const kept = await this.#kept();
    const rows = new Map(kept.map((about) => [about.key, { ...about, entry: null }]));
    for (const item of BUNDLED) {
      rows.set(keyOf(item), { key: keyOf(item), name: item.title, origin: "recorded", at: -rows.size, facts: { prompt: item.about } });
    }
    for (const entry of shelf.list()) {
      const before = rows.get(entry.key);
      rows.set(entry.key, { key: entry.key, name: entry.name, origin: entry.origin, link: entry.link ?? null,
        at: before?.at ?? entry.at ?? Date.now(), bytes: before?.bytes ?? null, facts: factsOf(entry.log), entry });
    }
    this.bytes = kept.reduce((sum, about) => sum + about.bytes, 0);
    return [...rows.values()].sort((a, b) => b.at - a.at);
  }

  async #kept() {
    try {
      return await listRuns();
    } catch {
      this.#traceless = true;
      return [];
    }
  }

  // The run of a row or of an address, on the shelf; null where there is none.
  async find(run) {
    const here = shelf.list().find((entry) => entry.key === run || entry.link === run);
    if (here) return here;
    const about = (await this.#kept()).find((item) => item.key === run || item.link === run);
    if (about) {
      const text = await readTrace(about.key);
      const { key, name, origin, link } = about;
      if (text !== null) return this.#shelve(RunLog.fromLines(key, text), name, origin, { key, link });
    }
    if (/^[0-9a-f]{32}$/.test(run)) {
      const text = await fetchKept(run).catch((error) => {
        if (error.status === 404) return null;
        throw error;
      });
      if (text === null) return null;
      const log = RunLog.fromLines(run, text);
      return shelf.add(log, promptName(log), "linked", { key: run, link: run });
    }
    return bundled(run);
  }

  #shelve(log, name, origin, more) {
    this.#looks.set(log, { received: log.received, saved: log.received, quiet: 0 });
    return shelf.add(log, name, origin, more);
  }

  // ---- writing down ---------------------------------------------------------------------------------------------

  async #look() {
    for (const entry of shelf.list()) {
      if (!KEPT.includes(entry.origin) || !entry.log.header) continue;
      const look = this.#looks.get(entry.log) ?? { received: -1, saved: -1, quiet: 0, tries: 0 };
      this.#looks.set(entry.log, look);
      look.quiet = entry.log.received === look.received ? look.quiet + 1 : 0;
      look.received = entry.log.received;
      if (look.saved !== look.received && (entry.log.summary || look.quiet >= 3)) {
        look.saved = look.received;
        look.tries = 0;
        await this.keep(entry);
      }
      if (entry.origin === "own" && !entry.link && look.saved === look.received && look.quiet >= 2 ** look.tries) {
        look.tries = Math.min(6, look.tries + 1);
        await this.#linkOwn(entry);
      }
    }
  }

  // True once an entry is written down as it is; imported and earlier ones are at once.
  isSettled(entry) {
    return entry.origin === "recorded" || entry.origin === "linked" || this.#looks.get(entry.log)?.saved === entry.log.received;
  }

  async keep(entry) {
    if (this.#traceless) return;
    const { key, name, origin } = entry;
    entry.at ??= Date.now();
    try {
      const gone = await writeRun({ key, name, origin, link: entry.link ?? null, at: entry.at, facts: factsOf(entry.log) }, entry.log.lines());
      if (gone.length) this.dispatchEvent(new CustomEvent("full", { detail: gone.length }));
    } catch (error) {
      this.dispatchEvent(new CustomEvent("failed", { detail: error }));
    }
    this.#changed();
  }

  // The server still has a run that it has just made: it needs no upload to be linked.
  async #linkOwn(entry) {
    try {
      await this.#setLink(entry, (await keepOwn(entry.log.id)).id);
    } catch { /* it goes on, or the server has let it go: linkOf sends it when a link is asked for */ }
  }

  async #setLink(entry, link) {
    entry.link = link;
    const { key, name, origin, at } = entry;
    const about = (await this.#kept()).find((item) => item.key === key);
    if (about) await describeRun({ ...about, name, origin, link, at: at ?? about.at });
    shelf.changed();
  }

  // The id under which others find a run: sent to the server again where it has let it go.
  async linkOf(entry) {
    if (entry.origin === "recorded") return entry.key;
    if (entry.link && (await stillKept(entry.link))) return entry.link;
    await this.#setLink(entry, (await upload(entry.log.lines())).id);
    return entry.link;
  }

  // ---- what the visitor does with them --------------------------------------------------------------------------

  async rename(key, name) {
    const about = (await this.#kept()).find((item) => item.key === key);
    if (about) await describeRun({ ...about, name });
    const entry = shelf.list().find((item) => item.key === key);
    if (entry) shelf.rename(entry.log.id, name);
    this.#changed();
  }

  // Gives a function that takes it back; the server forgets the run only when `forget` is called.
  async remove(row) {
    const entry = await this.find(row.key);
    await deleteRun(row.key).catch(() => {});
    if (entry) shelf.remove(entry.log.id);
    this.#changed();
    return {
      restore: async () => {
        const { log, name, origin, key, link, at } = entry;
        const back = this.#shelve(log, name, origin, { key, link, at: at ?? row.at });
        if (KEPT.includes(origin)) await this.keep(back);
      },
      forget: () => (row.link && row.origin !== "linked" ? drop(row.link).catch(() => {}) : null),
    };
  }

  // A run that came by a link becomes one of the visitor's own collection.
  async adopt(entry) {
    entry.origin = "imported";
    shelf.changed();
  }

  async clear() {
    const links = (await this.rows()).filter((row) => KEPT.includes(row.origin) && row.link).map((row) => row.link);
    await deleteAll().catch(() => {});
    for (const entry of shelf.list()) if (entry.origin !== "recorded" && this.isSettled(entry)) shelf.remove(entry.log.id);
    this.#changed();
    for (const link of links) await drop(link).catch(() => {});
  }
}

export const library = new Library();
export const ROOM = { runs: MAX_RUNS, bytes: MAX_BYTES };

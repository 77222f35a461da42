// The Sessions tab: every run at hand, to open, name, share, save and delete.

import { make, parts, write } from "./dom.js";
import { number, plural, prose } from "./glyphs.js";
import { chooseFiles } from "./import_runs.js";
import { ROOM, library } from "./library.js";
import { note } from "./notes.js";

const ORIGINS = { own: "own", imported: "imported", linked: "from a link", recorded: "recorded" };
const WHEN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const DASH = "\u2014";

function when(created) {
  const date = new Date(created ?? "");
  return Number.isNaN(date.getTime()) ? DASH : WHEN.format(date);
}

const megabytes = (bytes) => (bytes / 2 ** 20).toFixed(1) + " MB";

export class Sessions {
  constructor({ element }) {
    this.part = parts(element);
    this.renaming = null;
    const { part } = this;
    part.import.onclick = chooseFiles;
    part.clear.onclick = () => this.#askToClear();
    part.sure.onclose = () => { if (part.sure.returnValue === "yes") library.clear(); };
    library.addEventListener("change", () => this.#soon());
    new ResizeObserver(() => this.#soon()).observe(element);
    document.addEventListener("visibilitychange", () => this.#soon()); // another tab may have changed the runs
    this.#soon();
  }

  // Once a frame at most, and not while hidden.
  #soon() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      if (this.part.rows.offsetParent !== null) this.render();
    });
  }

  async render() {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const rows = await library.rows();
    if (turn !== this.turn || this.renaming) return;
    const own = rows.filter((row) => row.origin !== "recorded").length;
    write(this.part.room, library.works
      ? `${plural(own, "run")} of yours \u00b7 ${megabytes(library.bytes)} of ${megabytes(ROOM.bytes)}, the oldest go first`
      : "This browser keeps nothing (a private window?): save what you want to have again.");
    this.part.clear.disabled = own === 0;
    const focused = document.activeElement?.closest?.("[data-run]") && document.activeElement;
    const place = focused && [focused.closest("[data-run]").dataset.run, focused.dataset.action];
    this.part.rows.replaceChildren(...rows.map((row) => this.#row(row)));
    if (place) this.part.rows.querySelector(`[data-run="${CSS.escape(place[0])}"] [data-action="${place[1]}"]`)?.focus();
  }

  #row(row) {
    const { facts } = row;
    const line = make("tr");
    line.dataset.run = row.key;
    line.dataset.origin = row.origin;
    if (row.entry && row.entry.log === window.canopy.explore?.log) line.setAttribute("aria-current", "true");
    const name = make("td", "cy-run");
    const open = this.#button("open", prose(row.name) || DASH, () => this.#open(row), "cy-run-name");
    const about = make("div", "cy-run-about");
    about.append(make("span", "cy-chip", ORIGINS[row.origin] ?? row.origin));
    const prompt = prose(facts.prompt ?? "").replace(/\s+/g, " ");
    if (prompt && prompt !== row.name) about.append(make("span", "cy-run-prompt", prompt));
    name.append(open, about);
    const pair = [facts.drafter, facts.retrieval].filter((item) => item && item !== "none");
    const cells = [["Pair", prose([facts.target ?? DASH, ...pair].join(" + "))], ["Strategy", prose(facts.strategy ?? DASH)],
      ["Rounds", facts.rounds === undefined ? DASH : String(facts.rounds)], ["Tokens / round", number(facts.tokensPerRound)], ["When", when(facts.created)]];
    line.append(name, ...cells.map(([label, value], place) => {
      const cell = make("td", place === 2 || place === 3 ? "cy-run-figure" : "", value);
      cell.dataset.label = label;
      return cell;
    }), this.#actions(row));
    return line;
  }

  #actions(row) {
    const cell = make("td", "cy-run-actions");
    const going = row.entry && !library.isSettled(row.entry);
    if (row.origin === "linked") cell.append(this.#button("keep", "Keep", () => library.adopt(row.entry)));
    if (row.origin !== "recorded") cell.append(this.#button("rename", "Rename", () => this.#rename(row)));
    cell.append(this.#button("share", "Share\u2026", () => this.#share(row)));
    if (row.origin !== "recorded") cell.append(this.#button("delete", "Delete", () => this.#delete(row)));
    if (going) for (const button of cell.querySelectorAll("button")) button.disabled = true;
    return cell;
  }

  #button(action, label, act, classes = "cy-button") {
    const button = make("button", classes, label);
    button.type = "button";
    button.dataset.action = action;
    button.onclick = act;
    return button;
  }

  // Shows a run in Explore and gives its view; null where the run is gone.
  async #open(row) {
    const entry = await library.find(row.key).catch(() => null);
    if (!entry) return void note("This run is no longer in this browser.", { hint: "Import its file, if you have it.", kind: "warning" });
    const explore = await window.canopy.showTab("explore");
    if (explore.log !== entry.log) explore.open(entry.log);
    return explore;
  }

  async #share(row) {
    if (await this.#open(row)) window.canopy.share.open();
  }

  #rename(row) {
    const line = this.part.rows.querySelector(`[data-run="${CSS.escape(row.key)}"]`);
    const input = make("input", "cy-run-input");
    input.value = row.name;
    input.maxLength = 120;
    input.setAttribute("aria-label", "Name of the run");
    line.querySelector(".cy-run-name").replaceWith(input);
    this.renaming = row.key;
    let keep = true;
    input.onkeydown = (event) => {
      if (event.key === "Escape") keep = false;
      if (event.key === "Enter" || event.key === "Escape") input.blur();
    };
    input.onblur = async () => {
      this.renaming = null;
      const name = input.value.trim();
      if (keep && name && name !== row.name) await library.rename(row.key, name);
      this.render();
    };
    input.focus();
    input.select();
  }

  async #delete(row) {
    const { explore } = window.canopy;
    const shown = row.entry && explore.log === row.entry.log;
    const { restore, forget } = await library.remove(row);
    if (shown) library.find("welcome").then((entry) => entry && explore.open(entry.log), () => {});
    let undone = false;
    note(`\u201c${prose(row.name)}\u201d is deleted.`, { actions: { Undo: () => { undone = true; restore(); } },
      onClose: () => { if (!undone) forget(); } });
  }

  async #askToClear() {
    const rows = (await library.rows()).filter((row) => row.origin !== "recorded");
    write(this.part.sureText, `${plural(rows.length, "run")} will be gone from this browser, and the links to them from the server. This cannot be undone.`);
    this.part.sure.returnValue = "no";
    this.part.sure.showModal();
  }
}

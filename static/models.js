// The Models tab: what is loaded and what it takes, what a pair would be, and loading it.

import { make, parts, write } from "./dom.js";
import { EventStream } from "./event_stream.js";
import { bytes, count, plural, prose } from "./glyphs.js";

const EVERY_MS = 3000;
const FETCHED = /: ([\d,]+) of ([\d,]+) MB/;

export class Models {
  constructor({ element, props, server, watch }) {
    this.element = element;
    this.server = server;
    this.part = parts(element);
    this.stream = new EventStream((events) => events.forEach((event) => this.#happened(event)));
    const { part } = this;
    part.noticeClose.onclick = () => { part.notice.hidden = true; };
    part.unloadAll.onclick = () => this.#unload(this.target);
    part.use.onclick = () => this.#use();
    this.mayLoad = false;
    this.loading = false;
    watch("value", () => this.receive(props.value));
    this.refresh();
    setInterval(() => this.visible && this.refresh(), EVERY_MS);
  }

  get visible() {
    return document.visibilityState === "visible" && this.element.offsetParent !== null;
  }

  // ---- what comes from the server -------------------------------------------------------------------------------

  async refresh() {
    try {
      this.#answer(await this.server.state(null));
    } catch {
      write(this.part.held, "The server does not answer.");
    }
  }

  async #unload(name) {
    try {
      this.#answer(await this.server.unload(name));
    } catch {
      this.#notice("The server does not answer.", "See whether it still runs, then try again.");
    }
  }

  #answer(said) {
    if (said?.error) this.#notice(said.error, said.hint);
    else this.receive(said);
  }

  // A message is {state}, {survey} or, of a loading under way, {run, first, events}.
  receive(text) {
    if (!text) return;
    const message = JSON.parse(text);
    if (message.state) this.#showState(message.state);
    else if (message.survey) this.#showSurvey(message.survey);
    else if (message.run === this.stream.ticket) this.stream.receive(text);
  }

  #happened(event) {
    if (event.kind === "status") {
      this.#doing(event.text);
    } else if (event.kind === "error") {
      this.#doing("Not loaded");
      this.#notice(event.message, event.hint);
    } else if (event.kind === "loaded") {
      this.loaded = [event.target, event.drafter];
      this.#showSurvey(event);
      this.#doing("Loaded: it is among Explore\u2019s choices now");
      this.part.use.hidden = false;
      window.canopy.explore?.choose(...this.loaded);
    }
  }

  // ---- the buttons, as the glue in Python calls them ------------------------------------------------------------

  looking() {
    const { part } = this;
    part.notice.hidden = part.use.hidden = part.refusals.hidden = part.saidNothing.hidden = true;
    part.said.replaceChildren();
    this.#doing("Looking at what it is\u2026");
  }

  begin() {
    this.looking();
    this.#buttons(true);
    return this.stream.begin();
  }

  stopping() {
    if (this.stream.ticket) this.#doing("Stopping\u2026");
    return this.stream.ticket ?? "";
  }

  async ended() {
    this.#buttons(false);
    try {
      await this.stream.ended();
    } catch { /* the refresh below says so */ }
    if (/\u2026$|^Fetching|^Your turn|^Waiting/.test(this.part.doing.textContent)) this.#doing("Stopped");
    this.refresh();
  }

  #buttons(loading = this.loading) {
    this.loading = loading;
    for (const [id, off] of [["load", loading], ["look", loading], ["stop", !loading]]) {
      const button = document.querySelector("#cy-models-" + id); // Gradio may draw it later than this tab's view
      if (button) button.disabled = !this.mayLoad || off;
    }
  }

  #use() {
    window.canopy.showTab("explore").then((explore) => explore.choose(...this.loaded));
  }

  // ---- what is shown --------------------------------------------------------------------------------------------

  #notice(message, hint) {
    const { part } = this;
    write(part.noticeMessage, prose(message));
    write(part.noticeHint, prose(hint ?? ""));
    part.notice.hidden = false;
    part.notice.scrollIntoView({ block: "nearest" });
  }

  #doing(text) {
    const fetched = FETCHED.exec(text)?.slice(1).map((figure) => Number(figure.replaceAll(",", "")));
    this.part.progress.value = fetched ? fetched[0] / fetched[1] : 0;
    this.part.progress.classList.toggle("cy-on", Boolean(fetched));
    write(this.part.doing, prose(text));
  }

  #showSurvey(found) {
    const { part } = this;
    if (found.error) {
      this.#doing("Cannot be loaded");
      this.#notice(found.error, found.hint);
      return;
    }
    this.#doing("Can be loaded");
    part.said.replaceChildren(...found.said.map((sentence) => make("li", "", prose(sentence))));
    part.refusals.hidden = !found.refuses.length;
    write(part.refusalsCount, plural(found.refuses.length, "strategy").replace("strategys", "strategies") + " it does not fit, and why");
    part.refuses.replaceChildren(...found.refuses.flatMap(([title, reason]) =>
      [make("dt", "", prose(title)), make("dd", "", prose(reason))]));
  }

  #showState({ loaded, memory, queue, versions, limits }) {
    const { part } = this;
    this.target = loaded.find((item) => item.role === "target")?.id;
    this.mayLoad = limits.loading;
    this.#buttons();
    part.unloadAll.disabled = !this.target || !limits.loading;
    const free = memory.free === null ? "" : ` \u00b7 ${bytes(memory.free)} can be had`;
    write(part.held, `${bytes(memory.held)} held by this process on ${memory.device}${free}`);
    this.#showShare(loaded, memory);
    part.empty.hidden = loaded.length > 0;
    write(part.empty, "Nothing is loaded yet: the first run loads what it needs" + (limits.loading ? ", or load a pair here." : "."));
    part.pair.hidden = !limits.loading; // the panel's other half says why
    part.rows.replaceChildren(...loaded.map((item) => this.#row(item, limits.loading)));
    const waiting = Math.max(0, queue.length - 1);
    write(part.queue, queue.length ? `a run has the device, ${waiting} waiting` : "the device is free");
    const facts = Object.entries(versions);
    if (queue.stepping) facts.unshift(["stepping", plural(queue.stepping, "run") + " between two rounds"]);
    part.server.replaceChildren(...facts.flatMap(([name, text]) => [make("dt", "", prose(name)), make("dd", "", prose(text))]));
  }

  #row(item, mayUnload) {
    const row = document.createElement("tr");
    const cell = (title, text, classes = "") => {
      const made = make("td", classes, prose(text));
      made.dataset.title = title;
      return made;
    };
    const name = make("th", "", prose(item.id));
    name.scope = "row";
    name.title = prose(item.id);
    const place = [item.device, item.dtype].filter(Boolean).join(" ");
    const on = cell("Runs on", place);
    on.title = prose(item.note);
    const unload = make("button", "cy-button", "Unload");
    unload.type = "button";
    unload.disabled = !mayUnload;
    unload.setAttribute("aria-label", "Unload " + prose(item.id));
    unload.onclick = () => this.#unload(item.id);
    const last = document.createElement("td");
    last.append(unload);
    row.append(name, cell("Part", item.role), cell("Parameters", item.parameters ? count(item.parameters) : "none", "cy-figure"),
      cell("Memory", bytes(item.bytes), "cy-figure"), on,
      cell("Layers by", item.parameters ? (item.kernels ? "Canopy\u2019s kernels" : "transformers, torch") : "no network"),
      cell("Since", new Date(item.since).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })), last);
    return row;
  }

  // One bar: each part, the rest of what the process holds, what can be had.
  #showShare(loaded, memory) {
    const known = loaded.reduce((sum, item) => sum + item.bytes, 0);
    const shares = [...loaded.map((item) => [item.id, item.bytes, "cy-memory-" + item.role.replace(" ", "-")]),
      ["the rest of this process", Math.max(0, memory.held - known), "cy-memory-rest"],
      ...(memory.free === null ? [] : [["can be had", memory.free, "cy-memory-free"]])];
    this.part.share.replaceChildren(...shares.filter(([, size]) => size > 0).map(([name, size, classes]) => {
      const piece = make("span", classes);
      piece.style.flexGrow = size;
      piece.title = prose(name) + ": " + bytes(size);
      return piece;
    }));
    this.part.share.setAttribute("aria-label", "Memory: " + shares.map(([name, size]) => prose(name) + " " + bytes(size)).join(", "));
  }
}

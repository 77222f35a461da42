// The page: one run log on show, and the panes that look at it. All rounds live here, so scrubbing asks no server.

import { parts, write } from "./dom.js";
import { prose } from "./glyphs.js";
import { NodePanel } from "./node_panel.js";
import { Strip, buildStages, showFigures, showRound } from "./readouts.js";
import { RunLog } from "./run_log.js";
import { TextPane } from "./text_pane.js";
import { TreeView } from "./tree_view.js";
import { listenToKeys } from "./keys.js";

const FINISH = { end: "finished", length: "reached its length", context: "filled the context", interrupted: "stopped" };
const LEDE = "A recorded run: the drafter guesses a tree, the target checks it in one pass and keeps the path it agrees with.";

const recorded = fetch(new URL("traces/welcome.jsonl", import.meta.url));
recorded.catch(() => {}); // reported where it is used

class Explore {
  constructor({ element, props, server, watch }) {
    this.part = parts(element);
    this.server = server;
    this.current = -1;
    this.following = true;
    this.ticket = null;
    this.log = null;
    const { part } = this;
    buildStages(part);
    this.tree = new TreeView(part.canvasHost, { onSelect: (node) => this.select(node) });
    this.node = new NodePanel(part);
    this.text = new TextPane(part.output, (round) => this.scrub(round));
    this.strip = new Strip(part.strip, part.slider);
    this.#wire();
    watch("value", () => this.receive(props.value));
    this.#showRecorded();
  }

  // The first thing to see: a run that ships with the page, so that no model is needed.
  async #showRecorded() {
    try {
      const answer = await recorded;
      if (!answer.ok) throw new Error("status " + answer.status);
      const lines = (await answer.text()).split("\n").filter((line) => line.trim());
      if (!this.ticket) this.receive(JSON.stringify({ run: "recorded", first: 0, events: lines.map((line) => JSON.parse(line)) }));
    } catch (error) {
      this.#notice({ kind: "error", message: "The recorded run cannot be shown (" + error.message + ").",
        hint: "Runs of your own work all the same." });
      this.status("No recorded run", "idle");
    }
  }

  #wire() {
    const { part } = this;
    part.previous.onclick = () => this.scrub(this.current - 1);
    part.next.onclick = () => this.scrub(this.current + 1);
    part.play.onclick = () => this.togglePlay();
    part.fit.onclick = () => this.tree.fit();
    part.focus.onclick = () => this.tree.fit(true);
    part.slider.oninput = () => this.scrub(Number(part.slider.value));
    part.noticeClose.onclick = () => { part.notice.hidden = true; };
    part.noticeRetry.onclick = () => { part.notice.hidden = true; document.querySelector("#cy-run")?.click(); };
    part.own.onclick = () => {
      const prompt = document.querySelector("#cy-prompt textarea");
      prompt?.scrollIntoView({ block: "center", behavior: "smooth" });
      prompt?.focus({ preventScroll: true });
      prompt?.select();
    };
    new MutationObserver(() => this.#retheme()).observe(document.body, { attributeFilter: ["class"] });
  }

  #retheme() {
    this.tree.readColours();
    this.tree.draw();
    this.strip.readColours();
    this.strip.draw();
  }

  // ---- what comes from the server -------------------------------------------------------------------------------

  // A message is {run, first, events}: events number `first` onwards of that run. Updates that come too fast may
  // overtake each other on the way to this component; a gap is then fetched by number.
  receive(text) {
    if (!text) return;
    const message = JSON.parse(text);
    const wanted = this.ticket ?? message.run;
    if (message.run !== wanted) return;
    if (this.incoming?.id !== message.run) this.incoming = new RunLog(message.run);
    const log = this.incoming;
    if (message.first > log.received) return void this.#fetchGap(log).catch(() => {}); // asked again at the end
    for (const event of message.events.slice(Math.max(0, log.received - message.first))) {
      log.add(event);
      this.#notice(event);
    }
    if (log.header && this.log !== log) this.#adopt(log);
    if (this.log === log) this.#grown();
  }

  // One question at a time; whoever asks meanwhile gets the same answer.
  #fetchGap(log) {
    this.fetching ??= this.server.events_from([log.id, log.received]).then((text) => {
      this.fetching = null;
      if (this.incoming === log) this.receive(text);
    }, (error) => {
      this.fetching = null;
      throw error;
    });
    return this.fetching;
  }

  #notice(event) {
    const { part } = this;
    if (event.kind === "status") this.status(event.text, "busy");
    else if (event.kind === "header") this.status("Running\u2026", "busy");
    else if (event.kind === "error") {
      write(part.noticeMessage, prose(event.message));
      write(part.noticeHint, prose(event.hint ?? ""));
      part.notice.hidden = false;
      part.notice.scrollIntoView({ block: "nearest" });
      this.status("The run failed", "failed");
    } else if (event.kind === "summary" && this.ticket) {
      this.status("Run " + (FINISH[event.finish] ?? event.finish), "ready");
    }
  }

  #adopt(log) {
    this.log = log;
    this.current = -1;
    this.following = log.id !== "recorded";
    this.tree.moved = false;
    this.text.reset();
    const { header } = log;
    const { part } = this;
    write(part.prompt, prose(header.prompt ?? ""));
    write(part.promptLine, "Prompt: " + prose(header.prompt ?? "").replace(/\s+/g, " "));
    write(part.lede, log.id === "recorded" ? LEDE : "Your run: the drafter guesses a tree, the target checks it in one pass and keeps the path it agrees with.");
    part.own.hidden = log.id !== "recorded";
    const names = [header.target, header.drafter, header.strategy].filter((name) => name && name !== "none");
    const device = document.querySelector("#cy-device");
    if (device) write(device, names.join(" + ") + " \u00b7 " + header.device + " " + header.dtype);
    if (log.id === "recorded") this.status("Recorded run, no model loaded", "idle");
  }

  // New rounds have come: follow them unless the user has gone elsewhere.
  #grown() {
    const { log, part } = this;
    const last = log.rounds.length - 1;
    part.slider.max = Math.max(0, last);
    write(part.count, last < 0 ? "\u2013" : String(last + 1));
    this.text.extend(log);
    showFigures(part, log);
    if (last < 0) return this.#render();
    const target = this.following ? last : this.current < 0 ? mostAccepted(log.rounds) : this.current;
    if (target !== this.current) this.#goto(target);
    else this.strip.show(log, this.current);
  }

  // ---- scrubbing ------------------------------------------------------------------------------------------------

  scrub(index) {
    const last = (this.log?.rounds.length ?? 0) - 1;
    if (last < 0) return;
    const to = Math.min(last, Math.max(0, index));
    this.following = to === last && Boolean(this.ticket);
    if (to !== this.current) this.#goto(to);
  }

  #goto(index) {
    this.current = index;
    this.selected = null;
    this.#render();
  }

  #render() {
    const { log, part } = this;
    const round = log.rounds[this.current] ?? null;
    part.blank.hidden = Boolean(round);
    write(part.blank, round ? "" : "The first round is on its way\u2026");
    write(part.position, round ? String(this.current + 1) : "\u2013");
    part.slider.value = Math.max(0, this.current);
    part.slider.setAttribute("aria-valuetext", `round ${this.current + 1} of ${log.rounds.length}`);
    this.tree.show(round, (token) => log.label(token), log.deepest);
    showRound(part, round);
    this.text.mark(this.current);
    this.strip.show(log, this.current);
    this.#renderNode();
    this.#describe(round);
  }

  #renderNode() {
    const round = this.log?.rounds[this.current] ?? null;
    this.node.show(round, this.selected ?? round?.end ?? 0, (token) => this.log.label(token), this.selected !== null);
  }

  #describe() {
    const text = this.tree.summary(this.current + 1, this.log.rounds.length);
    this.tree.canvas.setAttribute("aria-label", text);
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => write(this.part.live, text), 500);
  }

  select(node) {
    this.selected = node;
    this.tree.select(node);
    this.#renderNode();
    if (node !== null) write(this.part.live, this.tree.describe(node).map((pair) => pair.join(" ")).join(", "));
  }

  // Along the accepted path, the bonus at its end.
  walk(step) {
    const round = this.log?.rounds[this.current];
    if (!round) return;
    const stops = [...round.path, ...(round.bonus ? [round.tree.token.length] : [])];
    const place = stops.indexOf(this.selected ?? round.end);
    this.select(stops[Math.min(stops.length - 1, Math.max(0, (place < 0 ? 0 : place) + step))]);
  }

  togglePlay(on = !this.playing) {
    clearTimeout(this.playing);
    this.playing = null;
    this.part.play.classList.toggle("cy-playing", on);
    this.part.play.setAttribute("aria-label", on ? "Pause" : "Play");
    if (!on || !this.log?.rounds.length) return;
    if (this.current >= this.log.rounds.length - 1) this.scrub(0);
    const tick = () => {
      if (this.current >= this.log.rounds.length - 1) return this.togglePlay(false);
      this.scrub(this.current + 1);
      this.playing = setTimeout(tick, 900 / Number(this.part.playSpeed.value));
    };
    this.playing = setTimeout(tick, 450 / Number(this.part.playSpeed.value));
  }

  // ---- a run, as the buttons see it -----------------------------------------------------------------------------

  status(text, state) {
    for (const element of document.querySelectorAll("[data-cy-status]")) {
      write(element, prose(text));
      element.dataset.state = state;
    }
  }

  begin() {
    this.ticket = crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
    this.togglePlay(false);
    this.part.notice.hidden = true;
    document.body.classList.add("cy-running");
    this.status("Waiting for the device\u2026", "busy");
    if (matchMedia("(max-width: 900px)").matches) this.part.canvasHost.scrollIntoView({ block: "start", behavior: "smooth" });
    return this.ticket;
  }

  stopping() {
    this.status("Stopping after this round\u2026", "busy");
    return this.ticket ?? "";
  }

  // The stream is over, for whatever reason: fetch what is missing, and say so where the server is gone.
  async ended() {
    document.body.classList.remove("cy-running");
    if (this.incoming?.id !== this.ticket) this.incoming = new RunLog(this.ticket);
    try {
      await this.fetching?.catch(() => {});
      await this.#fetchGap(this.incoming);
    } catch {
      this.#notice({ kind: "error", message: "The server does not answer.",
        hint: "What has come so far stays here. See whether the server still runs, then try again." });
    }
    if (document.querySelector("[data-cy-status]")?.dataset.state === "busy") this.status("Stopped", "idle");
  }
}

// Where a recorded run opens: the round that went furthest says most.
function mostAccepted(rounds) {
  return rounds.reduce((best, round, index) => (round.accepted > rounds[best].accepted ? index : best), 0);
}

function toggleTheme() {
  const dark = document.body.classList.toggle("dark");
  try { localStorage.setItem("canopy-theme", dark ? "dark" : "light"); } catch { /* a private window has no storage */ }
}

function restoreTheme() {
  let wanted = null;
  try { wanted = localStorage.getItem("canopy-theme"); } catch { /* as above */ }
  if (wanted && !new URLSearchParams(location.search).has("__theme")) document.body.classList.toggle("dark", wanted === "dark");
}

function mount(handles) {
  restoreTheme();
  const explore = new Explore(handles);
  listenToKeys(explore);
  document.addEventListener("click", (event) => {
    if (event.target.closest("#cy-theme")) toggleTheme();
    if (event.target.closest("#cy-help")) explore.part.keys.showModal();
  });
  // What the buttons' glue in Python calls: see panels/explore.py.
  window.canopy = { begin: () => explore.begin(), stopping: () => explore.stopping(), ended: () => explore.ended(), explore };
}

// Components announce themselves in a queue (js_on_load), whichever of page and component is ready first.
const queue = (window.canopyMounts ??= []);
queue.splice(0).forEach(mount);
queue.push = (handles) => mount(handles);

// The Explore tab: one run log on show, and the panes that look at it. All rounds live here, so scrubbing asks no server.

import { Charts } from "./charts/charts.js";
import { DecisionPane } from "./decision_pane.js";
import { onThemeChange, parts, write } from "./dom.js";
import { EventStream, PAUSE_MS } from "./event_stream.js";
import { prose } from "./glyphs.js";
import { listenToKeys } from "./keys.js";
import { NodePanel } from "./node_panel.js";
import { openFirst } from "./opening.js";
import { OriginPane } from "./origin_pane.js";
import { PromptPane } from "./prompt_pane.js";
import { Strip, buildStages, showFigures, showRound } from "./readouts.js";
import { RunButtons } from "./run_buttons.js";
import { RunLog } from "./run_log.js";
import { SettingsMarks } from "./settings.js";
import { shelf } from "./shelf.js";
import { TextPane } from "./text_pane.js";
import { TreeView } from "./tree_view.js";
import { standing, stepFrom } from "./tree_walk.js";
import { ViewSwitch } from "./views/switch.js";

const LARGE = 400; // nodes
const FINISH = { end: "finished", length: "reached its length", context: "filled the context", interrupted: "stopped" };
const LEDE = "A recorded run: the drafter guesses a tree, the target checks it in one pass and keeps the path it agrees with.";

// Events for panes that live beside it: `run` another run is on show, `rounds` it has grown, `round` another of its
// rounds is on show, `node` another node is selected (null: none), `view` another view of the round. All of them can be
// read from `log`, `current`, `selected`, `view`. `supposed`: another tree than the recorded one stands in its place, or
// no longer does; see `round`.
export class Explore extends EventTarget {
  constructor({ element, props, server, watch }) {
    super();
    this.part = parts(element);
    this.server = server;
    this.current = -1;
    this.following = true;
    this.renders = 0;
    this.stream = new EventStream((events, run) => this.#deal(events, run));
    this.log = null;
    const { part } = this;
    buildStages(part);
    this.tree = new TreeView(part.canvasHost, { onSelect: (node) => this.select(node) });
    this.node = new NodePanel(part);
    this.prompt = new PromptPane(part.prompt, part.promptLine);
    this.text = new TextPane(part.output, (round) => this.scrub(round));
    this.strip = new Strip(part.strip, part.slider);
    this.buttons = new RunButtons({ step: () => this.step(), proceed: () => this.proceed() });
    this.views = new ViewSwitch(this);
    new DecisionPane(this);
    new OriginPane(this);
    this.charts = new Charts(part.charts, this);
    this.settings = new SettingsMarks(JSON.parse(props.defaults));
    this.#wire();
    listenToKeys(this);
    watch("value", () => this.receive(props.value));
    this.ready = this.#showFirst();
  }

  async #showFirst() {
    try {
      await openFirst(this);
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
    onThemeChange(() => this.#retheme());
  }

  // The round on show: the recorded one, or what `suppose` has put in its place.
  get round() {
    return this.supposed ?? this.log?.rounds[this.current] ?? null;
  }

  // Shows another tree in the recorded one's place until the round changes; null brings the recorded one back.
  suppose(round, columns = 1) {
    this.supposed = round;
    this.selected = null;
    this.tree.show(this.round, (token) => this.log.label(token), Math.max(this.log.deepest, columns));
    this.#renderNode();
    this.#describe();
    this.#tell("supposed");
  }

  // The visitor's own run, null before the first.
  get ticket() {
    return this.stream.ticket;
  }

  // Whether its tab is the one on show.
  get visible() {
    return this.part.slider.offsetParent !== null;
  }

  #retheme() {
    this.tree.readColours();
    this.tree.draw();
    this.strip.readColours();
    this.strip.draw();
  }

  // ---- what comes from the server -------------------------------------------------------------------------------

  receive(text) {
    this.stream.receive(text);
  }

  #deal(events, run) {
    if (this.incoming?.id !== run) this.incoming = new RunLog(run);
    const log = this.incoming;
    const known = Boolean(log.header);
    for (const event of events) {
      log.add(event);
      this.#notice(event);
    }
    if (log.header && !known) this.#adopt(log); // once: the visitor may look at another run meanwhile
    if (this.log === log) this.#grown();
  }

  #notice(event) {
    const { part } = this;
    if (event.kind === "status") {
      this.status(event.text[0].toUpperCase() + event.text.slice(1), event.waiting ? "ready" : "busy");
      if (event.waiting && this.ticket) this.buttons.show("waiting");
    } else if (event.kind === "header") this.status("Running\u2026", "busy");
    else if (event.kind === "error") {
      write(part.noticeMessage, prose(event.message));
      write(part.noticeHint, prose(event.hint ?? ""));
      part.notice.hidden = false;
      part.notice.scrollIntoView({ block: "nearest" });
      this.status("The run failed", "failed");
    } else if (event.kind === "summary" && this.ticket) {
      this.status("Run " + (FINISH[event.finish] ?? event.finish), "ready");
    }
    if (event.kind === "round") this.part.busy.hidden = true;
  }

  // Shows a run: one of this browser's own that is still coming in, or any other, at `round` or where it says most.
  open(log, round = -1) {
    this.#adopt(log);
    this.current = Math.min(round, log.rounds.length - 1);
    this.#grown(true);
  }

  #adopt(log) {
    const following = log.id === this.ticket;
    const own = following || shelf.of(log)?.origin === "own";
    if (following) shelf.add(log, prose(log.header.prompt ?? "").slice(0, 60), "own");
    this.log = log;
    this.current = -1;
    this.following = following;
    this.tree.moved = false;
    this.text.reset();
    const { header } = log;
    const { part } = this;
    this.prompt.show(header.prompt ?? "");
    write(part.lede, !own ? LEDE : "Your run: the drafter guesses a tree, the target checks it in one pass and keeps the path it agrees with.");
    part.own.hidden = own;
    const names = [header.target, header.drafter, header.strategy].filter((name) => name && name !== "none");
    const device = document.querySelector("#cy-device");
    if (device) write(device, names.join(" + ") + " \u00b7 " + header.device + " " + header.dtype);
    if (!following) this.status(own ? "A run of yours" : "Recorded run, no model loaded", "idle");
    this.#tell("run");
  }

  // New rounds have come: follow them unless the user has gone elsewhere.
  #grown(fresh = false) {
    const { log, part } = this;
    const last = log.rounds.length - 1;
    part.slider.max = Math.max(0, last);
    write(part.count, last < 0 ? "\u2013" : String(last + 1));
    part.position.style.width = String(last + 1).length + "ch";
    this.text.extend(log);
    showFigures(part, log);
    this.#tell("rounds");
    if (last < 0) return this.#render();
    const target = this.following ? last : this.current < 0 ? mostAccepted(log.rounds) : this.current;
    if (fresh || target !== this.current) this.#goto(target);
    else this.strip.show(log);
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
    this.supposed = null;
    part.blank.hidden = Boolean(round);
    write(part.blank, round ? "" : log.summary ? "This run ended before its first round."
      : "The first round is on its way\u2026");
    write(part.position, round ? String(this.current + 1) : "\u2013");
    part.slider.value = Math.max(0, this.current);
    part.slider.setAttribute("aria-valuetext", `round ${this.current + 1} of ${log.rounds.length}`);
    this.tree.show(round, (token) => log.label(token), log.deepest);
    this.renders += 1;
    if (!(round?.tree.token.length > LARGE)) return this.#renderAround();
    // A large tree takes most of a frame to paint: what stands around it follows in the next, if it is still on show.
    const own = this.renders;
    requestAnimationFrame(() => setTimeout(() => { if (own === this.renders) this.#renderAround(); }));
  }

  #renderAround() {
    showRound(this.part, this.log.rounds[this.current] ?? null);
    this.text.mark(this.current);
    this.strip.show(this.log);
    this.#renderNode();
    this.#describe();
    this.#tell("round");
  }

  #tell(event) {
    this.dispatchEvent(new Event(event));
  }

  #renderNode() {
    const { round } = this;
    this.node.show(round, this.selected ?? round?.end ?? 0, (token) => this.log.label(token), this.selected !== null);
  }

  #describe() {
    const text = this.tree.summary(this.current + 1, this.log.rounds.length);
    this.tree.canvas.setAttribute("aria-label", text);
    clearTimeout(this.speaking);
    const rest = this.stream.live && this.following ? 3 * PAUSE_MS : 500; // of rounds that come in only the last is told
    this.speaking = setTimeout(() => write(this.part.live, text), rest);
  }

  select(node) {
    this.selected = node;
    this.tree.select(node);
    this.#renderNode();
    this.#tell("node");
    if (node === null) return;
    const facts = this.tree.describe(node).map((pair) => pair.join(" ").trim());
    clearTimeout(this.speaking); // what was to be said of the round would now speak over the node
    write(this.part.live, [...facts, standing(this.tree.round, node)].join(", "));
  }

  // In the tree from the selected node, or from where the draft ended: to parent, child, previous or next sibling.
  stepTo(direction) {
    const { round } = this;
    if (round) this.select(stepFrom(round, this.selected ?? round.end, direction));
  }

  // tree, mass, marginals, mask or table.
  get view() {
    return this.views.name;
  }

  showView(name) {
    if (this.views.choose(name)) this.#tell("view");
  }

  // Along the accepted path, the bonus at its end.
  walk(step) {
    const { round } = this;
    if (!round) return;
    const stops = [...round.path, ...(round.bonus ? [round.tree.token.length] : [])];
    const place = stops.indexOf(this.selected ?? round.end);
    this.select(stops[Math.min(stops.length - 1, Math.max(0, (place < 0 ? 0 : place) + step))]);
  }

  // To the next node that the target rejected, from top to bottom and round again.
  walkRejected(step) {
    const round = this.log?.rounds[this.current];
    const { row } = this.tree.plan ?? {};
    if (!round || !row) return;
    const stops = round.fate.flatMap((fate, node) => (fate === "rejected" ? [node] : [])).sort((a, b) => row[a] - row[b]);
    if (!stops.length) return void write(this.part.live, "No node was rejected in this round.");
    const place = stops.indexOf(this.selected);
    this.select(stops[place < 0 ? (step > 0 ? 0 : stops.length - 1) : (place + step + stops.length) % stops.length]);
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
      if (!element.classList.contains("cy-dot")) write(element, prose(text));
      element.dataset.state = state;
    }
    const { busy } = this.part;
    busy.hidden = state !== "busy" || (this.log?.id === this.ticket && this.log.rounds.length > 0 && !this.log.summary);
    write(busy, prose(text));
  }

  begin() {
    this.stream.begin();
    this.togglePlay(false);
    this.part.notice.hidden = true;
    this.buttons.show("running");
    this.status("Waiting for the device\u2026", "busy");
    if (matchMedia("(max-width: 900px)").matches) this.part.canvasHost.scrollIntoView({ block: "start", behavior: "smooth" });
    return this.ticket;
  }

  stopping() {
    if (this.buttons.state !== "idle") this.status("Stopping after this round\u2026", "busy");
    return this.ticket ?? "";
  }

  // One more round of the run that waits, or a halt after the round in hand.
  step() {
    return this.#steer(this.server.step, "One more round\u2026");
  }

  proceed() {
    return this.#steer(this.server.proceed, "Running\u2026");
  }

  async #steer(ask, doing) {
    this.buttons.show("running");
    this.status(doing, "busy");
    try {
      const said = await ask(this.ticket);
      if (said?.error) this.status(said.error + " " + said.hint, "idle");
    } catch {
      this.status("The server does not answer", "failed");
    }
  }

  // What another tab has loaded is chosen here.
  choose(target, drafter) {
    this.chosen = [target, drafter];
    document.querySelector("#cy-refresh")?.click();
  }

  // For the glue in Python: the choosers' values (target, drafter, strategy), the chosen pair in the place of theirs.
  takeChosen(values) {
    const pair = this.chosen ?? [];
    this.chosen = null;
    return [...pair, ...values.slice(pair.length)];
  }

  // The stream is over, for whatever reason: fetch what is missing, and say so where the server is gone.
  async ended() {
    const run = this.ticket;
    try {
      await this.stream.ended();
    } catch {
      this.#notice({ kind: "error", message: "The server does not answer.",
        hint: "What has come so far stays here. See whether the server still runs, then try again." });
    }
    if (run !== this.ticket) return;
    this.buttons.show("idle");
    if (document.querySelector("[data-cy-status]")?.dataset.state === "busy") this.status("Stopped", "idle");
  }
}

// Where a recorded run opens: the round that went furthest says most.
function mostAccepted(rounds) {
  return rounds.reduce((best, round, index) => (round.accepted > rounds[best].accepted ? index : best), 0);
}

// The Compare tab: several ways to decode one prompt, run one after another by the server, set side by side here. It opens
// on a recorded comparison, so that there is something to see before any model is loaded.

import { Setup } from "./compare_setup.js";
import { Comparisons } from "./comparisons.js";
import { DifferenceView } from "./difference_view.js";
import { parts, write } from "./dom.js";
import { EventStream } from "./event_stream.js";
import { prose } from "./glyphs.js";
import { listen } from "./keys.js";
import { Lane, PLAIN } from "./lanes.js";
import { LinkedTrees } from "./linked_trees.js";
import { showMetrics } from "./metrics_table.js";
import { Race } from "./race.js";
import { RunLog } from "./run_log.js";
import { shelf } from "./shelf.js";

export class Compare {
  constructor({ element, props, server, watch }) {
    const part = (this.part = parts(element));
    this.ran = []; // the lanes of the visitor's run at hand
    this.running = false;
    this.stream = new EventStream((events, run) => this.#deal(events, run));
    const onOpen = (lane, round, node) => this.openInExplore(lane, round, node);
    this.setup = new Setup(part, server, (message, hint) => this.#notice(message, hint));
    this.race = new Race(part, { onOpen, onRound: (lane, round) => this.#lookAt(lane, round) });
    this.trees = new LinkedTrees(part, { onOpen, onMove: () => this.difference?.at(this.trees.position) });
    this.difference = new DifferenceView(part);
    this.comparisons = new Comparisons(part, (comparison) => this.#show(comparison));
    part.run.onclick = part.retry.onclick = () => this.#start();
    part.stop.onclick = () => this.#stop();
    part.dismiss.onclick = () => { part.notice.hidden = true; };
    listen({
      ArrowLeft: () => this.trees.scrub(this.trees.at - 1),
      ArrowRight: () => this.trees.scrub(this.trees.at + 1),
      Home: () => this.trees.scrub(0),
      End: () => this.trees.scrub(Infinity),
      " ": () => this.race.toggle(),
    }, () => this.lanes.length && part.results.offsetParent !== null, part.linkSlider);
    watch("value", () => this.stream.receive(props.value));
    this.comparisons.openRecorded();
  }

  // Those on show.
  get lanes() {
    return this.comparisons.shown?.lanes ?? [];
  }

  // ---- a comparison, as the buttons see it ------------------------------------------------------------------------

  #start() {
    this.part.notice.hidden = true;
    document.querySelector("#cy-compare-run")?.click(); // Gradio streams from its own button only
  }

  // What the server is asked, as one JSON text.
  begin() {
    this.#setRunning(true);
    this.ran = [];
    this.asked = this.setup.value;
    this.#status("Waiting for the device\u2026");
    return JSON.stringify({ ticket: this.stream.begin(), ...this.asked });
  }

  async #stop() {
    this.#status("Stopping after this round\u2026");
    await this.setup.ask("stop", this.stream.ticket);
  }

  // The stream is over, for whatever reason.
  async ended() {
    try {
      await this.stream.ended();
    } catch {
      this.#notice("The server does not answer.", "What has come so far stays here. See whether the server still runs, then try again.");
    }
    this.#setRunning(false);
    const { ran } = this;
    const stopped = ran.some((lane) => lane.log.summary?.finish === "interrupted") || !ran.at(-1)?.log.received;
    const failed = ran.filter((lane) => lane.error).length;
    this.#status(!ran.length ? "Nothing was run" : stopped ? "Stopped" : failed ? `Finished; ${failed} failed` : "Finished");
    this.#refreshOwn();
  }

  #setRunning(on) {
    this.running = on;
    this.part.run.hidden = on;
    this.part.stop.hidden = !on;
  }

  #status(text) {
    write(this.part.status, prose(text));
  }

  #notice(message, hint) {
    const { part } = this;
    write(part.message, prose(message));
    write(part.hint, prose(hint ?? ""));
    part.notice.hidden = false;
    part.notice.scrollIntoView({ block: "nearest" });
  }

  // ---- what comes from the server -----------------------------------------------------------------------------------

  #deal(events, run) {
    for (const { lane: number, ...event } of events) {
      if (event.kind === "lanes") this.#begin(event.lanes, run);
      else if (event.kind === "status") this.#status(event.text);
      else if (number === undefined) this.#notice(event.message ?? "", event.hint);
      else this.#add(this.ran[number], event);
    }
    this.#refreshOwn();
  }

  #begin(abouts, run) {
    this.ran = abouts.map((about, number) => new Lane(number, about, new RunLog(run + "-" + number)));
    this.comparisons.begin(this.ran, this.asked?.prompt ?? "");
    if (matchMedia("(max-width: 900px)").matches) this.part.results.scrollIntoView({ block: "start", behavior: "smooth" });
  }

  #add(lane, event) {
    if (!lane) return;
    lane.add(event);
    if (event.kind !== "header") return;
    const prompt = prose(event.prompt ?? "").slice(0, 40);
    shelf.add(lane.log, `${lane.letter} \u00b7 ${prose(lane.name)} \u00b7 ${prompt}`, "own");
    this.#status(`Running ${lane.letter}, ${lane.name} (${lane.number + 1} of ${this.ran.length})\u2026`);
  }

  // ---- what is on show ------------------------------------------------------------------------------------------------

  #show(comparison) {
    const { lanes } = comparison;
    const ways = lanes.slice(PLAIN + 1);
    this.difference.show(ways);
    this.race.show(lanes, this.running && !comparison.recorded);
    this.trees.show(ways);
    showMetrics(this.part, comparison);
    write(this.part.order, lanes.map((lane) => `${lane.letter} ${prose(lane.name)}`).join(", then "));
  }

  // Events of the visitor's run have come.
  #refreshOwn() {
    const { shown } = this.comparisons;
    if (!this.ran.length || shown.lanes !== this.ran) return;
    this.race.refresh(this.running);
    this.trees.refresh();
    showMetrics(this.part, shown);
  }

  // ---- going places ---------------------------------------------------------------------------------------------------

  // A token in the text of a lane was clicked: the trees go to its round.
  #lookAt(lane, round) {
    this.trees.scrub(this.trees.byText ? lane.starts[round] : round);
  }

  async openInExplore(lane, round = -1, node = null) {
    const explore = await window.canopy.showTab("explore");
    explore.open(lane.log, round);
    if (node !== null) explore.select(node);
  }
}

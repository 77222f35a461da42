// The race: every lane on one time axis, its text growing in the time that was measured. Bars are rounds: as wide as
// the round took, as tall as it gave tokens.

import { make, onThemeChange, write } from "./dom.js";
import { number, plural, prose } from "./glyphs.js";
import { PLAIN } from "./lanes.js";
import { RETRIEVAL } from "./run_log.js";
import { TextPane } from "./text_pane.js";

const seconds = (value) => value.toFixed(value < 10 ? 2 : 1) + " s";
const STEPS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];

// One lane: its head with the badge, the track of its rounds, its text.
class LaneRow {
  constructor(lane, { onOpen, onRound }) {
    this.lane = lane;
    this.shown = 0;
    this.element = make("section", "cy-lane");
    this.element.setAttribute("aria-label", `${lane.letter}, ${lane.name}`);
    const head = make("header", "cy-lane-head");
    this.open = make("button", "cy-lane-open");
    this.open.type = "button";
    this.open.title = "Open this run in Explore";
    this.open.onclick = () => onOpen(lane);
    this.label = make("span", "cy-lane-about");
    this.open.append(make("b", "cy-letter", lane.letter), make("strong", "", prose(lane.name)), this.label);
    this.count = make("span", "cy-lane-count");
    this.badge = make("button", "cy-lossless");
    this.badge.type = "button";
    this.badge.onclick = () => lane.divergence && onOpen(lane, lane.divergence.round, lane.divergence.node);
    head.append(this.open, this.count, this.badge);
    this.canvas = make("canvas", "cy-track");
    this.canvas.setAttribute("aria-hidden", "true");
    this.output = make("div", "cy-output cy-lane-text");
    this.note = make("p", "cy-lane-note");
    this.text = new TextPane(this.output, (round) => onRound(lane, round));
    this.element.append(head, this.canvas, this.output, this.note);
  }

  // What stands in the head and under the text; changes only when events come.
  refresh(plain, running) {
    const { lane } = this;
    this.text.extend(lane.log);
    this.open.disabled = !lane.log.rounds.length;
    write(this.label, aboutLane(lane));
    this.#badge(running);
    write(this.note, this.#said(plain));
    this.note.classList.toggle("cy-failed", Boolean(lane.error));
    this.element.classList.toggle("cy-lane-failed", Boolean(lane.error && !lane.log.header));
  }

  #badge(running) {
    const { lane, badge } = this;
    const lossless = lane.comparison?.lossless;
    const finish = lane.log.summary?.finish;
    const parted = lossless && !lossless.identical;
    const text = lane.error ? "failed" : lane.number === PLAIN ? "the baseline"
      : parted ? `\u2260 parts at token ${lossless.first_divergence + 1}` + marginText(lossless.margin)
        : lossless ? "\u2713 identical to plain decoding"
          : lane.comparison ? "drawn at random: no token-by-token check"
            : finish === "interrupted" ? "stopped: not compared" : finish ? "not compared"
              : !running ? "not run" : lane.log.header ? "running" : "waiting";
    write(badge, text);
    badge.disabled = !lane.divergence;
    badge.title = lane.divergence ? "Open the first divergence in Explore" : "";
    badge.classList.toggle("cy-same", Boolean(lossless?.identical));
    badge.classList.toggle("cy-parted", Boolean(parted || lane.error));
  }

  #said(plain) {
    const { lane } = this;
    if (lane.error) return prose(`${lane.error.message} ${lane.error.hint ?? ""}`);
    const at = lane.divergence;
    if (!at) return "";
    const token = (other) => {
      const id = other.output[at.place];
      return id === undefined ? "nothing" : `\u201c${lane.log.pieces.has(id) ? lane.log.label(id) : plain.log.label(id)}\u201d`;
    };
    return `Token ${at.place + 1}, round ${at.round + 1}: this way wrote ${token(lane)}, plain decoding ${token(plain)}` +
      (at.margin === null ? "." : `; there the target\u2019s two best tokens stood ${at.margin.toPrecision(2)} nats apart.`);
  }

  // Shows what had been written `now` seconds after the request.
  reveal(now) {
    const { lane, text } = this;
    const written = lane.writtenAt(now);
    for (let place = written; place < this.shown; place++) text.spans[place]?.classList.add("cy-later");
    for (let place = this.shown; place < written; place++) text.spans[place]?.classList.remove("cy-later");
    for (let place = Math.max(written, this.known ?? 0); place < text.spans.length; place++) text.spans[place].classList.add("cy-later");
    this.known = text.spans.length;
    this.shown = written;
    const rate = now > lane.prefill ? (written - 1) / (Math.min(now, lane.seconds) - lane.prefill) : null;
    write(this.count, lane.log.header ? `${plural(written, "token")} \u00b7 ${seconds(Math.min(now, lane.seconds))} \u00b7 ${number(rate, 1)} tokens/s` : "");
    const last = text.spans[written - 1];
    if (last) this.output.scrollTop = Math.max(0, last.offsetTop - this.output.offsetTop - this.output.clientHeight + 2 * last.offsetHeight);
  }

  draw(now, end, tallest, colour) {
    const { canvas, lane } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !height) return;
    const pen = sharp(canvas, width, height);
    const x = (time) => (time / end) * (width - 1);
    const unit = (height - 4) / tallest;
    if (lane.log.header) {
      pen.globalAlpha = now >= lane.prefill ? 1 : 0.3;
      pen.fillStyle = colour.edge;
      pen.fillRect(0, height - 3, x(lane.prefill), 2);
    }
    let from = x(lane.prefill);
    lane.log.rounds.forEach((round, index) => {
      const to = x(lane.ends[index]);
      const wide = Math.max(0.6, to - from - (to - from > 3 ? 1 : 0));
      pen.globalAlpha = lane.ends[index] <= now ? 1 : 0.25;
      let y = height - 1;
      for (const [count, name] of blocks(round)) {
        pen.fillStyle = colour[name];
        pen.fillRect(from, y - count * unit, wide, Math.max(0.8, count * unit - (unit > 4 ? 1 : 0)));
        y -= count * unit;
      }
      from = to;
    });
    pen.globalAlpha = 1;
    pen.fillStyle = colour.ink;
    pen.fillRect(Math.min(width - 1.5, x(now)), 0, 1.5, height);
  }
}

function blocks(round) {
  const grafted = round.path.slice(1).filter((node) => round.tree.source[node] === RETRIEVAL).length;
  return [[round.accepted - grafted, "accepted"], [grafted, "retrieval"], [round.emitted.length - round.accepted, "bonus"]]
    .filter(([count]) => count > 0);
}

// What tells a lane from another of the same strategy.
export function aboutLane(lane) {
  const budget = lane.log.header?.settings?.budget ?? lane.about.settings?.budget;
  const others = Object.entries(lane.about.settings ?? {}).filter(([name]) => name !== "budget");
  return prose([budget === undefined ? "" : "budget " + budget, ...others.map(([name, value]) => `${name} ${value}`),
    lane.about.drafter === "None" ? "" : lane.about.drafter ?? ""].filter(Boolean).join(" \u00b7 "));
}

export function marginText(margin) {
  return typeof margin === "number" ? `, margin ${margin.toPrecision(2)}` : "";
}

function sharp(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

export class Race {
  // `on` has onOpen(lane, round?, node?) and onRound(lane, round).
  constructor(part, on) {
    this.part = part;
    this.on = on;
    this.rows = [];
    this.now = 0;
    this.atEnd = true; // follows what comes in
    part.raceSlider.oninput = () => this.#go((Number(part.raceSlider.value) / 1000) * this.end, true);
    part.racePlay.onclick = () => this.toggle();
    this.#readColours();
    onThemeChange(() => { this.#readColours(); this.#draw(); });
    new ResizeObserver(() => this.#draw()).observe(part.raceLanes);
  }

  #readColours() {
    const style = getComputedStyle(this.part.raceLanes);
    this.colour = Object.fromEntries(["accepted", "retrieval", "bonus", "edge", "ink", "muted"]
      .map((name) => [name, style.getPropertyValue("--cy-" + name).trim()]));
    this.font = style.fontFamily;
  }

  show(lanes, running) {
    this.toggle(false);
    this.lanes = lanes;
    this.rows = lanes.map((lane) => new LaneRow(lane, this.on));
    this.part.raceLanes.replaceChildren(...this.rows.map((row) => row.element));
    this.atEnd = true;
    this.refresh(running);
  }

  // Events have come.
  refresh(running) {
    this.end = Math.max(0.001, ...this.lanes.map((lane) => lane.seconds));
    this.tallest = Math.max(4, ...this.lanes.map((lane) => lane.log.longest));
    for (const row of this.rows) row.refresh(this.lanes[PLAIN], running);
    this.#go(this.atEnd && !this.playing ? this.end : Math.min(this.now, this.end));
  }

  #go(time, byHand = false) {
    if (byHand) this.toggle(false);
    this.now = time;
    this.atEnd = time >= this.end;
    const { part } = this;
    part.raceSlider.value = Math.round((1000 * time) / this.end);
    write(part.raceTime, `${seconds(time)} of ${seconds(this.end)}`);
    part.raceSlider.setAttribute("aria-valuetext", `${seconds(time)} of ${seconds(this.end)}`);
    for (const row of this.rows) row.reveal(time);
    this.#draw();
  }

  #draw() {
    if (!this.lanes) return;
    for (const row of this.rows) row.draw(this.now, this.end, this.tallest, this.colour);
    this.#axis();
  }

  #axis() {
    const { clientWidth: width, clientHeight: height } = this.part.raceAxis;
    if (!width) return;
    const pen = sharp(this.part.raceAxis, width, height);
    const step = STEPS.find((value) => (value / this.end) * width > 64) ?? 200;
    pen.font = "11px " + this.font;
    pen.fillStyle = this.colour.muted;
    for (let tick = 0; tick * step <= this.end; tick++) {
      const x = ((tick * step) / this.end) * (width - 1);
      pen.fillRect(x, 0, 1, 4);
      pen.textAlign = tick ? (x > width - 24 ? "right" : "center") : "left";
      pen.fillText(tick ? Number((tick * step).toFixed(2)) + " s" : "request", x, 15);
    }
  }

  // Plays in the time that was measured, times the speed chosen.
  toggle(on = !this.playing) {
    if (this.playing) cancelAnimationFrame(this.playing);
    this.playing = null;
    this.part.racePlay.classList.toggle("cy-playing", on);
    this.part.racePlay.setAttribute("aria-label", on ? "Pause the race" : "Play the race");
    if (!on || !this.lanes) return;
    if (this.atEnd) this.#go(0);
    let before = null;
    const frame = (time) => {
      const passed = before === null ? 0 : (time - before) / 1000;
      before = time;
      this.#go(Math.min(this.end, this.now + passed * Number(this.part.raceSpeed.value)));
      if (this.atEnd) this.toggle(false);
      else this.playing = requestAnimationFrame(frame);
    };
    this.playing = requestAnimationFrame(frame);
  }
}

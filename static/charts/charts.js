// The charts of the run on show in Explore: they follow its events and call nothing in it but `scrub`.

import { make, onThemeChange, write } from "../dom.js";
import { number, percent, plural } from "../glyphs.js";
import { Chart } from "./chart.js";
import { RunSeries, WARM_UP, WINDOW } from "./series.js";

const REDRAW_MS = 1000; // while rounds come in: together with what else they change, which is one frame
const NOTES = {
  tokens: "Dots: new tokens of each round, the bonus included. Line: their mean so far, the papers\u2019 tau.",
  depth: "Bars: accepted among reached nodes, those whose parent was accepted; of several siblings only one can be. "
    + "Lines: rounds that went on, among those that came so far.",
  speed: `Tokens per second over the last ${WINDOW} rounds. The first ${WARM_UP} rounds are warm-up and left out.`,
  speedup: `Tokens per second from round ${WARM_UP + 1} on, over those of plain decoding of the same prompt in the same `
    + "process (all its tokens after the first).",
};

export class Charts {
  constructor(element, explore) {
    this.explore = explore;
    this.element = element;
    const go = (round) => explore.scrub(round);
    this.tokens = new Chart("Tokens per round", NOTES.tokens, go);
    this.depth = new Chart("Acceptance by depth", NOTES.depth, (place) => this.#nextAt(place));
    this.speed = new Chart("Tokens per second", NOTES.speed, go);
    this.speedup = new Chart("Speedup so far", NOTES.speedup, go);
    this.all = [this.tokens, this.depth, this.speed, this.speedup];
    this.#build();
    explore.addEventListener("run", () => this.#begin());
    explore.addEventListener("rounds", () => this.#grown());
    explore.addEventListener("round", () => this.#mark());
    onThemeChange(() => {
      for (const chart of this.all) {
        chart.readColours();
        chart.draw();
      }
    });
    if (explore.log) this.#begin();
  }

  #build() {
    const head = make("header", "cy-head");
    this.verdict = make("p", "cy-chart-verdict");
    this.toggle = make("button", "cy-button", "As tables");
    this.toggle.type = "button";
    this.toggle.setAttribute("aria-pressed", "false");
    this.toggle.onclick = () => this.#asTables(this.toggle.getAttribute("aria-pressed") !== "true");
    head.append(make("h2", "", "The run"), this.verdict, this.toggle);
    const row = make("div", "cy-chart-row");
    row.append(...this.all.map((chart) => chart.element));
    this.element.replaceChildren(head, row);
    this.#asTables(false);
    this.compareButton = make("button", "cy-button", "Compare in the next run");
    this.compareButton.type = "button";
    this.compareButton.onclick = () => this.#compareNext();
  }

  #asTables(on) {
    this.toggle.setAttribute("aria-pressed", String(on));
    write(this.toggle, on ? "As charts" : "As tables");
    for (const chart of this.all) chart.asTable(on);
  }

  #begin() {
    this.series = new RunSeries();
    this.log = this.explore.log;
    this.#grown(true);
  }

  // At once where it is a change of run or the end of one, else where the last drawing is old enough, or will be.
  #grown(now = this.log?.summary) {
    if (now || performance.now() - this.drawn >= REDRAW_MS) return this.#draw();
    this.due ??= setTimeout(() => this.#draw(), 2 * REDRAW_MS);
  }

  #draw() {
    clearTimeout(this.due);
    this.due = null;
    this.drawn = performance.now();
    const { series, log } = this;
    series.extend(log);
    const plain = log.comparison?.baseline?.tokens_per_second ?? null;
    this.tokens.show(this.#tokensSpec());
    this.depth.show(this.#depthSpec());
    this.speed.show(this.#speedSpec(plain));
    this.speedup.show(this.#speedupSpec(plain));
    this.#judge(plain);
    this.#mark();
  }

  #mark() {
    const { current, log } = this.explore;
    if (log !== this.log || current < 0) return;
    if (this.due && this.explore.following) return; // the drawing that is due brings its mark
    for (const chart of [this.tokens, this.speed, this.speedup]) chart.mark(current);
    const { accepted } = log.rounds[current];
    const bar = this.series.byDepth().findIndex(({ depth }) => depth === accepted);
    this.depth.mark(bar < 0 ? null : bar); // while rounds come in, bars come later than marks
  }

  // ---- the four charts --------------------------------------------------------------------------------------------

  #byRound(rest) {
    return { count: this.series.count, names: (i) => String(i + 1), ...rest };
  }

  #tokensSpec() {
    const { series } = this;
    const last = series.count - 1;
    return this.#byRound({
      top: Math.max(2, series.most), ticks: short,
      layers: [{ kind: "dots", value: (i) => series.emitted(i), colour: "draft-line" },
        { kind: "line", value: (i) => series.mean(i), colour: "ink" }],
      read: (i) => `round ${i + 1}: ${plural(series.emitted(i), "token")}, mean ${number(series.mean(i))}`,
      says: last < 0 ? "no rounds yet" : `mean ${number(series.mean(last))} over ${plural(series.count, "round")}`,
      columns: [["round"], ["tokens", (i) => String(series.emitted(i))], ["mean so far", (i) => number(series.mean(i))]],
    });
  }

  #depthSpec() {
    const rows = this.series.byDepth();
    const counts = (i) => `${rows[i].accepted} of ${plural(rows[i].reached, "node")}`;
    return {
      count: rows.length, names: (i) => String(rows[i].depth), top: 1, ticks: (y) => percent(y),
      layers: [{ kind: "bars", value: (i) => rows[i].share, colour: "accepted" },
        { kind: "steps", value: (i) => rows[i].went, colour: "ink" }],
      read: (i) => `depth ${rows[i].depth}: ${percent(rows[i].share)} of nodes, ${percent(rows[i].went)} of rounds`,
      says: rows.map((row) => `depth ${row.depth} ${percent(row.share)}`).join(", ") || "nothing drafted yet",
      columns: [["depth"], ["accepted of reached", counts], ["share", (i) => percent(rows[i].share, 1)],
        ["rounds that went on", (i) => `${rows[i].accepted} of ${rows[i].rounds}`]],
      empty: rows.length ? null : [make("p", "", "Nothing has been drafted in this run.")],
    };
  }

  #speedSpec(plain) {
    const { series } = this;
    const speed = (i) => series.speed(i);
    let top = plain ?? 0;
    for (let i = 0; i < series.count; i++) top = Math.max(top, speed(i) ?? 0);
    const last = series.count ? speed(series.count - 1) : null;
    return this.#byRound({
      top: roundUp(top), ticks: short,
      layers: [{ kind: "line", value: speed, colour: "accent" }],
      levels: plain === null ? [] : [{ value: plain, text: "plain " + number(plain, 1), colour: "muted" }],
      read: (i) => (i < WARM_UP ? `round ${i + 1}: warm-up, left out` : `round ${i + 1}: ${number(speed(i), 1)} tokens/s`),
      says: `${number(last, 1)} at the end` + (plain === null ? ", not compared" : `, plain decoding ${number(plain, 1)}`),
      columns: [["round"], ["tokens/s", (i) => number(speed(i), 1)], ["plain", () => number(plain, 1)]],
    });
  }

  #speedupSpec(plain) {
    const { series } = this;
    const speedup = (i) => series.speedup(i, plain);
    let top = 1.2;
    for (let i = WARM_UP; i < series.count; i++) top = Math.max(top, speedup(i) ?? 0);
    const end = series.count ? speedup(series.count - 1) : null;
    return this.#byRound({
      top: roundUp(top * 2) / 2, ticks: (y) => short(y) + "\u00d7",
      layers: [{ kind: "line", value: speedup, colour: end !== null && end < 1 ? "warn" : "accepted-ink" }],
      levels: [{ value: 1, text: "plain decoding", colour: "muted" }],
      read: (i) => (i < WARM_UP ? `round ${i + 1}: warm-up, left out`
        : speedup(i) === null ? "" : `up to round ${i + 1}: ${number(speedup(i))}\u00d7`),
      says: end === null ? "not compared" : `${number(end)} times plain decoding at the end`,
      columns: [["round"], ["speedup so far", (i) => number(speedup(i)) + (speedup(i) === null ? "" : "\u00d7")]],
      empty: plain === null ? this.#notCompared() : end === null ? [make("p", "", "Too few rounds to tell.")] : null,
    });
  }

  // ---- states -----------------------------------------------------------------------------------------------------

  #notCompared() {
    const running = document.body.classList.contains("cy-running") && this.log.id === this.explore.ticket;
    const wanted = document.querySelector("#cy-compare input")?.checked;
    if (running && wanted) {
      return [make("p", "", this.log.summary ? "Plain decoding of the same prompt is running\u2026"
        : "Plain decoding follows this run.")];
    }
    this.compareButton.disabled = Boolean(wanted);
    return [make("p", "", wanted ? "The next run is compared with plain decoding."
      : "This run was not compared with plain decoding."), this.compareButton];
  }

  #compareNext() {
    const box = document.querySelector("#cy-compare input");
    if (box && !box.checked) box.click();
    this.#draw();
  }

  #judge(plain) {
    const end = this.series.count ? this.series.speedup(this.series.count - 1, plain) : null;
    this.verdict.classList.toggle("cy-slower", end !== null && end < 1);
    write(this.verdict, end === null ? "" : end < 1
      ? `Slower than plain decoding: ${number(end)}\u00d7. The drafting cost more than the accepted tokens saved.`
      : `${number(end)}\u00d7 the speed of plain decoding, warm-up left out`);
  }

  // The next round, from the one on show, that accepted a node of this depth.
  #nextAt(place) {
    const { depth } = this.series.byDepth()[place];
    const { rounds } = this.log;
    for (let step = 1; step <= rounds.length; step++) {
      const index = (this.explore.current + step) % rounds.length;
      if (rounds[index].accepted >= depth) return this.explore.scrub(index);
    }
  }
}

const short = (value) => String(Number(value.toFixed(2)));

// The least round number that is at least `value`.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * unit >= value);
}

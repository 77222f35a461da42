// The numbers: the run's in one line, the round's with its stages, and the strip of accepted lengths.

import { make, write } from "./dom.js";
import { milliseconds, number, percent } from "./glyphs.js";
import { RETRIEVAL } from "./run_log.js";

export const STAGES = ["draft", "retrieve", "build", "compile", "verify", "walk", "commit", "update", "refresh"];
const ONLY_WHERE_MEASURED = new Set(["retrieve", "refresh"]); // a run without a retrieval source has neither

export function showFigures(part, log) {
  const figures = log ? log.figures() : {};
  write(part.tokensPerRound, number(figures.tokens_per_round));
  write(part.acceptedPerRound, number(figures.accepted_per_round));
  write(part.acceptanceRate, percent(figures.acceptance_rate, 1));
  write(part.speed, number(figures.tokens_per_second, 1));
  write(part.ttft, milliseconds(figures.ttft_seconds));
  showComparison(part, log?.comparison ?? null);
}

// An honest state for every outcome: faster, slower, the same text or where it parted.
function showComparison(part, comparison) {
  const speedup = comparison?.speedup ?? null;
  const slower = speedup !== null && speedup < 1;
  write(part.speedup, speedup === null ? "\u2014" : speedup.toFixed(2) + "\u00d7");
  write(part.speedupName, slower ? "slower than plain decoding" : "vs plain decoding");
  part.speedupBox.classList.toggle("cy-slower", slower);
  part.speedupBox.classList.toggle("cy-faster", speedup !== null && !slower);
  const lossless = comparison?.lossless ?? null;
  part.lossless.className = "cy-lossless" + (lossless === null ? "" : lossless.identical ? " cy-same" : " cy-parted");
  if (lossless === null) write(part.lossless, "not compared");
  else if (lossless.identical) write(part.lossless, "\u2713 identical to plain decoding");
  else {
    const margin = lossless.margin === null ? "" : `, margin ${lossless.margin.toPrecision(2)}`;
    const place = lossless.first_divergence;
    write(part.lossless, `\u2260 differs${place === null ? "" : ` from token ${place + 1}${margin}`}`);
  }
}

export function showRound(part, round) {
  const left = part.roundFacts;
  if (!round) return write(left, "");
  if (!round.drafted) write(left, "nothing drafted, 1 token from the target");
  else write(left, `accepted ${round.accepted} of ${round.drafted} drafted` +
    (round.bonus ? " + 1 from the target" : "") + (round.retrieved ? ` \u00b7 ${round.retrieved} retrieved` : ""));
  showStages(part, round);
}

function showStages(part, round) {
  const total = round.total || 1;
  for (const stage of STAGES) {
    const seconds = round.seconds?.[stage];
    part.stageBar.querySelector(`[data-stage=${stage}]`).style.flexGrow = (seconds ?? 0) / total;
    const key = part.stageKey.querySelector(`[data-stage=${stage}]`);
    key.style.display = seconds === undefined && ONLY_WHERE_MEASURED.has(stage) ? "none" : "";
    write(key.querySelector("b"), milliseconds(seconds));
  }
  write(part.stageTotal, milliseconds(round.total));
}

export function buildStages(part) {
  part.stageBar.replaceChildren(...STAGES.map((stage) => {
    const bar = make("i", "cy-stage-" + stage);
    bar.dataset.stage = stage;
    return bar;
  }));
  part.stageKey.replaceChildren(...STAGES.map((stage) => {
    const item = make("span", "cy-stage-key");
    item.dataset.stage = stage;
    item.append(make("i", "cy-stage-" + stage), make("span", "", stage), make("b"));
    return item;
  }));
}

// Bars of emitted tokens per round: accepted ones below, the bonus on top. They are drawn once for what has come in; the
// slider's thumb marks the round on show, so that scrubbing draws nothing, in a run of thousands of rounds too.
export class Strip {
  constructor(canvas, slider) {
    this.canvas = canvas;
    this.slider = slider;
    this.drawn = null; // what the canvas shows
    this.size = { width: 0, height: 0 };
    this.readColours();
    new ResizeObserver(([entry]) => {
      this.size = { width: entry.contentRect.width, height: entry.contentRect.height };
      this.draw();
    }).observe(canvas.parentElement);
  }

  readColours() {
    const style = getComputedStyle(this.canvas);
    const colour = (name) => style.getPropertyValue("--cy-" + name).trim();
    this.colour = { accepted: colour("accepted"), retrieval: colour("retrieval-line"), bonus: colour("bonus") };
    this.drawn = null;
  }

  show(log) {
    this.log = log;
    this.draw();
  }

  draw() {
    const { canvas, slider } = this;
    const { width, height } = this.size;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    const rounds = this.log?.rounds ?? [];
    const key = [this.log?.id, rounds.length, width, height, ratio].join();
    if (this.drawn === key) return;
    this.drawn = key;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const slot = Math.min(30, width / Math.max(1, rounds.length));
    slider.style.width = slot * rounds.length + "px";
    slider.style.setProperty("--slot", slot + "px");
    rounds.forEach((round, index) => this.#bar(pen, round, index, slot));
  }

  #bar(pen, round, index, slot) {
    const { height } = this.size;
    const unit = (height - 8) / Math.max(4, this.log.longest);
    const gap = slot > 6 ? Math.min(4, slot * 0.22) : slot > 2.5 ? 1 : 0;
    const grafted = round.path.slice(1).filter((node) => round.tree.source[node] === RETRIEVAL).length;
    let y = height - 4;
    for (const [count, name] of [[round.accepted - grafted, "accepted"], [grafted, "retrieval"],
      [round.emitted.length - round.accepted, "bonus"]]) {
      if (!count) continue;
      y -= count * unit;
      pen.fillStyle = this.colour[name];
      pen.fillRect(index * slot + gap / 2, y + 0.5, slot - gap, Math.max(1, count * unit - 1));
    }
  }
}

// The numbers: the run's in one line, the round's with its stages, and the strip of accepted lengths.

import { make, write } from "./dom.js";
import { milliseconds, number, percent } from "./glyphs.js";

const STAGES = ["draft", "retrieve", "build", "compile", "verify", "walk", "commit", "update", "refresh"];
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
    write(part.lossless, `\u2260 differs${place === null ? "" : ` from token ${place}${margin}`}`);
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

// Bars of emitted tokens per round: accepted ones below, the bonus on top. A canvas, so a thousand rounds cost nothing.
export class Strip {
  constructor(canvas, slider) {
    this.canvas = canvas;
    this.slider = slider;
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
    this.colour = { accepted: colour("accepted"), retrieval: colour("retrieval"), bonus: colour("bonus") };
  }

  show(log, current) {
    this.log = log;
    this.current = current;
    this.draw();
  }

  draw() {
    const { canvas, log } = this;
    const { width, height } = this.size;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const rounds = log?.rounds ?? [];
    if (!rounds.length) return;
    const slot = Math.min(30, width / rounds.length);
    this.slider.style.width = slot * rounds.length + "px";
    this.slider.style.setProperty("--slot", slot + "px");
    const room = height - 8;
    const unit = room / Math.max(4, log.longest);
    const gap = slot > 6 ? Math.min(4, slot * 0.22) : slot > 2.5 ? 1 : 0;
    rounds.forEach((round, index) => {
      pen.globalAlpha = index === this.current ? 1 : 0.62;
      let y = height - 4;
      const block = (count, name) => {
        if (!count) return;
        const tall = count * unit;
        y -= tall;
        pen.fillStyle = this.colour[name];
        pen.fillRect(index * slot + gap / 2, y + 0.5, slot - gap, Math.max(1, tall - 1));
      };
      const grafted = round.path.slice(1).filter((node) => round.tree.source[node] === 2).length;
      block(round.accepted - grafted, "accepted");
      block(grafted, "retrieval");
      block(round.emitted.length - round.accepted, "bonus");
    });
    pen.globalAlpha = 1;
  }
}

// The output text, coloured by where each token came from; the tokens of the round on show are marked.

import { make } from "./dom.js";
import { prose } from "./glyphs.js";

// Text in stretches that are laid out and painted on their own: marking a round touches no other. Each is a block, so it
// ends with a line of the text, from so many tokens on; a text without lines is broken after so many.
const STRETCH = 60;
const LONGEST = 600;

export class TextPane {
  constructor(host, onRound) {
    this.host = host;
    this.reset();
    host.addEventListener("click", (event) => {
      const round = event.target.closest("[data-round]")?.dataset.round;
      if (round !== undefined) onRound(Math.max(0, Number(round)));
    });
  }

  reset() {
    this.host.replaceChildren();
    this.spans = []; // by token
    this.inRound = new Map(); // those of a round
    this.copied = [];
    this.stretch = null;
    this.rounds = 0;
    this.current = null;
    this.started = false;
  }

  // Appends what has come since the last call.
  extend(log) {
    if (!log.header) return;
    const from = this.started ? this.rounds : -1;
    const tokens = from === this.rounds && log.rounds.length === this.rounds ? [] : log.tokens(from);
    this.started = true;
    this.rounds = log.rounds.length;
    for (const { text, from: source, round } of tokens) {
      const span = make("span", "cy-token cy-token-" + source, prose(text));
      span.dataset.round = round;
      this.spans.push(span);
      if (!this.inRound.has(round)) this.inRound.set(round, []);
      this.inRound.get(round).push(span);
      if (!this.stretch) this.host.append((this.stretch = make("div", "cy-stretch")));
      this.stretch.append(span);
      const { childElementCount: count } = this.stretch;
      if (count >= LONGEST || (count >= STRETCH && text.endsWith("\n"))) this.stretch = null;
    }
  }

  // Marks the round's tokens and keeps them in sight inside the pane, without moving the page.
  mark(round) {
    if (round === this.current) return;
    for (const span of this.inRound.get(this.current) ?? []) span.classList.remove("cy-now");
    this.current = round;
    const now = this.inRound.get(round) ?? [];
    for (const span of now) span.classList.add("cy-now");
    const last = now[now.length - 1];
    if (last) requestAnimationFrame(() => this.#keepInSight(last)); // one look at the layout, after all has been written
  }

  // Marks places of the output (0: the first token) that a node was copied from, `end` the token itself.
  markCopied(places, end) {
    for (const span of this.copied) span.classList.remove("cy-copied", "cy-copied-end");
    this.copied = places.map((place) => this.spans[place]).filter(Boolean);
    for (const span of this.copied) span.classList.add("cy-copied");
    const last = this.spans[end];
    if (!this.copied.length || !last) return;
    last.classList.add("cy-copied-end");
    requestAnimationFrame(() => this.#keepInSight(last));
  }

  #keepInSight(last) {
    const { host } = this;
    const pane = host.getBoundingClientRect();
    const { top, bottom } = last.getBoundingClientRect();
    if (top < pane.top || bottom > pane.bottom) host.scrollTop += top - pane.top - host.clientHeight / 2;
  }
}

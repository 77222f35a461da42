// The output text, coloured by where each token came from; the tokens of the round on show are marked.

import { make } from "./dom.js";
import { prose } from "./glyphs.js";

export class TextPane {
  constructor(host, onRound) {
    this.host = host;
    this.spans = [];
    this.rounds = 0;
    this.current = null;
    host.addEventListener("click", (event) => {
      const round = event.target.closest("[data-round]")?.dataset.round;
      if (round !== undefined) onRound(Math.max(0, Number(round)));
    });
  }

  reset() {
    this.host.replaceChildren();
    this.spans = [];
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
    const fresh = tokens.map(({ text, from: source, round }) => {
      const span = make("span", "cy-token cy-token-" + source, prose(text));
      span.dataset.round = round;
      return span;
    });
    this.spans.push(...fresh);
    this.host.append(...fresh);
  }

  // Marks the round's tokens and keeps them in sight inside the pane, without moving the page.
  mark(round) {
    if (round === this.current) return;
    for (const span of this.host.querySelectorAll(".cy-now")) span.classList.remove("cy-now");
    this.current = round;
    const now = this.spans.filter((span) => Number(span.dataset.round) === round);
    for (const span of now) span.classList.add("cy-now");
    const last = now[now.length - 1];
    if (last) requestAnimationFrame(() => this.#keepInSight(last)); // one look at the layout, after all has been written
  }

  #keepInSight(last) {
    const { host } = this;
    const top = last.offsetTop - host.offsetTop;
    if (top < host.scrollTop || top + last.offsetHeight > host.scrollTop + host.clientHeight) {
      host.scrollTop = top - host.clientHeight / 2;
    }
  }
}

// The round's decision: a sentence under the round's facts, and all that was recorded when it is opened.

import { make, write } from "./dom.js";
import { facts, headline } from "./decision.js";

export class DecisionPane {
  constructor(explore) {
    this.explore = explore;
    const { decision } = explore.part;
    explore.addEventListener("round", () => this.#show());
    decision.addEventListener("toggle", () => this.#list());
    decision.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !decision.open) return;
      event.preventDefault();
      decision.open = false;
    });
    document.addEventListener("pointerdown", (event) => {
      if (decision.open && !decision.contains(event.target)) decision.open = false;
    });
  }

  get #round() {
    const { log, current } = this.explore;
    return log?.rounds[current] ?? null;
  }

  #show() {
    const round = this.#round;
    const line = round ? headline(round, this.explore.log.header) : "";
    const { decision, decisionLine } = this.explore.part;
    write(decisionLine, line);
    decisionLine.title = line;
    decision.style.visibility = line ? "" : "hidden";
    this.#list();
  }

  // Filled only while it is open: scrubbing stays quick.
  #list() {
    const { decision, decisionList } = this.explore.part;
    if (!decision.open) return;
    const round = this.#round;
    decisionList.replaceChildren(...(round ? facts(round) : []).flatMap(([name, value]) =>
      [make("dt", "", name), make("dd", "", value)]));
  }
}

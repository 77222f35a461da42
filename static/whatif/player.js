// Plays one step after another until there is none left, and marks its button while it does.

import { write } from "../dom.js";

const STEP_TIME = 650; // milliseconds from step to step

export class Player {
  // `isOver()` says whether the last step is on show, `step()` takes one.
  constructor(button, { isOver, step }) {
    Object.assign(this, { button, isOver, step, timer: null });
  }

  get playing() {
    return this.timer !== null;
  }

  start() {
    this.stop();
    this.#mark(true);
    this.#wait();
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.#mark(false);
  }

  #wait() {
    this.timer = setTimeout(() => {
      if (this.isOver()) return this.stop();
      this.step();
      if (this.playing) this.#wait(); // a step may stop it
    }, STEP_TIME);
  }

  #mark(on) {
    this.button.setAttribute("aria-pressed", String(on));
    write(this.button, on ? "Pause" : "Play");
  }
}

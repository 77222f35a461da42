// The Learn tab: short lessons over recorded runs, step by step. What they say and show is data (lessons/), brought
// together with the recordings in learn/; this is the stage, its buttons, keys and address.

import { openBundled } from "./bundled.js";
import { make, onThemeChange, parts, write } from "./dom.js";
import { dialogOpen, TYPING } from "./keys.js";
import { FIGURES } from "./learn/figures.js";
import { Unresolved, resolve, runsOf } from "./learn/scene.js";
import { LESSONS } from "./lessons/index.js";
import { TreeView } from "./tree_view.js";

const MAGNIFIED = 1.7;
const KEY = "learn";

export class Learn {
  constructor({ element }) {
    this.part = parts(element);
    this.root = element.querySelector(".cy-learn");
    const { part } = this;
    this.tree = new TreeView(part.treeHost);
    this.scene = null;
    this.#wire();
    this.#follow();
  }

  get visible() {
    return this.root.offsetParent !== null || this.root.classList.contains("cy-large");
  }

  get lesson() {
    return LESSONS[this.at.lesson];
  }

  #wire() {
    const { part } = this;
    LESSONS.forEach((lesson, index) => {
      const item = make("li");
      const button = make("button", "", lesson.title);
      button.type = "button";
      button.onclick = () => this.go(index, 0);
      item.append(button);
      part.list.append(item);
      part.choice.append(new Option(`${index + 1}  ${lesson.title}`, index));
    });
    part.choice.onchange = () => {
      this.go(Number(part.choice.value), 0);
      part.choice.blur(); // the arrow keys are for the steps again
    };
    part.back.onclick = () => this.move(-1);
    part.next.onclick = () => this.move(1);
    part.large.onclick = () => this.enlarge();
    part.open.onclick = () => this.#openInExplore();
    document.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("fullscreenchange", () => {
      if (!document.fullscreenElement) this.#large(false);
    });
    window.addEventListener("hashchange", () => this.#follow());
    onThemeChange(() => {
      this.tree.readColours();
      this.#draw();
    });
    new ResizeObserver(() => this.#resized()).observe(part.figure);
  }

  // ---- where we are ---------------------------------------------------------------------------------------------

  // The address names lesson and step, #learn=heap.3: the step after the last is "try it".
  #follow() {
    const [id, step] = (new URLSearchParams(location.hash.slice(1)).get(KEY) ?? "").split(".");
    const lesson = LESSONS.findIndex((one) => one.id === id);
    if (lesson >= 0) return this.go(lesson, (Number.parseInt(step, 10) || 1) - 1);
    if (!this.at) this.go(0, 0);
  }

  go(lesson, step) {
    const last = LESSONS[lesson].steps.length;
    this.at = { lesson, step: Math.min(last, Math.max(0, step)) };
    this.#showPlace();
    this.#address();
    return (this.ready = this.#fill());
  }

  // Past the end of a lesson comes the next one.
  move(by) {
    const { lesson, step } = this.at;
    const to = step + by;
    if (to >= 0 && to <= this.lesson.steps.length) return this.go(lesson, to);
    if (LESSONS[lesson + by]) return this.go(lesson + by, by > 0 ? 0 : LESSONS[lesson + by].steps.length);
  }

  #address() {
    if (!this.visible) return;
    const wanted = `#${KEY}=${this.lesson.id}.${this.at.step + 1}`;
    if (location.hash !== wanted) history.replaceState(history.state, "", wanted);
  }

  #resized() {
    const shown = this.part.figure.clientWidth > 0;
    if (shown) this.#address();
    else if (location.hash.startsWith(`#${KEY}=`)) history.replaceState(history.state, "", location.pathname + location.search);
    cancelAnimationFrame(this.drawing);
    this.drawing = requestAnimationFrame(() => this.#draw());
  }

  #showPlace() {
    const { part, lesson } = this;
    const { step } = this.at;
    const count = lesson.steps.length;
    [...part.list.children].forEach((item, index) => {
      const here = index === this.at.lesson;
      item.firstChild.setAttribute("aria-current", here ? "page" : "false");
    });
    part.choice.value = String(this.at.lesson);
    write(part.title, `${this.at.lesson + 1}. ${lesson.title}`);
    write(part.where, step < count ? `step ${step + 1} of ${count}` : "try it");
    if (part.dots.children.length !== count + 1 || part.dots.dataset.of !== lesson.id) this.#dots(count);
    [...part.dots.children].forEach((item, index) => item.firstChild.setAttribute("aria-current", index === step ? "step" : "false"));
    part.back.disabled = this.at.lesson === 0 && step === 0;
    part.next.disabled = this.at.lesson === LESSONS.length - 1 && step === count;
  }

  #dots(count) {
    this.part.dots.dataset.of = this.lesson.id;
    this.part.dots.replaceChildren(...Array.from({ length: count + 1 }, (_, index) => {
      const item = make("li");
      const dot = make("button", "", index < count ? String(index + 1) : "try");
      dot.type = "button";
      dot.setAttribute("aria-label", index < count ? "Step " + (index + 1) : "Try it");
      dot.onclick = () => this.go(this.at.lesson, index);
      item.append(dot);
      return item;
    }));
  }

  // ---- what is shown --------------------------------------------------------------------------------------------

  async #fill() {
    const place = this.at;
    const { lesson } = this;
    try {
      const names = runsOf(lesson);
      const runs = await Promise.all(names.map(openBundled));
      if (place !== this.at) return; // gone on meanwhile
      const logs = Object.fromEntries(names.map((name, index) => [name, runs[index]]));
      const step = lesson.steps[place.step] ?? lesson.attempt;
      this.scene = resolve(lesson, step, logs);
      this.#say(step);
    } catch (error) {
      if (place !== this.at) return;
      this.scene = null;
      this.#fail(error);
    }
    this.#draw();
  }

  #say(step) {
    const { part, lesson, scene } = this;
    const trying = step === lesson.attempt;
    const sentence = trying ? ["Now look around in it yourself."] : scene.say;
    part.say.replaceChildren(...sentence.map((piece) =>
      typeof piece === "string" ? piece : piece.token === undefined ? make("b", "", piece.fact) : make("code", "", piece.token)));
    write(part.cite, trying ? "" : step.cite);
    part.attempt.hidden = !trying;
    if (!trying) return;
    write(part.attemptText, `Round ${scene.index + 1} of this recording, with every node to click and every round to walk through.`);
    write(part.question, lesson.question);
    write(part.answer, lesson.answer);
    part.answer.parentElement.open = false;
  }

  #fail(error) {
    const { part } = this;
    const again = make("button", "cy-link", "Try again");
    again.type = "button";
    again.onclick = () => this.go(this.at.lesson, this.at.step);
    part.say.replaceChildren(error instanceof Unresolved
      ? `This recording has nothing to show for this step (${error.message}). Go on to the next one.`
      : `The recording cannot be shown (${error.message}). `, ...(error instanceof Unresolved ? [] : [again]));
    write(part.cite, "");
    part.attempt.hidden = true;
  }

  #draw() {
    const { part, scene } = this;
    const kind = scene?.show.as ?? "none";
    part.figure.dataset.as = this.part.attempt.hidden ? kind : "attempt";
    if (!part.figure.clientWidth) return;
    this.tree.magnify(this.root.classList.contains("cy-large") ? MAGNIFIED : 1);
    if (!scene || FIGURES[kind] === undefined) part.drawing.replaceChildren();
    if (!scene) return this.tree.show(null);
    if (kind === "tree" || kind === "heap") this.#drawTree(scene);
    FIGURES[kind]?.(part.drawing, scene);
  }

  #drawTree({ log, index, round, lit, show, pops }) {
    this.tree.moved = false;
    const deepest = Math.max(...round.depth, round.bonus ? round.depth[round.bonus.parent] + 1 : 0);
    this.tree.show(round, (token) => log.label(token), deepest);
    this.tree.emphasise(show.as === "heap" ? [0, ...Array.from({ length: pops }, (_, i) => i + 1)] : lit);
    this.tree.canvas.setAttribute("aria-label", this.tree.summary(index + 1, log.rounds.length));
  }

  async #openInExplore() {
    const { log, index } = this.scene;
    await this.enlarge(false);
    const explore = await window.canopy.showTab("explore");
    explore.open(log, index);
  }

  // ---- a room full of people ------------------------------------------------------------------------------------

  async enlarge(on = !this.root.classList.contains("cy-large")) {
    this.#large(on);
    try {
      if (on) await this.root.requestFullscreen();
      else if (document.fullscreenElement) await document.exitFullscreen();
    } catch { /* where there is no full screen, large type in the window is what there is */ }
  }

  #large(on) {
    this.root.classList.toggle("cy-large", on);
    this.part.large.setAttribute("aria-pressed", String(on));
  }

  #key(event) {
    if (!this.visible || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const at = event.target instanceof Element ? event.target : document.body;
    if (at.closest(TYPING) || dialogOpen()) return;
    const actions = {
      ArrowRight: () => this.move(1),
      PageDown: () => this.move(1),
      ArrowLeft: () => this.move(-1),
      PageUp: () => this.move(-1),
      Home: () => this.go(this.at.lesson, 0),
      End: () => this.go(this.at.lesson, this.lesson.steps.length),
      f: () => this.enlarge(),
      ...(this.root.classList.contains("cy-large") ? { Escape: () => this.enlarge(false) } : {}),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }
}

// The trees of all ways beside each other, scrubbed together: by round, or by text position, that is, each way's round
// in which the same token was at stake.

import { make, onThemeChange, write } from "./dom.js";
import { label, prose } from "./glyphs.js";
import { aboutLane } from "./race.js";
import { TreeView } from "./tree_view.js";

const TAIL = 48; // characters of the text so far that are shown

export function canvasHost(description) {
  const host = make("div", "cy-canvas");
  const canvas = make("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", description);
  const tip = make("div", "cy-tip");
  tip.hidden = true;
  const blank = make("p", "cy-blank");
  host.append(canvas, tip, blank);
  return { host, canvas, blank };
}

class LaneTree {
  constructor(lane, onOpen) {
    this.lane = lane;
    this.element = make("figure", "cy-panel cy-lane-tree");
    const head = make("figcaption", "cy-head");
    this.open = make("button", "cy-lane-open");
    this.open.type = "button";
    this.open.title = "Open this round in Explore";
    this.about = make("span", "cy-lane-about");
    this.open.append(make("b", "cy-letter", lane.letter), make("strong", "", prose(lane.name)), this.about);
    this.place = make("span", "cy-lane-count");
    head.append(this.open, this.place);
    const { host, canvas, blank } = canvasHost("Draft tree of way " + lane.letter);
    this.canvas = canvas;
    this.blank = blank;
    this.tree = new TreeView(host);
    this.element.append(head, host);
    this.round = -1;
    this.open.onclick = () => this.round >= 0 && onOpen(lane, this.round, this.tree.selected);
  }

  show(index) {
    const { lane } = this;
    const round = lane.log.rounds[index] ?? null;
    this.round = index;
    this.known = lane.log.rounds.length;
    this.tree.show(round, (token) => lane.log.label(token), lane.log.deepest);
    this.blank.hidden = Boolean(round);
    write(this.blank, round ? "" : lane.error ? prose(lane.error.message) : "No round yet.");
    write(this.about, aboutLane(lane));
    write(this.place, round ? `round ${index + 1} of ${lane.log.rounds.length} \u00b7 from token ${lane.starts[index]} \u00b7 ` +
      `accepted ${round.accepted}${round.bonus ? " + 1" : ""}` : "");
    this.open.disabled = !round;
    this.canvas.setAttribute("aria-label", `Way ${lane.letter}. ` + this.tree.summary(index + 1, lane.log.rounds.length));
  }
}

export class LinkedTrees {
  // `onMove` hears of every step; `onOpen(lane, round, node)` opens Explore.
  constructor(part, { onOpen, onMove }) {
    this.part = part;
    this.onOpen = onOpen;
    this.onMove = onMove;
    this.views = [];
    this.at = 0; // a round, or a text position, by what links the trees
    part.linkSlider.oninput = () => this.scrub(Number(part.linkSlider.value));
    part.linkBack.onclick = () => this.scrub(this.at - 1);
    part.linkOn.onclick = () => this.scrub(this.at + 1);
    for (const input of [part.byText, part.byRound]) input.onchange = () => this.#relink();
    onThemeChange(() => this.#readColours());
  }

  #readColours() {
    for (const { tree } of this.views) {
      tree.readColours();
      tree.draw();
    }
  }

  get byText() {
    return this.part.byText.checked;
  }

  show(ways) {
    this.views = ways.map((lane) => new LaneTree(lane, this.onOpen));
    this.part.trees.replaceChildren(...this.views.map((view) => view.element));
    this.part.trees.dataset.count = ways.length;
    this.#readColours();
    this.at = this.#telling;
    this.refresh();
  }

  // Where to begin: of the places where the first two ways both began a round, the one where they got most out of it.
  get #telling() {
    const [one, other = one] = this.views.map((view) => view.lane);
    const shared = one.starts.filter((position) => other.starts.includes(position));
    if (!shared.length) return this.first;
    const accepted = (position) => [one, other].reduce((sum, lane) => sum + lane.log.rounds[lane.roundAt(position)].accepted, 0);
    const best = shared.reduce((a, b) => (accepted(b) > accepted(a) ? b : a));
    return this.byText ? best : one.roundAt(best);
  }

  get first() {
    return this.byText ? 1 : 0;
  }

  get last() {
    const lanes = this.views.map((view) => view.lane);
    return Math.max(this.first, ...lanes.map((lane) => (this.byText ? (lane.starts.length ? lane.written - 1 : 1) : lane.log.rounds.length - 1)));
  }

  // The text position that is on show: where they are linked by round, that of the first way.
  get position() {
    if (this.byText) return this.at;
    const lane = this.views.find((view) => view.lane.starts.length)?.lane;
    return lane ? lane.starts[Math.min(this.at, lane.starts.length - 1)] : 1;
  }

  roundOf(lane) {
    return this.byText ? lane.roundAt(this.at) : Math.min(this.at, lane.log.rounds.length - 1);
  }

  // Rounds have come.
  refresh() {
    const { part } = this;
    part.linkSlider.min = this.first;
    part.linkSlider.max = this.last;
    this.#render();
  }

  scrub(to) {
    this.at = Math.min(this.last, Math.max(this.first, to));
    this.#render();
  }

  // The change of what links them keeps the place in the text.
  #relink() {
    const lane = this.views[0]?.lane;
    if (!lane) return;
    this.at = this.byText ? lane.starts[Math.min(this.at, lane.starts.length - 1)] ?? 1 : Math.max(0, lane.roundAt(this.at));
    this.refresh();
  }

  #render() {
    const { part } = this;
    part.linkSlider.value = this.at;
    const text = this.byText ? `${this.at} of ${this.last + 1} tokens written` : `round ${this.at + 1} of ${this.last + 1}`;
    write(part.linkPlace, text);
    part.linkSlider.setAttribute("aria-valuetext", text);
    for (const view of this.views) {
      const round = this.roundOf(view.lane);
      if (round !== view.round || view.known !== view.lane.log.rounds.length || view.lane.error) view.show(round);
    }
    write(part.linkText, this.#context());
    this.onMove();
  }

  // The end of the text that has been written at this position.
  #context() {
    const lane = this.views.find((view) => view.lane.starts.length)?.lane;
    return lane ? textBefore(lane, this.position) : "";
  }
}

// The last of what a lane had written at a text position, as a label.
export function textBefore(lane, position) {
  const text = lane.log.tokens().slice(0, position).map((token) => token.text).join("");
  return (text.length > TAIL ? "\u2026" : "") + label(text.slice(-TAIL));
}

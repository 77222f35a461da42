// The prompt: as it was typed, or token by token as the target read it, chat template and all, where a node of the tree
// was copied from there.

import { make, write } from "./dom.js";
import { prose } from "./glyphs.js";

export class PromptPane {
  constructor(host, line) {
    this.host = host;
    this.line = line;
    this.fold = host.closest("details");
    this.marked = this.opened = false;
  }

  show(text) {
    this.text = prose(text);
    write(this.line, "Prompt: " + this.text.replace(/\s+/g, " "));
    this.#plain();
  }

  // Marks places of the prompt's tokens that a node was copied from, `end` the token itself; none: the prompt as typed.
  markCopied(log, places, end) {
    const pieces = places.length ? (log.header.prompt_ids ?? []).map((token) => log.piece(token)) : [];
    if (!pieces.length || pieces.includes(undefined)) return void (this.marked && this.#plain());
    const spans = pieces.map((piece) => make("span", "", prose(piece)));
    for (const place of places) spans[place].className = "cy-copied";
    spans[end]?.classList.add("cy-copied-end");
    this.host.replaceChildren(...spans);
    this.marked = true;
    this.opened ||= !this.fold.open;
    this.fold.open = true;
    const last = spans[end] ?? spans[places.at(-1)];
    this.host.scrollTop = Math.max(0, last.offsetTop - this.host.offsetTop - this.host.clientHeight / 2);
  }

  #plain() {
    this.host.textContent = this.text; // also where the marked tokens read the same
    if (this.opened) this.fold.open = false;
    this.marked = this.opened = false;
  }
}

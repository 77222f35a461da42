// Says in the node panel where the node came from, and marks the place in prompt or output that it was copied from.

import { make, write } from "./dom.js";
import { plural } from "./glyphs.js";
import { nodesOf } from "./node_facts.js";
import { originOf, textBefore } from "./origin.js";

const SHOWN = 4; // tokens of the text that stand for a place

export class OriginPane {
  constructor(explore) {
    this.explore = explore;
    this.host = explore.part.nodeOrigin;
    this.words = make("p");
    this.go = make("button", "cy-link", "go there");
    this.go.type = "button";
    this.go.onclick = () => this.#leave();
    this.host.append(this.words, this.go);
    for (const event of ["round", "node"]) explore.addEventListener(event, () => this.#show());
  }

  #show() {
    const { explore } = this;
    const round = explore.log?.rounds[explore.current];
    const node = explore.selected ?? round?.end ?? 0;
    explore.text.markCopied([]);
    explore.prompt.markCopied(explore.log, []);
    this.target = null;
    if (!round || node >= nodesOf(round)) {
      this.words.replaceChildren();
      this.go.hidden = true;
      return;
    }
    const found = originOf(explore.log, explore.current, node);
    this.words.replaceChildren(...this.#say(found, round, node));
    if (found.kind === "copy" && explore.selected !== null) this.#mark(found);
    this.go.hidden = !this.target;
    if (this.target) write(this.go, `see round ${this.target.round + 1}`);
  }

  #token(token) {
    const code = make("code", "", this.explore.log.label(token));
    code.title = "token " + token;
    return code;
  }

  #say(found, round, node) {
    const { log, current } = this.explore;
    const strong = (text) => make("b", "", text);
    switch (found.kind) {
      case "root": return ["The last token of the text so far; the target has not read it yet."];
      case "bonus": return [strong("The target\u2019s own choice. "), found.rank === null ? "It was not in the tree."
        : found.rank ? `The drafter had it at rank ${found.rank}; it was not in the tree here.`
          : `Not among the drafter\u2019s top ${found.known}.`];
      case "draft": {
        const where = found.position !== null ? `position ${found.position}${found.rank ? `, rank ${found.rank}` : ""} of the drafter\u2019s pass`
          : found.rank ? `the drafter\u2019s step, rank ${found.rank} among its siblings` : "the drafter";
        return [strong("Drafted: "), where + (found.merged ? "; the transition matrix held it too." : ".")];
      }
      case "window": return [strong("Lookahead window: "), "a guess of the Jacobi iteration, not of a drafter."];
      case "pool": return [strong("Retrieved: "), "an n-gram of the lookahead pool that begins with the root."];
      case "row": return [strong("Retrieved: "), "row ", this.#token(found.row), `, rank ${found.rank + 1} of the transition matrix. `,
        this.#written(found.written)];
      case "copy": return [strong("Copied "), ...this.#place(found, textBefore(log, current), log.header.prompt_ids?.length ?? 0)];
      default: return [strong("Retrieved"), "; the trace does not tell from where."];
    }
  }

  #written(written) {
    if (written === "prompt") return "Written when the target read the prompt.";
    if (written === "before") return "In the matrix since before this run.";
    if (!written) return "The trace does not tell who wrote it.";
    this.target = written;
    return "What the target said after it in";
  }

  #place({ at, start, matched }, text, prompt) {
    const inPrompt = at < prompt;
    const from = Math.max(start - Math.min(matched, SHOWN), 0);
    const before = text.slice(from, start).map((token) => this.#token(token));
    const copied = text.slice(Math.max(start, at + 1 - SHOWN), at + 1).map((token) => this.#token(token));
    copied[copied.length - 1]?.classList.add("cy-copied-token");
    return [`from ${inPrompt ? "the prompt" : "the output"}, token ${inPrompt ? at + 1 : at - prompt + 1}, where `, ...before,
      ` stood before${matched > SHOWN ? ` (${plural(matched, "token")} match)` : ""}: `, ...copied];
  }

  #mark({ at, start, matched }) {
    const { explore } = this;
    const prompt = explore.log.header.prompt_ids?.length ?? 0;
    const places = Array.from({ length: at - start + matched + 1 }, (_, i) => start - matched + i);
    explore.text.markCopied(places.filter((place) => place >= prompt).map((place) => place - prompt), at - prompt);
    explore.prompt.markCopied(explore.log, places.filter((place) => place < prompt), at);
  }

  // To the round and node that wrote the row.
  #leave() {
    const { round, node } = this.target;
    this.explore.scrub(round);
    this.explore.select(node);
  }
}

// The lanes of a comparison: runs of one prompt that can be set against each other by text position and by time.
// A text position is a number of tokens written; the first token comes from the prefill.

export const PLAIN = 0;
const LETTERS = "PABCDE";

export class Lane {
  // `about` is what is said of it: {name, drafter, settings}; `log` an empty run that `add` fills, or one that is complete.
  constructor(number, about, log) {
    this.number = number;
    this.letter = LETTERS[number];
    this.about = about;
    this.log = log;
    this.error = null;
    this.judgement = null; // of a recorded run: see judgement.js
    this.starts = []; // the text position at which each round began
    this.ends = []; // seconds from the request to the end of each round
    this.written = log.header ? 1 : 0;
    for (const round of log.rounds) this.#place(round);
    if (log.summary) this.#stretch(log.summary);
  }

  get name() {
    return this.about.name;
  }

  add(event) {
    const { log } = this;
    if (event.kind === "error") this.error = event;
    log.add(event);
    if (event.kind === "header") this.written = 1;
    if (event.kind === "round") this.#place(log.rounds.at(-1));
    if (event.kind === "summary") this.#stretch(event);
  }

  #place(round) {
    this.starts.push(this.written);
    this.ends.push((this.ends.at(-1) ?? this.prefill) + round.total);
    this.written += round.emitted.length;
  }

  // Between the measured stages of a round little is lost, but it is: the rounds share it, so that the end is the
  // measured end of the run.
  #stretch({ metrics }) {
    const seconds = metrics?.decode_seconds;
    const stages = (this.ends.at(-1) ?? 0) - this.prefill;
    if (!(seconds > 0 && stages > 0)) return;
    this.ends = this.ends.map((end) => this.prefill + ((end - this.prefill) * seconds) / stages);
  }

  get prefill() {
    return this.log.header?.prefill_seconds ?? 0;
  }

  get seconds() {
    return this.ends.at(-1) ?? this.prefill;
  }

  // Tokens written `seconds` after the request: a round's tokens come together, at its end.
  writtenAt(seconds) {
    if (!this.log.header || seconds < this.prefill) return 0;
    const done = lastAtMost(this.ends, seconds) + 1;
    return done < this.starts.length ? this.starts[done] : this.written;
  }

  // The round that stands at a text position: the last one that began at or before it; -1 where there is none yet.
  roundAt(position) {
    return Math.max(this.starts.length ? 0 : -1, lastAtMost(this.starts, position));
  }

  // Ids of all tokens written.
  get output() {
    return this.log.header ? [this.log.header.first_token, ...this.log.rounds.flatMap((round) => round.emitted)] : [];
  }

  // How it stands to plain decoding, {speedup, lossless}: as judged here, or by the server; null where nobody has yet.
  get comparison() {
    return this.judgement ?? this.log.comparison;
  }

  // Where the text parts from plain decoding's; null where it does not, or is not known to. `node` is the node of
  // `round` after which the target chose otherwise.
  get divergence() {
    const lossless = this.comparison?.lossless;
    if (!lossless || lossless.identical || !this.log.rounds.length) return null;
    const place = lossless.first_divergence;
    const index = this.roundAt(place);
    const round = this.log.rounds[index];
    const offset = Math.min(round.path.length - 1, Math.max(0, place - this.starts[index]));
    return { place, round: index, node: round.path[offset], margin: lossless.margin };
  }
}

// Index of the last of ascending values that is at most `limit`; -1 where there is none.
export function lastAtMost(values, limit) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// How many tokens two texts have in common from the start.
export function commonLength(ours, theirs) {
  let length = 0;
  while (length < ours.length && length < theirs.length && ours[length] === theirs[length]) length += 1;
  return length;
}

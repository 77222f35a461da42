// What the charts show of a run, kept up round by round: pure arithmetic, no page.

export const WARM_UP = 2; // first rounds that no speed counts: they pay for what happens only once
export const WINDOW = 8; // rounds in a speed of the moment

export class RunSeries {
  constructor() {
    this.count = 0;
    this.tokens = [0]; // emitted up to and without round i, the bonus included
    this.seconds = [0]; // likewise, the sum of the rounds' stages
    this.depths = []; // of depth d: nodes that the target reached and accepted, rounds that came so far and went on
    this.most = 1;
  }

  // Takes in what has come since the last call.
  extend(log) {
    for (; this.count < log.rounds.length; this.count++) {
      const round = log.rounds[this.count];
      this.tokens.push(this.tokens[this.count] + round.emitted.length);
      this.seconds.push(this.seconds[this.count] + round.total);
      this.most = Math.max(this.most, round.emitted.length);
      this.#addDepths(round);
    }
  }

  // A node was reached where its parent was accepted: the target looked at it. At most one of its siblings is accepted.
  #addDepths(round) {
    const seen = new Set();
    for (let node = 1; node < round.fate.length; node++) {
      const accepted = round.fate[node] === "accepted";
      if (!accepted && round.fate[node] !== "rejected") continue;
      const depth = round.depth[node];
      const at = (this.depths[depth] ??= { reached: 0, accepted: 0, rounds: 0 });
      at.reached += 1;
      if (accepted) at.accepted += 1;
      if (!seen.has(depth)) at.rounds += 1;
      seen.add(depth);
    }
  }

  emitted(i) { return this.tokens[i + 1] - this.tokens[i]; }
  mean(i) { return this.tokens[i + 1] / (i + 1); }

  // Tokens per second of the last rounds up to i, null while nothing but warm-up is among them.
  speed(i) { return this.#rate(Math.max(WARM_UP, i + 1 - WINDOW), i + 1); }

  // Tokens per second from the warm-up to round i.
  overall(i) { return this.#rate(WARM_UP, i + 1); }

  // How many times as fast as plain decoding the run has been so far.
  speedup(i, plain) {
    const speed = this.overall(i);
    return speed === null || !plain ? null : speed / plain;
  }

  #rate(from, to) {
    const seconds = to > from ? this.seconds[to] - this.seconds[from] : 0;
    return seconds > 0 ? (this.tokens[to] - this.tokens[from]) / seconds : null;
  }

  // [depth, share of reached nodes accepted, share of rounds that came there and went on, the counts]
  byDepth() {
    return this.depths.flatMap((at, depth) => (at ? [{ depth, ...at, share: at.accepted / at.reached,
      went: at.accepted / at.rounds }] : []));
  }
}

// The values of `value(i)` for at most `room` places: of each stretch of rounds its least, mean and greatest.
export function thinned(count, room, value) {
  const stretch = Math.max(1, Math.ceil(count / Math.max(1, room)));
  const places = [];
  for (let first = 0; first < count; first += stretch) {
    const last = Math.min(count, first + stretch) - 1;
    let [low, high, sum, known] = [Infinity, -Infinity, 0, 0];
    for (let i = first; i <= last; i++) {
      const y = value(i);
      if (y === null) continue;
      low = Math.min(low, y);
      high = Math.max(high, y);
      sum += y;
      known += 1;
    }
    if (known) places.push({ first, last, low, high, mean: sum / known });
  }
  return places;
}

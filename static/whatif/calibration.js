// Whether the drafter's probabilities mean what they say: decoding/bench/calibration.py over the recorded trees. A
// node's prediction is the probability of its whole path under the drafter; it is right where it was accepted.

export const BINS = 10; // of equal width, over predicted probabilities from 0 to 1

export class Calibration {
  constructor() {
    this.nodes = new Array(BINS).fill(0);
    this.predicted = new Array(BINS).fill(0);
    this.right = new Array(BINS).fill(0);
    this.rounds = 0;
    this.unscored = 0; // nodes without a probability: retrieved ones
  }

  // `coming` tokens of the text follow the root: deeper nodes cannot be judged.
  add(round, coming) {
    const path = new Set(round.path);
    for (let node = 1; node < round.tree.token.length; node++) {
      if (round.depth[node] > coming) continue;
      if (round.cumulative[node] === null) {
        this.unscored += 1;
        continue;
      }
      // float32, as the Python core gives path probabilities to its own.
      const predicted = Math.exp(Math.fround(round.cumulative[node]));
      const bin = Math.min(BINS - 1, Math.floor(predicted * BINS));
      this.nodes[bin] += 1;
      this.predicted[bin] += predicted;
      if (path.has(node)) this.right[bin] += 1;
    }
    this.rounds += 1;
  }

  // `expected` and `accepted`: drafted nodes per round, bonus excluded, predicted and real. `ece`: the mean over nodes
  // of |predicted - right| of their bins (Guo et al., ICML 2017, Equation 3). Null where there is nothing.
  result() {
    const total = (values) => values.reduce((sum, value) => sum + value, 0);
    const nodes = total(this.nodes);
    return {
      expected: this.rounds ? total(this.predicted) / this.rounds : null,
      accepted: this.rounds ? total(this.right) / this.rounds : null,
      ece: nodes ? total(this.predicted.map((value, bin) => Math.abs(value - this.right[bin]))) / nodes : null,
      nodes,
      bins: this.nodes.map((count, bin) => ({ nodes: count, predicted: count ? this.predicted[bin] / count : null,
        right: count ? this.right[bin] / count : null })),
    };
  }
}

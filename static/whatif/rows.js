// A round's recorded marginals as planners read them: the top ranks of every position after the root.

export class Rows {
  // `depth` is the deepest that a tree of this round may be. Log-probabilities become float32, as the Python core
  // keeps them: sums in float64 over them then agree with it to the last bit, and so do ties.
  constructor(marginals, depth = Infinity) {
    const positions = Math.max(0, Math.min(depth, marginals.token.length));
    this.token = marginals.token.slice(0, positions);
    this.logprob = marginals.logprob.slice(0, positions)
      .map((row) => Float32Array.from(row, (value) => value ?? -Infinity));
    this.positions = positions;
    this.ranks = positions ? this.token[0].length : 0;
  }

  has(position, rank) {
    return position < this.positions && rank < this.ranks && this.logprob[position][rank] > -Infinity;
  }

  // Whether the record ends at this place and more could follow: behind an impossible token nothing does.
  cutAt(position, rank) {
    return rank === this.ranks - 1 && this.logprob[position][rank] > -Infinity;
  }

  // Whether a planner that asks for the `width` best of a position gets all that it would have got while decoding.
  holds(width) {
    return width <= this.ranks || this.logprob.every((_, position) => !this.cutAt(position, this.ranks - 1));
  }
}

// Growing a tree layer by layer over a round's marginals, as decoding/strategies/beam.py does over a stepwise drafter
// and decoding/bench/marginals_as_steps.py makes one of marginals: every node of a depth has its position's row.

export class Expansion {
  constructor(rows, root) {
    this.rows = rows;
    this.token = [root];
    this.parent = [-1];
    this.logprob = [0];
    this.score = [0];
    this.depth = [0];
  }

  get length() {
    return this.token.length;
  }

  // Adds the `width` best children of each of `nodes`, as far as `wanted(node, rank, score)`; the new nodes.
  add(nodes, width, wanted = () => true) {
    const { rows } = this;
    const before = this.length;
    for (const node of nodes) {
      const position = this.depth[node];
      for (let rank = 0; rank < width && rows.has(position, rank); rank++) {
        const logprob = rows.logprob[position][rank];
        if (!wanted(node, rank, this.score[node] + logprob)) continue;
        this.token.push(rows.token[position][rank]);
        this.parent.push(node);
        this.logprob.push(logprob);
        this.score.push(this.score[node] + logprob);
        this.depth.push(position + 1);
      }
    }
    return range(before, this.length);
  }

  // The `count` highest scores among the nodes given (all but the root), ascending; ties go to the earlier node.
  best(count, among = range(1, this.length)) {
    const order = [...among].sort((a, b) => this.score[b] - this.score[a] || a - b);
    return order.slice(0, count).sort((a, b) => a - b);
  }

  // The plan of the root and the nodes `kept`: ascending, none without its parent.
  plan(kept = range(1, this.length)) {
    const nodes = [0, ...kept];
    const place = new Map(nodes.map((node, index) => [node, index]));
    return {
      token: nodes.map((node) => this.token[node]),
      parent: nodes.map((node) => (node === 0 ? -1 : place.get(this.parent[node]))),
      logprob: nodes.map((node) => this.logprob[node]),
    };
  }
}

// EAGLE-2's expansion phase: the `width` best children of each of the `width` best nodes of a depth.
export function growBeams(rows, root, depth, width, goOn) {
  const expansion = new Expansion(rows, root);
  let beam = [0];
  for (let level = 1; level <= depth; level++) {
    beam = expansion.best(width, expansion.add(beam, width));
    if (!beam.length || level === depth || !goOn(level, beam.map((node) => expansion.score[node]))) break;
  }
  return expansion;
}

export function range(from, to) {
  return Array.from({ length: Math.max(0, to - from) }, (_, index) => from + index);
}

export function both(nodes, others) {
  const known = new Set(others);
  return nodes.filter((node) => known.has(node));
}

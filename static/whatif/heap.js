// DDTree, Algorithm 1: the most probable prefixes, popped from a heap one at a time. The order is that of
// decoding/kernels/selection.py, ties included, so the first b pops are the tree of budget b.

export class Heap {
  #items = [];

  constructor(precedes) {
    this.precedes = precedes;
  }

  get size() {
    return this.#items.length;
  }

  push(item) {
    const items = this.#items;
    let place = items.length;
    for (; place > 0; place = (place - 1) >> 1) {
      const up = items[(place - 1) >> 1];
      if (!this.precedes(item, up)) break;
      items[place] = up;
    }
    items[place] = item;
  }

  pop() {
    const items = this.#items;
    const best = items[0];
    const last = items.pop();
    if (!items.length) return best;
    let place = 0;
    for (let below = 1; below < items.length; below = 2 * place + 1) {
      if (below + 1 < items.length && this.precedes(items[below + 1], items[below])) below += 1;
      if (!this.precedes(items[below], last)) break;
      items[place] = items[below];
      place = below;
    }
    items[place] = last;
    return best;
  }

  sorted() {
    return [...this.#items].sort((a, b) => (this.precedes(a, b) ? -1 : 1));
  }
}

// Higher score first; on a tie the shorter prefix, then the smaller rank from the last position back.
function precedes(one, other) {
  if (one.score !== other.score) return one.score > other.score;
  if (one.position !== other.position) return one.position < other.position;
  while (one.rank === other.rank && one.parent !== other.parent) [one, other] = [one.parent, other.parent];
  return one.rank < other.rank;
}

// A candidate is {parent, position, rank, score}: `parent` is the popped prefix before it (null below the root), and
// `place`, once it is popped, the number of its pop from 0.
function candidate(rows, parent, position, rank) {
  if (!rows.has(position, rank)) return null;
  // A log-probability above zero can only be rounding, and would put a child before its parent.
  return { parent, position, rank, score: (parent ? parent.score : 0) + Math.min(rows.logprob[position][rank], 0) };
}

// Yields every pop: the popped prefix, the sibling and the child that it puts into the heap (null: none), the heap.
export function* pops(rows) {
  const waiting = new Heap(precedes);
  const first = candidate(rows, null, 0, 0);
  if (first) waiting.push(first);
  for (let place = 0; waiting.size; place++) {
    const popped = waiting.pop();
    popped.place = place;
    const sibling = candidate(rows, popped.parent, popped.position, popped.rank + 1);
    const child = candidate(rows, popped, popped.position + 1, 0);
    if (sibling) waiting.push(sibling);
    if (child) waiting.push(child);
    yield { popped, sibling, child, waiting };
  }
}

// The tokens of a prefix, the first one first.
export function prefixTokens(rows, prefix) {
  const tokens = [];
  for (let at = prefix; at; at = at.parent) tokens.unshift(rows.token[at.position][at.rank]);
  return tokens;
}

// What every budget b from 1 to `most` is worth in this round: `expected[b]` accepted tokens under the drafter
// (Proposition 1), and `accepted[b]` of the `coming` tokens of the text. `limit` is the largest budget that the
// recorded ranks decide: behind the pop of a last recorded rank, a sibling that nobody wrote down may come first.
// `reached[n]` is the least budget whose tree holds the first n + 1 coming tokens, as far as there is one.
export function growthByBudget(rows, coming, most) {
  const expected = [0];
  const accepted = [0];
  const reached = [];
  let end = null;
  let limit = Infinity;
  for (const { popped } of pops(rows)) {
    const held = reached.length;
    if (popped.parent === end && held < coming.length && rows.token[popped.position][popped.rank] === coming[held]) {
      reached.push(popped.place + 1);
      end = popped;
    }
    expected.push(expected[popped.place] + Math.exp(popped.score));
    accepted.push(reached.length);
    if (rows.cutAt(popped.position, popped.rank)) limit = popped.place + 1;
    if (limit < Infinity || popped.place + 1 >= most) break;
  }
  return { expected, accepted, reached, limit, most: expected.length - 1 };
}

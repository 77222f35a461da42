// A node by its tokens from the root: so that it is known again in another tree, where it has another number.

export class HeldNode {
  constructor() {
    this.tokens = null;
  }

  // Holds a node of `tree`; null, or the root, holds nothing.
  hold({ token, parent }, node) {
    this.tokens = node ? [] : null;
    for (let at = node; at > 0; at = parent[at]) this.tokens.unshift(token[at]);
  }

  release() {
    this.tokens = null;
  }

  // Its number in `tree`; null where that has no such node, or nothing is held.
  in({ token, parent }) {
    let at = 0;
    for (const next of this.tokens ?? []) {
      const above = at;
      at = token.findIndex((found, node) => found === next && parent[node] === above && node > 0);
      if (at < 0) return null;
    }
    return at || null;
  }
}

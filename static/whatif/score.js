// What the recorded text says about other trees, with no model: decoding/replay.py in the browser.
//
// A round accepts the path of its tree that the target would have written itself, so the text that was recorded
// decides what any tree at this place would have gained. At temperature 0 the text is fixed by the prompt. Above it,
// with sample-and-match, every token is drawn from the target whatever the tree holds: given this text, the figure is
// exact too. Other verifiers draw in ways that depend on the tree: there the text decides nothing.

const texts = new WeakMap();

// All tokens emitted so far, and where each round's begin.
function textOf(log) {
  let text = texts.get(log);
  if (!text) texts.set(log, (text = { tokens: [], starts: [] }));
  for (let index = text.starts.length; index < log.rounds.length; index++) {
    text.starts.push(text.tokens.length);
    text.tokens.push(...log.rounds[index].emitted);
  }
  return text;
}

// The tokens of the text that follow the root of round `index`, as far as they were recorded.
export function coming(log, index) {
  const { tokens, starts } = textOf(log);
  return tokens.slice(starts[index]);
}

// How deep a tree of this round may be: the loop leaves room for the bonus at the end of the text.
export function depthLimit(log, index) {
  const written = 1 + textOf(log).starts[index];
  const asked = log.header.max_new_tokens;
  return Number.isFinite(asked) ? Math.max(0, asked - written - 1) : Infinity;
}

export const DECIDING = {
  greedy: "Temperature 0: the text is fixed by the prompt, so the recorded text decides what any tree gains here.",
  "sample-match": "Sample-and-match draws every token from the target, whatever the tree holds: given the text that " +
    "was drawn, what any tree gains here is exact. Another draw would be another text.",
};

export function decides(log) {
  return Object.hasOwn(DECIDING, log.header.verifier);
}

// How the text goes through a plan or tree: the nodes along which it holds the coming tokens, the root first.
export function acceptedPath({ token, parent }, tokens) {
  const children = new Map();
  for (let node = 1; node < token.length; node++) children.set(parent[node] + " " + token[node], node);
  const path = [0];
  for (const next of tokens) {
    const child = children.get(path.at(-1) + " " + next);
    if (child === undefined) break;
    path.push(child);
  }
  return path;
}

// Whether `held` accepted tokens are all that the record can tell, and the text may have gone on along the tree.
export function recordEnds(log, tokens, held) {
  return held === tokens.length && !(log.header.end_ids ?? []).includes(tokens.at(-1));
}

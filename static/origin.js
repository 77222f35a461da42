// Where a node of a round came from, worked out from the run so far: a row of the transition matrix and the round that
// wrote it, a place in the text that was copied, or the drafter. Each follows its source's own rule in decoding/drafters.

import { draftRank, isBonus, isRetrieved } from "./node_facts.js";

const NGRAM = 3; // the longest n-gram that prompt lookup looks up

// { kind } with what is known beside it:
// root · bonus { rank } · draft { rank, among, position, merged } · window · pool · unknown
// row { row, rank (from 0), written } where `written` is { round, node }, "prompt" or "before"
// copy { at, start, matched }: places in prompt and output together
export function originOf(log, index, node) {
  const round = log.rounds[index];
  const { header } = log;
  if (node === 0) return { kind: "root" };
  if (isBonus(round, node)) return bonusOrigin(round);
  if (!isRetrieved(round, node)) {
    if (header.strategy === "lookahead") return { kind: "window" };
    const found = draftRank(round, node);
    return { kind: "draft", rank: found?.rank ?? null, among: found?.among ?? null,
      position: round.marginals ? round.depth[node] : null, merged: list(round.decision?.merged).includes(node) };
  }
  if (header.strategy === "lookahead") return { kind: "pool" };
  const copied = round.decision?.copied;
  if (list(copied?.node).includes(node)) return copiedAt(log, index, node, copied);
  const graft = list(round.decision?.grafts?.node).indexOf(node);
  if (graft >= 0) {
    const [row, rank] = [round.decision.grafts.row?.[graft], round.decision.grafts.rank?.[graft]];
    if (Number.isInteger(row) && Number.isInteger(rank)) return rowOrigin(log, index, node, row, rank);
  }
  const copies = ["prompt-lookup", "sam"].includes(header.drafter) && round.decision?.matched !== false;
  if (copies) {
    const text = textBefore(log, index);
    const found = copiedFrom(text, pathOf(round, node), header.drafter);
    return found ? { kind: "copy", ...found } : { kind: "unknown" };
  }
  if (header.drafter === "transition-matrix" || header.retrieval === "transition-matrix") {
    const above = round.tree.parent[node];
    return rowOrigin(log, index, node, round.tree.token[above], round.children[above].indexOf(node));
  }
  return { kind: "unknown" };
}

const list = (value) => (Array.isArray(value) ? value : []);

// What the target said instead: had the drafter thought of it?
function bonusOrigin(round) {
  const row = round.marginals?.token[round.depth[round.bonus.parent]];
  return { kind: "bonus", rank: row ? row.indexOf(round.bonus.token) + 1 : null, known: row?.length ?? 0 };
}

// Prompt and output as they stood when the round was drafted; the root is the last token.
export function textBefore(log, index) {
  const text = [...(log.header.prompt_ids ?? []), log.header.first_token];
  for (const round of log.rounds.slice(0, index)) for (const token of round.emitted) text.push(token);
  return text;
}

function pathOf(round, node) {
  const path = [];
  for (let above = node; above > 0; above = round.tree.parent[above]) path.push(round.tree.token[above]);
  return path.reverse();
}

// A row holds what the target said the last time that it looked at the token, on the accepted path or beside it; of
// several nodes of one round the last one wins.
function rowOrigin(log, index, node, row, rank) {
  const found = { kind: "row", row, rank };
  const token = log.rounds[index].tree.token[node];
  for (let before = index - 1; before >= 0; before--) {
    const { tree, verdict } = log.rounds[before];
    const writer = tree.token.lastIndexOf(row);
    if (writer < 0) continue;
    return { ...found, written: verdict.top_token[writer][rank] === token ? { round: before, node: writer } : null };
  }
  return { ...found, written: (log.header.prompt_ids ?? []).includes(row) ? "prompt" : "before" };
}

// Where the token at a depth of a copy from `start` stands: one that comes to the text's end goes on with its own beginning.
const copiedPlace = (start, end, depth) => start + ((depth - 1) % (end - start));

// The decision tells where the copy of a plan begins.
function copiedAt(log, index, node, { place, matched }) {
  const round = log.rounds[index];
  const end = textBefore(log, index).length;
  if (!Number.isInteger(place) || !Number.isInteger(matched) || place < matched || place >= end) return { kind: "unknown" };
  return { kind: "copy", at: copiedPlace(place, end, round.depth[node]), start: place, matched };
}

// The place that `path`, the tokens below the root, was copied from. Prompt lookup: the most recent earlier place of
// the text's last 3 tokens, else 2, else 1; its copy goes on into its own beginning. SAM: the first place of the longest
// suffix that the text held before. { at, start, matched }, or null.
export function copiedFrom(text, path, drafter) {
  const last = text.length - 1;
  const matches = (end) => {
    let length = 0;
    while (length <= end && text[end - length] === text[last - length]) length += 1;
    return length;
  };
  const follows = (start) => path.every((token, place) => text[start + (place % (text.length - start))] === token);
  let best = null;
  for (let end = last - 1; end >= 0; end--) {
    const length = drafter === "sam" ? matches(end) : Math.min(NGRAM, matches(end));
    const better = length > 0 && (!best || length > best.matched || (drafter === "sam" && length === best.matched));
    if (better && follows(end + 1)) best = { start: end + 1, matched: length };
  }
  return best && { at: copiedPlace(best.start, text.length, path.length), ...best };
}

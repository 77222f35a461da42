// What the pane says in words and numbers about the tree on show.

import { make, write } from "../dom.js";
import { DASH, number } from "../glyphs.js";
import { DECIDING } from "./score.js";

const UNDECIDED = "This run\u2019s verifier draws in ways that depend on the tree: the recorded text does not tell what " +
  "another tree would have gained. The expected length still holds.";

export function showScore(part, ground, answer) {
  const { log, round, decided } = ground;
  const figure = (name, value) => {
    const span = make("span", "", name + " ");
    span.append(make("b", "", value));
    return span;
  };
  const here = answer.accepted ?? null;
  part.whatScore.replaceChildren(
    figure("expected", number(answer.expected)),
    figure(answer.atLeast && decided ? "here at least" : "here exactly", here === null ? DASH : String(here)),
    figure("recorded", String(round.accepted)),
    figure("nodes", `${answer.nodes ?? DASH} / ${round.drafted}`));
  part.whatScore.title = "Accepted drafted tokens, the target\u2019s own not counted. " +
    (DECIDING[log.header.verifier] ?? UNDECIDED) + (answer.atLeast ? " The record ends inside this tree." : "");
}

export function showDifference(part, shown) {
  const count = (kind) => shown.standing.filter((standing, node) => node > 0 && standing === kind).length;
  write(part.whatBoth, String(count("both")));
  write(part.whatHere, String(count("here")));
  write(part.whatGone, String(count("gone")));
}

export function showNotes(part, ground, notes) {
  const more = [...notes];
  if (!more.length || !ground.decided) more.push(DECIDING[ground.log.header.verifier] ?? UNDECIDED);
  if (ground.rows && ground.round.retrieved) {
    more.push("Retrieved nodes are not planned again: the table that they came from was not recorded.");
  }
  write(part.whatNote, more.join(" "));
}

// Parts are strings, and {token} for a label in code style: text only, whatever a token holds.
export function showParts(element, parts, labelOf) {
  element.replaceChildren(...parts.map((piece) => (typeof piece === "string" ? piece : make("code", "", labelOf(piece.token)))));
}

export function showMeans(part, means) {
  write(part.whatAllText, means ? `mean of ${means.rounds} rounds, up to ${means.limit} nodes` : "mean of all rounds");
  part.whatAll.title = "Each round by itself, at the place of the text where it was recorded, as far as every round\u2019s " +
    "record reaches. It is not what a run with that budget would have made: after another tree the next round begins " +
    "elsewhere, where nothing was drafted.";
}

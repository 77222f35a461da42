// Rules that choose the round a step looks at: none of them knows a recording, so a new one changes nothing here.
// Each gives the number of a round, or -1 where no round of the run will do.

import { bestGuess, fork, repeated, stopped, unsure } from "./nodes.js";
import { chainAccepted } from "./measures.js";

// The first of the rounds with the highest score; those that score null are out.
function best(log, score) {
  let [found, highest] = [-1, -Infinity];
  log.rounds.forEach((round, index) => {
    const value = score(round, index);
    if (value !== null && value > highest) [found, highest] = [index, value];
  });
  return found;
}

const accepted = (round) => round.accepted - (round.bonus ? 0 : 0.5); // better with a bonus to show

export const PICKS = {
  first: (log) => (log.rounds.length ? 0 : -1),
  mostOpen: (log) => best(log, (round) => round.verdict.entropy[0]), // the target knew least what comes next
  last: (log) => log.rounds.length - 1,
  mostAccepted: (log) => best(log, accepted),
  mostAcceptedOfMarginals: (log) => best(log, (round) => (round.marginals && round.drafted ? accepted(round) : null)),
  // Went some way, then guessed wrong with more behind the wrong guess.
  missed: (log) => best(log, (round) => {
    const guess = round.bonus ? bestGuess(round, round.end) : null;
    return guess !== null && round.children[guess].length ? accepted(round) : null;
  }),
  // Where the tree went furthest beyond its own best chain.
  mostGain: (log) => best(log, (round, index) =>
    (round.marginals && fork(round) !== null && round.accepted > chainAccepted(log, index) ? round.accepted - chainAccepted(log, index) : null)),
  mostRepeated: (log) => best(log, (round) => (round.marginals && repeated(round).length > 1 ? repeated(round).length : null)),
  unsure: (log) => best(log, (round) => (unsure(round) === null ? null : round.drafted)),
  mostStopped: (log) => best(log, (round) => stopped(log, round).length || null),
  // The draft was ended by a gate, the later the more there is to see, and something was retrieved for it.
  gated: (log) => best(log, (round) => (round.decision.stage && round.retrieved ? round.decision.confidence.length : null)),
  graftAccepted: (log) => best(log, (round) => round.path.filter((node) => round.tree.source[node] === 2).length || null),
};

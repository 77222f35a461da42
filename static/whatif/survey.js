// Over all rounds of a run: the mean of what every budget is worth, and the calibration. Taken in slices, so that a
// run of thousands of rounds does not hold the page up.
//
// Every figure is exact for its own round, at the place of the text where that round was recorded. It is not what a
// run with that budget would have made: after another tree the next round begins elsewhere, where nothing was drafted.

import { Calibration } from "./calibration.js";
import { growthByBudget } from "./heap.js";
import { Rows } from "./rows.js";
import { coming, decides, depthLimit, recordEnds } from "./score.js";

const SLICE = 6; // milliseconds

export class Survey {
  constructor(log, most, onProgress) {
    this.log = log;
    this.most = most;
    this.onProgress = onProgress;
    this.calibration = new Calibration();
    this.done = 0;
    this.planned = 0;
    this.limit = most; // the largest budget that is decided in all of its rounds
    this.expected = new Float64Array(most + 1);
    this.accepted = new Float64Array(most + 1);
  }

  // Goes on with the rounds that have come.
  go() {
    this.timer ??= setTimeout(() => {
      this.timer = null;
      const until = performance.now() + SLICE;
      while (this.done < this.log.rounds.length && performance.now() < until) this.#take(this.done++);
      this.onProgress(this);
      if (this.done < this.log.rounds.length) this.go();
    });
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  #take(index) {
    const round = this.log.rounds[index];
    const tokens = coming(this.log, index);
    this.calibration.add(round, tokens.length);
    if (!round.marginals) return;
    const rows = new Rows(round.marginals, depthLimit(this.log, index));
    const { expected, accepted, limit, most } = growthByBudget(rows, tokens, this.most);
    if (recordEnds(this.log, tokens, accepted[most])) return; // the record cannot tell how far it would have gone
    this.limit = Math.min(this.limit, limit);
    this.planned += 1;
    for (let budget = 1; budget <= this.most; budget++) { // where no more prefixes exist, the tree stays as it is
      this.expected[budget] += expected[Math.min(budget, most)];
      this.accepted[budget] += accepted[Math.min(budget, most)];
    }
  }

  // Means per round for budgets 0 to `limit`; `accepted` null where the text decides nothing.
  means() {
    if (!this.planned) return null;
    const mean = (sums) => Array.from(sums.subarray(0, this.limit + 1), (sum) => sum / this.planned);
    return { expected: mean(this.expected), accepted: decides(this.log) ? mean(this.accepted) : null,
      rounds: this.planned, limit: this.limit };
  }
}

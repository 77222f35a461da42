// Which comparison is on show: the recorded one, on which the tab opens, or the visitor's own last one.
// A comparison is {recorded, lanes, said}.

import { write } from "./dom.js";
import { prose } from "./glyphs.js";
import { recordedComparison } from "./recorded_comparison.js";

export class Comparisons {
  // `onShow` is told when there is another one to draw.
  constructor(part, onShow) {
    this.part = part;
    this.onShow = onShow;
    this.recorded = null;
    this.own = null;
    this.shown = null;
    part.otherComparison.onclick = () => this.show(this.#other);
    part.ownPrompt.onclick = () => {
      part.prompt.scrollIntoView({ block: "center" });
      part.prompt.focus({ preventScroll: true });
      part.prompt.select();
    };
  }

  // Opens on the recorded one, unless the visitor was faster.
  async openRecorded() {
    try {
      this.recorded = await recordedComparison();
    } catch (error) {
      write(this.part.blankReason, `The recorded comparison cannot be shown (${prose(error.message)}). Load the page again to ` +
        "see it; comparisons of your own work all the same.");
      this.part.blank.hidden = Boolean(this.shown);
      return;
    }
    if (this.shown) this.#describe();
    else this.show(this.recorded);
  }

  // The visitor's own takes the place of whatever is on show.
  begin(lanes, prompt) {
    this.own = { recorded: false, lanes, said: prompt && prose(`\u201c${prompt}\u201d`) };
    this.show(this.own);
  }

  show(comparison) {
    this.shown = comparison;
    this.#describe();
    this.onShow(comparison);
  }

  get #other() {
    return this.shown === this.own ? this.recorded : this.own;
  }

  #describe() {
    const { part, shown } = this;
    const { recorded } = shown;
    part.blank.hidden = true;
    part.results.hidden = false;
    part.results.dataset.recorded = recorded;
    write(part.comparisonTitle, recorded ? "A recorded comparison" : "Your comparison");
    write(part.comparisonSaid, shown.said);
    write(part.ownPrompt, recorded ? "Compare on your own prompt" : "Change and compare again");
    part.timedRecorded.hidden = !recorded;
    part.timedNow.hidden = recorded;
    part.otherComparison.hidden = !this.#other;
    write(part.otherComparison, recorded ? "Back to yours" : "Show the recorded one");
  }
}

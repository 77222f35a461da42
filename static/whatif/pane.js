// The what-if pane of Explore: other trees for the round on show, with no model and no server. It listens to Explore,
// and puts its own round in the place of the recorded one (`explore.suppose`) for as long as it is open.

import { write } from "../dom.js";
import { plural } from "../glyphs.js";
import { showCalibration } from "./calibration_chart.js";
import { CurveChart } from "./curve_chart.js";
import { showHeap } from "./heap_list.js";
import { HeldNode } from "./held_node.js";
import { PLANNERS, defaults } from "./planners.js";
import { Player } from "./player.js";
import { Ground, WITHIN, answer, shownRound } from "./question.js";
import { showDifference, showMeans, showNotes, showParts, showScore } from "./readout.js";
import { fillSettings } from "./settings_form.js";
import { Survey } from "./survey.js";
import { why } from "./why.js";

const WIDEST = 4; // the slider goes to so many times the recorded ranks: about as far as most rounds' records decide

export class WhatIf {
  constructor(explore) {
    this.explore = explore;
    this.part = explore.part;
    this.open = false;
    this.strategy = "ddtree";
    this.settings = Object.fromEntries(Object.keys(PLANNERS).map((name) => [name, defaults(name)]));
    this.budget = null;
    this.held = new HeldNode();
    this.player = new Player(this.part.whatPlay, { isOver: () => this.answer.nodes >= this.#horizon(), step: () => this.#step(1) });
    this.curve = new CurveChart(this.part.whatCurve, (budget) => this.setBudget(budget));
    this.#wire();
    explore.addEventListener("run", () => this.#newRun());
    explore.addEventListener("rounds", () => this.open && this.survey?.go());
    explore.addEventListener("round", () => this.open && this.#newRound());
    explore.addEventListener("node", () => this.open && this.#showWhy());
    explore.addEventListener("view", () => explore.view === "tree" || this.toggle(false)); // the others show the record
  }

  #wire() {
    const { part } = this;
    part.whatStrategy.append(...Object.entries(PLANNERS).map(([name, { title }]) => new Option(title, name)));
    part.whatToggle.onclick = () => this.toggle();
    part.whatLeave.onclick = () => {
      this.toggle(false);
      part.whatToggle.focus();
    };
    part.whatStrategy.onchange = () => this.setStrategy(part.whatStrategy.value);
    part.whatBudget.oninput = () => this.setBudget(Number(part.whatBudget.value));
    part.whatFirst.onclick = () => this.step(-Infinity);
    part.whatBack.onclick = () => this.step(-1);
    part.whatStep.onclick = () => this.step(1);
    part.whatPlay.onclick = () => this.play();
    part.whatShowHeap.onchange = () => this.#render();
    this.#fillSettings();
  }

  toggle(on = !this.open) {
    const { part, explore } = this;
    if (on === this.open || (on && !explore.log)) return;
    this.open = on;
    this.play(false);
    part.whatPane.hidden = !on;
    part.whatToggle.setAttribute("aria-pressed", String(on));
    part.whatToggle.closest(".cy-tree").classList.toggle("cy-supposing", on);
    if (on) {
      explore.showView("tree");
      this.#newRun();
      this.#newRound();
    } else {
      this.survey?.stop();
      this.ground = null;
      part.whatBanner.hidden = true;
      explore.suppose(null);
    }
  }

  setBudget(budget) {
    this.play(false);
    this.#budgetTo(budget);
  }

  setStrategy(name) {
    this.play(false);
    this.strategy = name;
    this.part.whatStrategy.value = name;
    this.#fillSettings();
    this.#render();
  }

  // The heap's pops are the budget: one pop more is one node more.
  step(by) {
    this.play(false);
    this.#step(by);
  }

  play(on = !this.player.playing) {
    if (!on) return this.player.stop();
    this.part.whatShowHeap.checked = true;
    if (this.answer?.nodes >= this.#horizon()) this.#budgetTo(1);
    else this.#render();
    this.player.start();
  }

  #step(by) {
    this.part.whatShowHeap.checked = true;
    this.#budgetTo((this.answer?.nodes ?? 1) + by);
  }

  #budgetTo(budget) {
    this.budget = Math.min(this.most, Math.max(1, budget));
    this.part.whatBudget.value = this.budget;
    this.#render();
  }

  // Where playing the pops ends: at the size of the recorded tree.
  #horizon() {
    return Math.min(this.ground?.round.drafted || this.most, this.ground?.growth?.most ?? this.most);
  }

  #fillSettings() {
    const { part, strategy } = this;
    const count = fillSettings(part.whatSettings, PLANNERS[strategy].settings, this.settings[strategy], () => this.#render());
    part.whatMore.classList.toggle("cy-what-none", count === 0);
  }

  // ---- what is on show ------------------------------------------------------------------------------------------

  // The slider's range belongs to the run, so that it does not move from round to round.
  #newRun() {
    const { log } = this.explore;
    this.survey?.stop();
    this.survey = null;
    this.columns = 1;
    if (!this.open || !log) return;
    const ranks = log.rounds.find((round) => round.marginals)?.marginals.token[0]?.length;
    const largest = log.rounds.reduce((most, round) => Math.max(most, round.drafted), 1);
    this.most = ranks === undefined ? largest : Math.min(1024, Math.max(16, WIDEST * ranks));
    this.part.whatBudget.max = this.most;
    this.survey = new Survey(log, this.most, () => this.#showSurvey());
    this.survey.go();
  }

  #newRound() {
    const { explore, part } = this;
    this.held.release();
    if (explore.current < 0 || !this.survey) {
      if (explore.current >= 0) this.#newRun();
      if (!this.survey || explore.current < 0) return this.#refuse("The first round is on its way\u2026");
    }
    this.ground = new Ground(explore.log, explore.current, this.most);
    this.budget ??= Math.min(this.most, Math.max(1, this.ground.round.drafted));
    part.whatBudget.value = Math.min(this.most, this.budget);
    this.#render();
  }

  #refuse(text) {
    const { part } = this;
    write(part.whatRefusal, text);
    part.whatRefusal.hidden = !text;
    part.whatBody.hidden = Boolean(text);
    part.whatBanner.hidden = Boolean(text);
    if (text) part.whatScore.replaceChildren();
    if (text && this.explore.supposed) this.explore.suppose(null);
  }

  #render() {
    const { ground, part, explore } = this;
    if (!this.open || !ground) return;
    const refusal = ground.refusal();
    this.#refuse(refusal ?? "");
    if (refusal) return;
    const strategy = ground.rows ? this.strategy : WITHIN;
    const title = strategy === WITHIN ? "recorded tree" : PLANNERS[strategy].title;
    this.answer = answer(ground, strategy, this.settings[strategy], Math.min(this.budget, this.most));
    write(part.whatBudgetValue, String(Math.min(this.budget, this.most)));
    for (const name of ["whatStrategy", "whatMore"]) part[name].toggleAttribute("inert", strategy === WITHIN);
    showScore(part, ground, this.answer);
    showNotes(part, ground, this.answer.notes);
    const heap = strategy === "ddtree" && Boolean(this.answer.plan);
    for (const name of ["whatFirst", "whatBack", "whatStep", "whatPlay", "whatShowHeap"]) part[name].disabled = !heap;
    part.whatBanner.hidden = !this.answer.plan;
    if (!this.answer.plan) return explore.supposed ? explore.suppose(null) : undefined;
    write(part.whatBanner, `Hypothetical, never run: ${title}, ${plural(this.answer.nodes, "node")}`);
    const { shown, state } = shownRound(ground, this.answer, title, heap, part.whatShowHeap.checked, this.#horizon());
    this.columns = Math.max(this.columns, ...shown.depth, shown.bonus ? shown.depth[shown.end] + 1 : 1);
    explore.suppose(shown, this.columns);
    this.#reselect(shown);
    showDifference(part, shown);
    if (heap) showHeap(part.whatHeap, part.whatPop, ground.rows, state, this.#labelOf);
    else {
      write(part.whatPop, ground.rows ? "The heap is DDTree\u2019s: choose it above to see it work." : "There are no marginals to pop from.");
      part.whatHeap.replaceChildren();
    }
    this.#showCurve();
    this.#showWhy();
  }

  #labelOf = (token) => this.explore.log.label(token);

  // A selected node stays selected while the tree changes, as long as it is on show.
  #reselect(shown) {
    const node = this.held.in(shown.tree);
    if (node === null) return;
    this.keeping = true; // selecting tells this pane, which need not note it again
    this.explore.select(node);
    this.keeping = false;
  }

  #showCurve() {
    const { ground, answer: here, part } = this;
    part.whatCurveFigure.classList.toggle("cy-what-none", !ground.growth);
    if (!ground.growth || !here.plan) return;
    this.curve.show({ growth: ground.growth, decided: ground.decided, means: this.survey?.means() ?? null, most: this.most,
      recorded: { nodes: ground.round.drafted, accepted: ground.round.accepted }, here });
  }

  #showSurvey() {
    const { part, survey } = this;
    if (!this.open || !survey) return;
    showMeans(part, survey.means());
    showCalibration(part.whatCalibration, part.whatCalibrationText, survey.calibration.result());
    write(part.whatCalibrationOf, `${survey.done} recorded rounds`);
    if (this.ground) this.#showCurve();
  }

  #showWhy() {
    const { explore, ground, part } = this;
    const round = explore.supposed;
    if (!round || !ground) return;
    const { selected } = explore;
    const count = round.tree.token.length;
    if (!this.keeping) this.held.hold(round.tree, selected < count ? selected : null);
    const node = selected ?? (round.bonus ? count : null);
    const verifier = explore.log.header.verifier;
    const parts = node === null ? ["Select a node to see why it was accepted or rejected."]
      : why(round, node, { ...ground, tokens: ground.decided ? ground.tokens : null, verifier, recorded: ground.round });
    showParts(part.whatWhy, parts, this.#labelOf);
  }
}

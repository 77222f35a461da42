// What is to be compared: one prompt and target, and up to four ways, each a drafter and a strategy with its settings.
// The choosers offer what fits, as the server says; it also checks what comes out of them.

import { make, write } from "./dom.js";
import { SettingsForm, field, fillSelect } from "./settings_form.js";

const LETTERS = "ABCD";

// One way: two choosers, the reasons for what they do not offer, and the settings of the strategy.
class Way {
  constructor(setup, wanted) {
    this.setup = setup;
    this.element = make("fieldset", "cy-way");
    this.title = make("legend");
    this.remove = make("button", "cy-link cy-way-remove", "Remove");
    this.remove.type = "button";
    this.remove.onclick = () => setup.remove(this);
    this.drafter = make("select");
    this.strategy = make("select");
    this.reasons = make("ul", "cy-reasons");
    const why = make("details", "cy-fold-box");
    why.append(make("summary", "", "Why not the others?"), this.reasons);
    this.settings = make("div", "cy-way-settings");
    this.element.append(this.title, this.remove, field("Drafter", this.drafter), field("Strategy", this.strategy), why, this.settings);
    this.drafter.onchange = this.strategy.onchange = () => this.refit();
    this.refit(wanted);
  }

  number(place) {
    write(this.title, "Way " + LETTERS[place]);
    this.drafter.setAttribute("aria-label", `Drafter of way ${LETTERS[place]}`);
    this.strategy.setAttribute("aria-label", `Strategy of way ${LETTERS[place]}`);
  }

  // Asks what fits, and shows that; an answer that another question has overtaken is dropped.
  async refit(wanted = { drafter: this.drafter.value, strategy: this.strategy.value }) {
    const asked = (this.asked = {});
    const { target } = this.setup.part;
    const offer = await this.setup.ask("fits", [target.value, wanted.drafter, wanted.strategy]);
    if (!offer || asked !== this.asked) return;
    fillSelect(this.drafter, offer.drafters, offer.drafter);
    fillSelect(this.strategy, offer.strategies, offer.strategy);
    const reasons = offer.reasons.map(([title, reason]) => (reason.startsWith(title) ? reason : `${title}: ${reason}`));
    this.reasons.replaceChildren(...(reasons.length ? reasons : ["Everything there is fits this target and drafter."])
      .map((reason) => make("li", "", reason)));
    if (this.shown !== offer.strategy) {
      this.shown = offer.strategy;
      this.form = new SettingsForm(this.settings, this.setup.choices.options[offer.strategy], "budget", "More settings");
      this.form.set(wanted.settings ?? {});
    }
    this.setup.changed();
  }

  get value() {
    return { drafter: this.drafter.value, strategy: this.strategy.value, settings: this.form?.values() ?? {} };
  }
}

export class Setup {
  // `failed(message, hint)` tells of a question that the server refused, or did not answer.
  constructor(part, server, failed) {
    this.part = part;
    this.server = server;
    this.failed = failed;
    this.ways = [];
    part.add.onclick = () => this.add(this.ways.at(-1)?.value);
    part.target.onchange = () => this.ways.forEach((way) => way.refit());
    part.examples.onchange = () => { part.prompt.value = part.examples.value; };
    this.ready = this.#load();
  }

  async ask(name, payload) {
    let said = null;
    try {
      said = await this.server[name](payload);
    } catch {
      said = { error: "The server does not answer.", hint: "See whether the server still runs, then try again." };
    }
    if (!said?.error) return said && JSON.parse(said);
    this.failed(said.error, said.hint);
    return null;
  }

  async #load() {
    const { part } = this;
    const choices = (this.choices = await this.ask("choices", null));
    if (!choices) return;
    fillSelect(part.target, choices.targets, choices.target);
    fillSelect(part.examples, choices.examples, choices.examples[0][1]);
    part.prompt.value = choices.examples[0][1];
    this.text = new SettingsForm(part.text, choices.text, "max_new_tokens", "Sampling");
    const offer = await this.ask("fits", [choices.target, choices.drafter, choices.strategy]);
    if (!offer) return;
    this.add({ drafter: offer.drafter, strategy: offer.strategy });
    const other = offer.strategies.find(([, id]) => id !== offer.strategy);
    this.add({ drafter: offer.drafter, strategy: other?.[1] ?? offer.strategy });
  }

  // A way more, at first a copy of the last one: most comparisons change one thing.
  add(wanted) {
    if (!this.choices || this.ways.length >= this.choices.most) return;
    const way = new Way(this, wanted ?? this.choices);
    this.ways.push(way);
    this.part.ways.append(way.element);
    this.#number();
  }

  remove(way) {
    this.ways.splice(this.ways.indexOf(way), 1);
    way.element.remove();
    this.#number();
    this.part.add.focus();
  }

  #number() {
    this.ways.forEach((way, place) => {
      way.number(place);
      way.remove.hidden = this.ways.length === 1;
    });
    this.part.add.disabled = this.ways.length >= this.choices.most;
    this.changed();
  }

  // Nothing can be run while a chooser is still empty.
  changed() {
    this.part.run.disabled = !this.ways.every((way) => way.form);
  }

  get value() {
    const { part } = this;
    return { prompt: part.prompt.value, target: part.target.value, ways: this.ways.map((way) => way.value),
      text: this.text.values() };
  }
}

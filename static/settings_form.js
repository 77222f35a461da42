// Native controls from the options of a settings class: name, default, help, bounds or choices. The server checks what
// comes out of them.

import { make } from "./dom.js";

const WIDEST_SLIDER = 100_000;
let serial = 0;

// A label with its control; `info` is a sentence below it.
export function field(title, control, info = "") {
  const line = make("label", "cy-field");
  line.append(make("span", "cy-field-title", title), control);
  if (info) {
    const help = make("small", "", info);
    help.id = "cy-help-" + ++serial;
    control.querySelector?.("input, select")?.setAttribute("aria-describedby", help.id);
    if (control.matches("input, select")) control.setAttribute("aria-describedby", help.id);
    line.append(help);
  }
  return line;
}

// Fills a select with [title, id] pairs.
export function fillSelect(select, choices, chosen) {
  select.replaceChildren(...choices.map(([title, id]) => {
    const option = make("option", "", title);
    option.value = id;
    return option;
  }));
  select.value = chosen;
}

export class SettingsForm {
  // `open` names the option that stands in front; the others are folded away.
  constructor(host, options, open, folded) {
    this.options = options;
    this.read = {};
    this.write = {};
    const front = options.filter((option) => option.name === open);
    const rest = options.filter((option) => option.name !== open);
    host.replaceChildren(...front.map((option) => this.#field(option)));
    if (!rest.length) return;
    const fold = make("details", "cy-fold-box");
    const reset = make("button", "cy-link", "Reset to defaults");
    reset.type = "button";
    reset.onclick = () => this.set(Object.fromEntries(options.map((option) => [option.name, option.default])));
    fold.append(make("summary", "", folded), ...rest.map((option) => this.#field(option)), reset);
    host.append(fold);
  }

  // Only what differs from the defaults: so a lane can be named by what is particular to it.
  values() {
    return Object.fromEntries(this.options.map(({ name }) => [name, this.read[name]()])
      .filter(([name, value]) => value !== this.options.find((option) => option.name === name).default));
  }

  set(values) {
    for (const [name, value] of Object.entries(values)) this.write[name]?.(value);
  }

  #field(option) {
    const title = option.name.replaceAll("_", " ").replace(/^./, (c) => c.toUpperCase());
    const control = typeof option.default === "boolean" ? this.#box(option) : option.choices.length ? this.#choice(option)
      : typeof option.default === "string" ? this.#text(option) : this.#number(option);
    return field(title, control, option.help);
  }

  #keep(option, control, property, parse) {
    this.read[option.name] = () => parse(control[property]);
    this.write[option.name] = (value) => { control[property] = value; control.dispatchEvent(new Event("input")); };
    this.write[option.name](option.default);
    return control;
  }

  #box(option) {
    const control = make("input");
    control.type = "checkbox";
    return this.#keep(option, control, "checked", Boolean);
  }

  #choice(option) {
    const control = make("select");
    fillSelect(control, option.choices.map((choice) => [choice, choice]), option.default);
    return this.#keep(option, control, "value", String);
  }

  #text(option) {
    const control = make("input");
    control.type = "text";
    return this.#keep(option, control, "value", String);
  }

  #number(option) {
    const { low, high, whole } = option;
    const wide = high - low > WIDEST_SLIDER;
    const number = make("input");
    number.type = "number";
    const range = make("input");
    range.type = "range";
    for (const input of [range, number]) {
      input.min = low;
      input.max = high;
      input.step = whole ? 1 : 0.01;
    }
    range.oninput = () => { number.value = range.value; };
    number.oninput = () => { range.value = number.value; };
    number.onchange = () => { number.value = Math.min(high, Math.max(low, Number(number.value) || 0)); number.oninput(); };
    number.setAttribute("aria-label", option.name.replaceAll("_", " "));
    range.setAttribute("aria-label", option.name.replaceAll("_", " ") + ", slider");
    const pair = make("span", "cy-number");
    pair.append(...(wide ? [number] : [range, number]));
    this.#keep(option, number, "value", Number);
    return pair;
  }
}

// The settings of one planner as number fields; the budget has its own slider.

import { make } from "../dom.js";

export function fillSettings(host, settings, values, onChange) {
  const entries = Object.entries(settings).filter(([name]) => name !== "budget");
  host.replaceChildren(...entries.map(([name, { low, high, step, label }]) => {
    const field = make("input");
    Object.assign(field, { type: "number", min: low, max: high, step: step === 1 ? 1 : "any", value: values[name] });
    field.dataset.setting = name;
    field.onchange = () => {
      const asked = step === 1 ? Math.round(field.valueAsNumber) : field.valueAsNumber;
      values[name] = Number.isFinite(asked) ? Math.min(high, Math.max(low, asked)) : values[name];
      field.value = values[name];
      onChange();
    };
    const line = make("label");
    line.title = name;
    line.append(make("span", "", label), field);
    return line;
  }));
  return entries.length;
}

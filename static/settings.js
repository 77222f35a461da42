// Marks the controls of the setup whose value is not their default, and tells a folded group how many it hides.

const SETUP = "#cy-setup";

// `defaults` by the ids of the controls; a control's value is read from what Gradio draws for it.
export class SettingsMarks {
  constructor(defaults) {
    this.defaults = defaults;
    const setup = document.querySelector(SETUP);
    if (!setup) return;
    // Gradio writes a value some frames after the event that changed it, and a reset changes values without an event.
    const soon = () => setTimeout(() => this.mark(), 120);
    for (const type of ["input", "change", "click", "keyup"]) setup.addEventListener(type, soon);
  }

  mark() {
    for (const [id, usual] of Object.entries(this.defaults)) {
      const control = document.getElementById(id);
      if (control) control.classList.toggle("cy-changed", !same(valueOf(control, usual), usual));
    }
    for (const fold of document.querySelectorAll(SETUP + " .cy-fold")) {
      const changed = fold.querySelectorAll(".cy-changed").length;
      fold.toggleAttribute("data-changed", changed > 0);
      fold.querySelector(".label-wrap")?.style.setProperty("--cy-changed", `" ${changed} changed"`);
    }
  }
}

function valueOf(control, usual) {
  if (typeof usual === "boolean") return control.querySelector("input[type=checkbox]")?.checked;
  const input = control.querySelector("input[type=number]") ?? control.querySelector("input, textarea");
  return typeof usual === "number" ? Number(input?.value) : input?.value;
}

// A slider's steps are sums of binary fractions.
function same(value, usual) {
  return value === undefined || value === usual || (typeof usual === "number" && Math.abs(value - usual) < 1e-9);
}

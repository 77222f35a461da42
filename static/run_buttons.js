// Run, Step and Stop. While no run of this page is on, Run and Step start one through Gradio; afterwards they steer it,
// and Gradio, which would start another, does not hear of the click.

const NAMES = { idle: "Run", running: "Run", waiting: "Run on" };

export class RunButtons {
  constructor({ step, proceed }) {
    this.state = "idle";
    document.addEventListener("click", (event) => {
      const button = event.target instanceof Element ? event.target.closest("#cy-run, #cy-step") : null;
      if (!button || this.state === "idle") return;
      event.stopImmediatePropagation();
      event.preventDefault();
      if (button.id === "cy-step") step();
      else if (this.state === "waiting") proceed();
    }, true);
    this.#whenThere(50);
  }

  // Gradio may draw the buttons later than the tree; a stand-alone page has none.
  #whenThere(tries) {
    const stepper = document.querySelector("#cy-step");
    const refusal = document.querySelector("#cy-no-steps"); // where this server's device cannot wait
    const there = stepper && (refusal || !stepper.disabled);
    if (!there) return void (tries && setTimeout(() => this.#whenThere(tries - 1), 200));
    stepper.title = refusal?.textContent.trim() ?? "Decode one round, then wait";
    if (refusal) stepper.setAttribute("aria-describedby", refusal.id);
    this.show(this.state);
  }

  // idle: no run; running: rounds come; waiting: for the next step.
  show(state) {
    this.state = state;
    document.body.classList.toggle("cy-running", state !== "idle");
    const run = document.querySelector("#cy-run");
    if (!run) return;
    run.disabled = state === "running";
    document.querySelector("#cy-stop").disabled = state === "idle";
    const text = [...run.childNodes].find((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (text && text.data.trim() !== NAMES[state]) text.data = NAMES[state];
  }
}

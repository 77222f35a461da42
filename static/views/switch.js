// Which view of the round stands in the tree's place. All of them share one contract: see canvas_view.js. They come
// when they are first asked for, and only the one on show is drawn.

const VIEWS = {
  mass: async () => (await import("./mass.js")).MassView,
  marginals: async () => (await import("./marginals.js")).MarginalsView,
  mask: async () => (await import("./mask.js")).MaskView,
  table: async () => (await import("./table.js")).TableView,
};
export const NAMES = ["tree", ...Object.keys(VIEWS)];

export class ViewSwitch {
  constructor(explore) {
    this.explore = explore;
    this.name = "tree";
    this.living = {};
    this.panes = {};
    const { part } = explore;
    for (const button of part.viewSwitch.querySelectorAll("[data-view]")) button.onclick = () => explore.showView(button.dataset.view);
    for (const pane of part.views.children) this.panes[pane.dataset.pane] = pane;
    explore.addEventListener("round", () => this.#show());
    explore.addEventListener("rounds", () => this.living[this.name]?.refresh());
    explore.addEventListener("node", () => this.living[this.name]?.select(explore.selected));
  }

  // Unknown names, as a link may hold them, change nothing.
  choose(name) {
    if (!NAMES.includes(name) || name === this.name) return false;
    this.name = name;
    const { part } = this.explore;
    for (const button of part.viewSwitch.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", String(button.dataset.view === name));
    for (const [each, pane] of Object.entries(this.panes)) pane.hidden = each !== name;
    part.treeTools.style.visibility = name === "tree" ? "" : "hidden";
    this.explore.tree.sleep(name !== "tree");
    this.#load(name);
    return true;
  }

  async #load(name) {
    if (name !== "tree" && !this.living[name]) {
      const View = await VIEWS[name]();
      this.living[name] ??= new View(this.panes[name], { onSelect: (node) => this.explore.select(node) });
    }
    if (this.name === name) this.#show();
  }

  #show() {
    const { explore } = this;
    const view = this.living[this.name];
    if (!view || !explore.log) return;
    view.show(explore.log.rounds[explore.current] ?? null, explore.log);
    if (explore.selected !== null && explore.selected !== undefined) view.select(explore.selected);
  }
}

// Keys of the page. They stay silent while someone types, and while another control wants them.

import { NAMES } from "./views/switch.js";

export const TYPING = "input:not([type=range]), textarea, select, [contenteditable=true], [role=combobox], [role=listbox]";
const WALK = { ArrowLeft: "parent", ArrowRight: "child", ArrowUp: "previous", ArrowDown: "next" };
const PRESSING = "button, a, summary, input[type=checkbox], [role=button]";

export function listenToKeys(explore) {
  const last = () => explore.log.rounds.length - 1;
  document.body.append(explore.part.keys); // to be seen from every tab
  const ready = () => explore.log && explore.visible;
  listen({
    ArrowLeft: () => explore.scrub(explore.current - 1),
    ArrowRight: () => explore.scrub(explore.current + 1),
    Home: () => explore.scrub(0),
    End: () => explore.scrub(last()),
    " ": () => explore.togglePlay(),
    ",": () => explore.walk(-1),
    ".": () => explore.walk(1),
    "<": () => explore.walkRejected(-1),
    ">": () => explore.walkRejected(1),
    f: () => explore.tree.fit(!explore.tree.moved),
    0: () => explore.tree.fit(),
    w: () => explore.part.whatToggle.click(),
    Escape: () => explore.select(null),
    "?": () => explore.part.keys.showModal(),
    ...Object.fromEntries(NAMES.map((name, place) => [place + 1, () => explore.showView(name)])),
    ...Object.fromEntries(Object.entries(WALK).map(([key, way]) => ["Shift " + key, () => explore.stepTo(way)])),
  }, ready, explore.part.slider);
}

// A dialog has the keys to itself: its Escape closes it.
export const dialogOpen = () => document.querySelector("dialog[open]") !== null;

// `actions` by key, with "Shift " in front of an arrow's; silent unless `ready()`. Arrows on a slider are its own, but
// for the slider that they move anyway.
export function listen(actions, ready, slider) {
  document.addEventListener("keydown", (event) => {
    const action = actions[event.shiftKey && event.key in WALK ? "Shift " + event.key : event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const at = event.target instanceof Element ? event.target : document.body;
    if (at.closest(TYPING) || dialogOpen() || !ready()) return;
    const range = at.closest("input[type=range]");
    if (range && range !== slider) return;
    if (event.key === " " && at.closest(PRESSING)) return;
    event.preventDefault();
    action();
  });
}

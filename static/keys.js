// Keys of the page. They stay silent while someone types, and while another control wants them.

const TYPING = "input:not([type=range]), textarea, select, [contenteditable=true], [role=combobox], [role=listbox]";
const PRESSING = "button, a, summary, input[type=checkbox], [role=button]";

export function listenToKeys(explore) {
  const last = () => explore.log.rounds.length - 1;
  const actions = {
    ArrowLeft: () => explore.scrub(explore.current - 1),
    ArrowRight: () => explore.scrub(explore.current + 1),
    Home: () => explore.scrub(0),
    End: () => explore.scrub(last()),
    " ": () => explore.togglePlay(),
    ",": () => explore.walk(-1),
    ".": () => explore.walk(1),
    f: () => explore.tree.fit(!explore.tree.moved),
    0: () => explore.tree.fit(),
    Escape: () => explore.select(null),
    "?": () => explore.part.keys.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const at = event.target instanceof Element ? event.target : document.body;
    if (at.closest(TYPING) || explore.part.keys.open || !explore.log) return;
    const range = at.closest("input[type=range]");
    if (range && range !== explore.part.slider) return;
    if (event.key === " " && at.closest(PRESSING)) return;
    event.preventDefault();
    action();
  });
}

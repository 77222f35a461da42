// The page: mounts what stands in each tab, the first time that the tab is seen, and keeps theme and tabs.

import { Explore } from "./explore.js";
import { chooseFiles } from "./import_runs.js";
import { startSharing } from "./sharing.js";
import { shelf } from "./shelf.js";

// What a component's template calls itself in data-cy-view, and the class that brings it to life.
const VIEWS = {
  explore: async () => Explore,
  compare: async () => (await import("./compare.js")).Compare,
  models: async () => (await import("./models.js")).Models,
  learn: async () => (await import("./learn.js")).Learn,
  sessions: async () => (await import("./sessions.js")).Sessions,
};

// What the glue in Python and the tests call: see workbench/panels/.
window.canopy = { shelf, showTab, importRun: chooseFiles };
const seen = {};

// Views measure themselves and look for what stands beside them, so they come to life once the style sheets are there and
// Gradio has drawn the setup. This module is preloaded and can be earlier than both.
const styled = Promise.all([...document.querySelectorAll('link[rel="stylesheet"][href^="canopy/"]')]
  .filter((link) => !link.sheet)
  .map((link) => new Promise((done) => { link.onload = link.onerror = done; })));

async function drawn() {
  const began = performance.now();
  const missing = () => ["#cy-run", "#cy-step", "#cy-stop", "#cy-device"].some((id) => !document.querySelector(id));
  while (missing() && performance.now() - began < 10_000) await new Promise((next) => setTimeout(next, 10));
}

async function mount(handles) {
  await Promise.all([styled, drawn()]);
  const name = handles.element.querySelector("[data-cy-view]").dataset.cyView;
  const View = await VIEWS[name]();
  window.canopy[name] = new View(handles);
  if (name === "explore") import("./whatif/pane.js").then(({ WhatIf }) => { window.canopy.whatif = new WhatIf(window.canopy.explore); });
  (seen[name] ??= Promise.withResolvers()).resolve(window.canopy[name]);
  if (name === "explore") followAddress(); // the first to mount: from now on tabs can be opened
}

// An address that names a tab (#learn=heap.2) opens it; the rest is for what lives there.
function followAddress() {
  for (const name of new URLSearchParams(location.hash.slice(1)).keys()) if (name in VIEWS) showTab(name);
}

// Opens a tab and gives what lives in it.
function showTab(name) {
  document.querySelector(`#cy-tab-${name}-button`)?.click();
  return (seen[name] ??= Promise.withResolvers()).promise;
}

function toggleTheme() {
  const dark = document.body.classList.toggle("dark");
  try { localStorage.setItem("canopy-theme", dark ? "dark" : "light"); } catch { /* a private window has no storage */ }
}

function restoreTheme() {
  let wanted = null;
  try { wanted = localStorage.getItem("canopy-theme"); } catch { /* as above */ }
  if (wanted && !new URLSearchParams(location.search).has("__theme")) document.body.classList.toggle("dark", wanted === "dark");
}

restoreTheme();
window.addEventListener("hashchange", followAddress);
document.addEventListener("click", (event) => {
  if (event.target.closest("#cy-theme")) toggleTheme();
  if (event.target.closest("#cy-help")) window.canopy.explore?.part.keys.showModal();
});

// Components announce themselves in a queue (js_on_load), whichever of page and component is ready first.
const queue = (window.canopyMounts ??= []);
queue.splice(0).forEach(mount);
queue.push = (handles) => mount(handles);
startSharing((seen.explore ??= Promise.withResolvers()).promise);

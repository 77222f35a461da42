// Elements from plain values. Text goes in by textContent, never as HTML.

export function make(tag, classes = "", text = undefined) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  if (text !== undefined) element.textContent = text;
  return element;
}

// The parts of a template by their data-part name.
export function parts(root) {
  return Object.fromEntries([...root.querySelectorAll("[data-part]")].map((e) => [e.dataset.part, e]));
}

export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Calls back whenever light becomes dark or dark light: canvases keep colours that they have read.
export function onThemeChange(callback) {
  new MutationObserver(callback).observe(document.body, { attributeFilter: ["class"] });
}

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

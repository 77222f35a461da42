// Short messages over the page: they push nothing aside. Warnings and errors stay until they are dismissed.

import { make } from "./dom.js";
import { prose } from "./glyphs.js";

const FADES = 8000;
let host = null;

// `kind` is info, warning or error; `actions` are named functions. Gives a function that closes the note.
export function note(message, { hint = "", kind = "info", actions = {}, onClose = () => {}, stays = kind !== "info" } = {}) {
  if (!host?.isConnected) document.querySelector(".gradio-container").append((host = make("div", "cy-notes")));
  const box = make("div", "cy-note cy-note-" + kind);
  box.setAttribute("role", kind === "info" ? "status" : "alert");
  const text = make("div");
  text.append(make("strong", "", prose(message)));
  if (hint) text.append(make("p", "", prose(hint)));
  const buttons = make("div", "cy-actions");
  let open = true;
  const close = () => {
    if (!open) return;
    open = false;
    box.remove();
    onClose();
  };
  for (const [name, action] of Object.entries(actions)) {
    const button = make("button", "cy-button", name);
    button.type = "button";
    button.onclick = () => { action(); close(); };
    buttons.append(button);
  }
  const dismiss = make("button", "cy-button", "Dismiss");
  dismiss.type = "button";
  dismiss.onclick = close;
  buttons.append(dismiss);
  box.append(text, buttons);
  host.append(box);
  if (!stays) setTimeout(close, FADES);
  return close;
}

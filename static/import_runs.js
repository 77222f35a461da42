// Traces from files: dropped anywhere on the page, or chosen. The server's strict reader checks each (one schema, one
// judge: see decoding/trace.py); only then is it shown.

import { make } from "./dom.js";
import { Refused, upload } from "./kept_runs.js";
import { note } from "./notes.js";
import { openImported } from "./opening.js";
import { RunLog } from "./run_log.js";
import { shelf } from "./shelf.js";
import { randomHex } from "./ticket.js";

export const MAX_MEGABYTES = 64; // as in workbench/kept_runs.py
const ACCEPT = ".jsonl,.ndjson,.json,application/x-ndjson";

export async function importFiles(files) {
  let last = null;
  for (const file of files) {
    const done = note(`Checking ${file.name}\u2026`, { stays: true });
    try {
      last = await importOne(file);
    } catch (error) {
      note(`${file.name} was not imported. ${error.message}`, { hint: error.hint ?? "", kind: "error" });
    } finally {
      done();
    }
  }
  if (!last) return;
  openImported(await window.canopy.showTab("explore"), last.log);
}

async function importOne(file) {
  if (file.size > MAX_MEGABYTES * 2 ** 20) {
    throw new Refused(`It is larger than ${MAX_MEGABYTES} MB.`, "Import a shorter run.");
  }
  const { id, lines, torn } = await upload(file);
  const text = (await file.text()).split("\n").slice(0, lines).join("\n") + "\n";
  const log = RunLog.fromLines(randomHex(), text);
  if (torn) note(`The last line of ${file.name} was cut off in the middle.`, { hint: "The rounds before it are whole, and are shown." });
  return shelf.add(log, file.name.replace(/\.(jsonl|ndjson|json)$/i, "").slice(0, 120) || "Imported run", "imported", { link: id });
}

export function chooseFiles() {
  const input = make("input");
  input.type = "file";
  input.accept = ACCEPT;
  input.multiple = true;
  input.onchange = () => importFiles([...input.files]);
  input.click();
}

// The whole page takes files.
export function listenToDrops() {
  const sheet = make("div", "cy-drop");
  sheet.append(make("p", "", "Drop a trace (.jsonl) to look at it"));
  sheet.hidden = true;
  document.body.append(sheet);
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
  const show = (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    sheet.hidden = false;
  };
  document.addEventListener("dragenter", show);
  document.addEventListener("dragover", show);
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) sheet.hidden = true; });
  document.addEventListener("drop", (event) => {
    sheet.hidden = true;
    if (!holdsFiles(event)) return;
    event.preventDefault();
    importFiles([...event.dataTransfer.files]);
  });
}

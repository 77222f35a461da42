// The dialog for the run on show: a link to what is seen, a frame for other pages, and files to save.

import { linkTo, placeOf } from "./address.js";
import { make, parts, write } from "./dom.js";
import { prose } from "./glyphs.js";
import { library } from "./library.js";
import { note } from "./notes.js";
import { drawingOf, pictureOf } from "./pictures.js";
import { shelf } from "./shelf.js";
import { standalonePage } from "./standalone.js";
import { nodesTable, roundsTable } from "./tables.js";

const text = (type, content) => new Blob([content], { type: type + ";charset=utf-8" });

// What can be saved: title, what it is, the ending of its name, and how it is made.
const FILES = {
  trace: ["Trace", "every event; can be imported again", "jsonl", ({ log }) => text("application/x-ndjson", log.lines())],
  page: ["Page", "replays with no network", "html", async (explore) =>
    text("text/html", await standalonePage(explore.log, nameOf(explore.log), { round: explore.current + 1, node: explore.selected, view: explore.view ?? null }))],
  rounds: ["Rounds", "table, one line a round", "rounds.csv", ({ log }) => text("text/csv", roundsTable(log))],
  nodes: ["Nodes", "table, one line a node", "nodes.csv", ({ log }) => text("text/csv", nodesTable(log))],
  drawing: ["Drawing", "this tree, as vectors", "svg", (explore) => text("image/svg+xml", drawingOf(explore))],
  picture: ["Picture", "this tree, as pixels", "png", (explore) => pictureOf(explore)],
};
const OF_A_ROUND = ["drawing", "picture"];

function nameOf(log) {
  return shelf.of(log)?.name ?? "A run";
}

// Saves one of FILES of what is on show.
export async function saveFile(explore, kind) {
  const [, , ending, content] = FILES[kind];
  const plain = nameOf(explore.log).normalize("NFKD").replace(/[^\w]+/g, "-").replace(/^-+|-+$/g, "").toLowerCase().slice(0, 48);
  const round = OF_A_ROUND.includes(kind) ? `-round-${explore.current + 1}` : "";
  try {
    save(await content(explore), `canopy-${plain || "run"}${round}.${ending}`);
  } catch (error) {
    note(`The ${FILES[kind][0].toLowerCase()} could not be made.`, { hint: error.message, kind: "error" });
  }
}

function save(blob, name) {
  const link = make("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export async function copy(value, field) {
  try {
    await navigator.clipboard.writeText(value);
    return true;
  } catch { // no permission, or a page without https
    field.select();
    return document.execCommand("copy");
  }
}

function frameOf(address) {
  const escaped = address.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  return `<iframe src="${escaped}" title="Draft tree in Canopy" width="100%" height="560" style="border:0" loading="lazy"></iframe>`;
}

export class ShareDialog {
  constructor(explore) {
    this.explore = explore;
    explore.part.share.onclick = () => this.open();
  }

  async #build() {
    const answer = await fetch(new URL("share.html", import.meta.url));
    const holder = make("div");
    holder.innerHTML = await answer.text(); // our own template: no value is in it
    this.dialog = holder.firstElementChild;
    this.part = parts(this.dialog);
    document.querySelector(".gradio-container").append(this.dialog);
    for (const [kind, [title, what]] of Object.entries(FILES)) {
      const button = make("button", "cy-button cy-file");
      button.type = "button";
      button.dataset.file = kind;
      button.append(make("b", "", title), make("span", "", what));
      button.onclick = () => saveFile(this.explore, kind);
      this.part.files.append(button);
    }
    for (const name of ["link", "frame"]) {
      this.part[name + "Copy"].onclick = async () => {
        const copied = await copy(this.part[name].value, this.part[name]);
        write(this.part[name + "Copy"], copied ? "Copied" : "Press Ctrl+C");
      };
    }
  }

  async open() {
    const { explore } = this;
    const entry = shelf.of(explore.log);
    if (!entry || explore.current < 0) return void note("There is nothing to share yet.", { hint: "Wait for the first round." });
    if (!this.dialog) await this.#build();
    const { part } = this;
    write(part.title, prose(entry.name));
    write(part.place, `Round ${explore.current + 1} of ${explore.log.rounds.length}` +
      (explore.selected === null ? "" : `, node ${explore.selected}`));
    for (const name of ["link", "frame"]) {
      part[name].value = "";
      write(part[name + "Copy"], "Copy");
      part[name + "Copy"].disabled = true;
    }
    write(part.problem, "");
    this.dialog.showModal();
    try {
      const run = await library.linkOf(entry);
      const place = { ...placeOf(explore), run };
      part.link.value = linkTo(place);
      part.frame.value = frameOf(linkTo(place, { embed: true }));
      for (const name of ["link", "frame"]) part[name + "Copy"].disabled = false;
    } catch (error) {
      write(part.problem, `There is no link: ${prose(error.message)} Save the trace instead and send the file.`);
    }
  }
}

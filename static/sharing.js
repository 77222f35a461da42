// Starts what makes runs last and travel, whichever tab is open: the browser's own store, files dropped on the page,
// the address, the dialog for sharing, and the frame for other pages.

import { embedded, followAddress, linkTo, placeOf } from "./address.js";
import { listenToDrops } from "./import_runs.js";
import { library } from "./library.js";
import { note } from "./notes.js";
import { ShareDialog } from "./share.js";

export async function startSharing(exploring) {
  document.documentElement.classList.toggle("cy-embed", embedded());
  library.start();
  library.addEventListener("full", ({ detail }) => note(detail === 1 ? "The oldest run had to go." : `The ${detail} oldest runs had to go.`, {
    hint: "This browser keeps 60 runs or 128 MB. Save a trace to have it for good." }));
  library.addEventListener("failed", () => note("This run could not be kept in this browser.", {
    hint: "Save its trace under Share, or delete runs that you do not need.", kind: "warning" }));
  listenToDrops();
  const explore = await exploring;
  window.canopy.share = new ShareDialog(explore);
  await explore.ready;
  followAddress(explore);
  if (embedded()) keepWayOut(explore);
}

// In a frame: the way to the whole page, at what is on show.
function keepWayOut(explore) {
  const update = () => { explore.part.whole.href = linkTo(placeOf(explore)); };
  for (const event of ["run", "round", "node", "view"]) explore.addEventListener(event, update);
  update();
}

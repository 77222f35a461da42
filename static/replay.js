// The stand-alone page: Explore over the one run that stands in the page (see standalone.js). No server, no network.

import { Explore } from "./explore.js";
import { WhatIf } from "./whatif/pane.js";

const element = document.getElementById("cy-replay");
const explore = new Explore({ element, props: { defaults: "{}" }, server: {}, watch: () => {} });
window.canopy = { explore, whatif: new WhatIf(explore) };

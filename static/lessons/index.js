// The lessons, in their order. A lesson is data:
//   run, pick    the bundled run that it looks at, and the rule that chooses the round (learn/picks.js)
//   beside       other bundled runs that its facts need
//   steps        {say, cite, show, run?, pick?}: a sentence with {facts} (learn/facts.js), the paper and section that say
//                so, and a drawing {as, ...} (learn/figures.js) with `light`, the nodes to emphasise (learn/nodes.js)
//   attempt      the run and the round that "try it" opens
//   question, answer

import { attention } from "./attention.js";
import { drafting } from "./drafting.js";
import { heap } from "./heap.js";
import { marginals } from "./marginals.js";
import { plain } from "./plain.js";
import { pruning } from "./pruning.js";
import { speedup } from "./speedup.js";
import { trees } from "./trees.js";

export const LESSONS = [plain, drafting, trees, marginals, heap, attention, pruning, speedup];

// The recorded runs that ship with the page. One is fetched when it is first opened, and then stands on the shelf.

import { RunLog } from "./run_log.js";
import { shelf } from "./shelf.js";

// `name` is its number on the shelf, the name of its file what it is called in addresses; how each was made says
// traces/README.md.
export const BUNDLED = [
  { name: "recorded", file: "welcome.jsonl", title: "Recorded run: DDTree",
    about: "The best tree over the marginals of a block drafter." },
  { name: "plain", file: "plain.jsonl", title: "Plain decoding",
    about: "No draft at all: one token a round." },
  { name: "chain", file: "chain.jsonl", title: "A drafted chain",
    about: "Linear speculative decoding: one continuation a round." },
  { name: "dynatree", file: "dynatree.jsonl", title: "DynaTree",
    about: "Breadth by confidence, depth by path probability, over a stepwise drafter." },
  { name: "graft", file: "graft.jsonl", title: "Graft",
    about: "A draft pruned where it is unsure, its places filled with retrieved tokens." },
  { name: "ddtree-graft", file: "ddtree-graft.jsonl", title: "DDTree with grafts",
    about: "Drafted and retrieved nodes compete for one budget." },
  { name: "recycle", file: "recycle.jsonl", title: "Token Recycling",
    about: "No drafter: a fixed tree filled from what the target said before." },
  ...[["plain", "Plain decoding", "No draft at all."],
    ["auto", "Auto", "The budget that measured costs and acceptance make worth most, chosen anew in every round."],
    ["ddtree", "DDTree", "The best tree of eight nodes over a block drafter."],
    ["ddtree-graft", "DDTree with grafts", "Eight nodes, drafted and retrieved ones in one plan."],
    ["eagle", "EAGLE-2/3", "The dynamic tree of a stepwise drafter: most tokens a round for a drafter, and slow on a CPU."],
    ["recycle", "Token Recycling", "Most tokens a round of all here, and a large tree to check each time."],
  ].map(([way, title, about]) => ({ name: "sum-" + way, file: `sum-${way}.jsonl`, title: title + ", on a sum", way: title, about })),
];

export const keyOf = (run) => run.file.replace(".jsonl", "");

const opened = new Map();

// The run of that name; the promise fails with a readable message where it cannot be had.
export function openBundled(name) {
  if (!opened.has(name)) {
    const coming = load(BUNDLED.find((run) => run.name === name));
    coming.catch(() => opened.delete(name)); // asked for again, it is fetched again
    opened.set(name, coming);
  }
  return opened.get(name);
}

// Its place on the shelf, by what it is called in addresses; null where none of that name ships with the page.
export async function bundled(key) {
  const run = BUNDLED.find((one) => keyOf(one) === key);
  return run ? shelf.of(await openBundled(run.name)) : null;
}

async function load(run) {
  const answer = await fetch(new URL("traces/" + run.file, import.meta.url));
  if (!answer.ok) throw new Error("status " + answer.status);
  const log = RunLog.fromLines(run.name, await answer.text());
  shelf.add(log, run.title, "recorded", { key: keyOf(run) });
  return log;
}

// A step of a lesson, brought together with its recording: the round it looks at, its sentence, its drawing.

import { FACTS } from "./facts.js";
import { drafted } from "./measures.js";
import { LIGHTS } from "./nodes.js";
import { PICKS } from "./picks.js";

export class Unresolved extends Error {}

// The runs that a lesson needs, by their bundled names.
export function runsOf(lesson) {
  const asked = [...lesson.steps, lesson.attempt].flatMap((step) => [step.run ?? [], step.beside ?? []].flat());
  return [...new Set([lesson.run, ...(lesson.beside ?? []), ...asked])];
}

// `logs` holds the runs by name. Throws Unresolved where a recording does not have what the step speaks of.
export function resolve(lesson, step, logs) {
  const log = logs[step.run ?? lesson.run];
  const rule = step.pick ?? lesson.pick;
  const index = PICKS[rule](log);
  if (index < 0) throw new Unresolved(`no round for "${rule}"`);
  const round = log.rounds[index];
  const scene = { log, index, round, logs, lesson, pops: popsOf(step, round) };
  const show = step.show ?? { as: "tree" };
  const lit = show.light ? LIGHTS[show.light](scene) : null;
  if (lit && (!lit.length || lit.some((node) => node === null))) throw new Unresolved(`nothing to light for "${show.light}"`);
  return { ...scene, show, lit, say: sentence(step.say ?? "", scene) };
}

// A step names its pops as a number or as a share of the tree.
function popsOf(step, round) {
  const { pops = 0 } = step.show ?? {};
  const wanted = pops === "all" ? round.drafted : pops === "half" ? round.drafted >> 1 : pops;
  return Math.min(wanted, drafted(round).length);
}

// Pieces of the sentence in order: plain strings, {fact: text}, {token: label}.
function sentence(template, scene) {
  return template.split(/\{(\w+)\}/).flatMap((part, place) => {
    if (place % 2 === 0) return part ? [part] : [];
    if (!FACTS[part]) throw new Unresolved(`there is no fact "${part}"`);
    const fact = FACTS[part](scene);
    if (fact === null || fact === undefined) throw new Unresolved(`this run has no "${part}"`);
    if (typeof fact === "string") return [{ fact }];
    return fact.tokens.flatMap((token, nth) => [...(nth ? [" "] : []), { token: scene.log.label(token) }]);
  });
}

// Two trees drafted after the same text, laid over each other: which nodes are in the one, in the other, in both.
// A node is told by its path of tokens from the root.

import { probability } from "./glyphs.js";
import { derive } from "./run_log.js";

const VERDICT = ["logprob", "rank", "choice", "entropy", "top_token", "top_logprob"];

// Each side is {name, round, offset}: a round, and which node of its accepted path stands at the text position in hand.
// Gives a round that holds both trees, as TreeView draws it, and the numbers of nodes, the root not counted.
export function difference(left, right) {
  const sides = [left, right].map(below);
  const members = []; // by node of the union: the node of each side, undefined where it has none
  const parents = [];
  const numbers = new Map();
  const places = sides.map((side, which) => {
    const at = [];
    side.nodes.forEach((node, index) => {
      const parent = index ? at[side.parents[index]] : -1;
      const key = index ? parent + " " + side.round.tree.token[node] : "root";
      if (!numbers.has(key)) {
        numbers.set(key, members.length);
        members.push([]);
        parents.push(parent);
      }
      at.push(numbers.get(key));
      members[numbers.get(key)][which] = node;
    });
    return at;
  });
  const paths = sides.map((side, which) => side.path.map((index) => places[which][index]));
  const round = united(sides, members, parents, paths);
  const count = (half) => round.half.filter((value, node) => node && value === half).length;
  return { round, both: count(""), left: count("left"), right: count("right") };
}

// The part of a tree below a node of its accepted path: what it had drafted after that text.
function below({ name, round, offset }) {
  const root = round.path[offset];
  const numbers = new Map([[root, 0]]);
  const parents = [-1];
  for (let node = root + 1; node < round.tree.parent.length; node++) {
    const parent = numbers.get(round.tree.parent[node]);
    if (parent === undefined) continue;
    numbers.set(node, numbers.size);
    parents.push(parent);
  }
  return { name, round, nodes: [...numbers.keys()], parents, path: round.path.slice(offset).map((n) => numbers.get(n)) };
}

function united(sides, members, parents, paths) {
  // What either side says of a node; the target says the same to both, for it has read the same.
  const of = (node) => (members[node][0] !== undefined ? [sides[0].round, members[node][0]] : [sides[1].round, members[node][1]]);
  const column = (pick) => members.map((_, node) => pick(...of(node)));
  const [short, long] = paths[0].length <= paths[1].length ? [0, 1] : [1, 0];
  const parted = paths[short].findIndex((node, place) => node !== paths[long][place]);
  const path = parted < 0 ? paths[long] : paths[long].slice(0, parted); // drawn texts part, greedy ones do not
  const { bonus } = sides[long].round;
  const tokens = column((round, node) => round.tree.token[node]);
  const closed = parted < 0 && bonus;
  const round = derive({
    tree: { token: tokens, parent: parents, source: column((round, node) => round.tree.source[node]),
      logprob: column((round, node) => round.tree.logprob[node]).map((value, node) => (node ? value : 0)) },
    verdict: { path, bonus: bonus?.token ?? null,
      ...Object.fromEntries(VERDICT.map((name) => [name, column((round, node) => round.verdict[name][node])])) },
    emitted: [...path.slice(1).map((node) => tokens[node]), ...(closed ? [bonus.token] : [])],
  });
  round.half = members.map(([a, b]) => (b === undefined ? "left" : a === undefined ? "right" : ""));
  round.notes = members.map((pair, node) => [
    ["in", sides.filter((_, which) => pair[which] !== undefined).map((side) => side.name).join(" and ")],
    ...(node ? sides.map((side, which) => [side.name + " draft p",
      probability(pair[which] === undefined ? null : side.round.tree.logprob[pair[which]])]) : []),
  ]);
  return round;
}

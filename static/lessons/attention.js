export const attention = {
  id: "attention",
  title: "Tree attention",
  run: "recorded",
  pick: "mostAcceptedOfMarginals",
  steps: [
    {
      say: "To check a tree in one pass it is laid out as a list: {nodes}, the root first, every parent before its children. Each row is a token that reads, each column one that may be read.",
      show: { as: "mask" },
      cite: "DDTree, section 4.4; DynaTree, section 3.4",
    },
    {
      say: "{endToken} reads the text so far and, within the tree, only the way to itself: {endLineage}. All else is masked.",
      show: { as: "mask", row: "end" },
      cite: "DDTree, section 4.4; DynaTree, section 3.4",
    },
    {
      say: "In the tree these are its ancestors. For this node it is as if the other branches were not there.",
      show: { as: "tree", light: "endLineage" },
      cite: "DynaTree, section 3.4",
    },
    {
      say: "{cousin} is on another branch: it has ancestors of its own, and neither of the two sees the other, though one pass carries both.",
      show: { as: "mask", row: "cousin" },
      cite: "DynaTree, section 3.4",
    },
    {
      say: "The place in the list is not the place in the text. A position is the root\u2019s plus the depth: {atFirstDepth} share position {firstPosition} here, as each could be the next token.",
      show: { as: "tree", light: "firstDepth" },
      cite: "DDTree, section 4.4",
    },
    {
      say: "With mask and positions every node is reckoned as if its path stood alone behind the text. That is why the target\u2019s choices are those of plain decoding.",
      show: { as: "tree", light: "outcome" },
      cite: "DynaTree, section 3.6",
    },
    {
      say: "Afterwards only the accepted path and the root stay in the cache: {before} entries became {after}, the other {dropped} are dropped. DynaTree drops all, and reckons the accepted ones again.",
      show: { as: "tree", light: "path" },
      cite: "DDTree, section 4.4; DynaTree, section 3.5",
    },
  ],
  attempt: { run: "recorded", pick: "mostAcceptedOfMarginals" },
  question: "What if the nodes were numbered by their place in the list instead of their depth?",
  answer: "A node would read its own path as if strange gaps stood between the tokens. The target would choose after another text than the real one, and the output would no longer be that of plain decoding.",
};

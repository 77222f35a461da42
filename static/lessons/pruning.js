export const pruning = {
  id: "pruning",
  title: "Pruning and grafting",
  run: "graft",
  pick: "gated",
  beside: ["plain"],
  steps: [
    {
      say: "DynaTree makes breadth follow confidence. After {unsureToken} the drafter\u2019s best guess has {unsureConfidence}, below \u03c4\u2113 = {lowConfidence}, so there are {unsureWidth}; from \u03c4h = {highConfidence} on there would be {fewestChildren}.",
      run: "dynatree",
      pick: "unsure",
      show: { as: "tree", light: "unsure" },
      cite: "DynaTree, section 3.3 (dynamic tree breadth)",
    },
    {
      say: "Depth follows the probability of the whole path. {stopped} here fell below \u03c1stop = {stopBelow} and are not drafted further.",
      run: "dynatree",
      pick: "mostStopped",
      show: { as: "tree", light: "stopped" },
      cite: "DynaTree, section 3.3 (dynamic tree depth)",
    },
    {
      say: "Pruning saves time, but can only take away: a pruned tree is a part of the full one, and never accepts more. Graft asks what to do with the places that it frees.",
      show: { as: "tree", light: "fromDrafter" },
      cite: "Graft, section 2.1, Equation 2",
    },
    {
      say: "Graft looks at a few checkpoints. At {stage} the best drafted path had {stageConfidence}, and the gate stands at {stageThreshold}: the draft ended there and kept {keptDraft}.",
      show: { as: "bars", of: "gates" },
      cite: "Graft, section 3.1; Algorithm 2; Table 7",
    },
    {
      say: "The freed places hold {retrieved} that were looked up: a matrix keeps for every token what the target last thought would follow it. That takes no pass of the drafter.",
      show: { as: "tree", light: "retrieved" },
      cite: "Graft, section 3.2, Equations 9 to 11; Token Recycling, section 3",
    },
    {
      say: "Here a graft was right: {graftToken} was looked up behind {graftParent}, and the target chose it. Squares and dashed lines are retrieved nodes, everywhere on this page.",
      pick: "graftAccepted",
      show: { as: "tree", light: "outcome" },
      cite: "Graft, section 2.2",
    },
    {
      say: "The target judges a graft like any guess, so the text stays its own: {graftsWritten} of it came from grafts, and {sameAsPlain} are those of the plain run.",
      pick: "last",
      show: { as: "text" },
      cite: "Graft, section 3.3",
    },
  ],
  attempt: { run: "graft", pick: "graftAccepted" },
  question: "Why does Graft not simply add retrieved nodes to the whole drafted tree?",
  answer: "Because the target\u2019s pass over more nodes costs more. Graft keeps their number fixed, so what is grafted must be paid for by what was pruned (Graft, section 3.1, Equation 8).",
};

export const speedup = {
  id: "speedup",
  title: "What limits speedup",
  run: "ddtree-graft",
  pick: "mostAccepted",
  beside: ["plain", "chain", "dynatree", "graft", "recycle"],
  steps: [
    {
      say: "A round writes the accepted tokens and one more, and costs a draft and a pass. Here: ({tokensAccepted} + 1) \u00d7 {plainStep} for a plain step \u00f7 {roundTime} for a round = {speedup}, {faster}.",
      show: { as: "stages", runs: ["plain", "ddtree-graft"] },
      cite: "Graft, section 2.1, Equation 1",
    },
    {
      say: "The target\u2019s pass took {verifyShare} of a usual round. The rest is what the strategy adds: drafting, building the tree, walking it, putting the cache in order.",
      show: { as: "stages", runs: ["ddtree-graft"] },
      cite: "DDTree, section 5.3",
    },
    {
      say: "And a pass is not free of its size: over {usualNodes} nodes it took {verifyOverPlain} what it takes over one. How soon that grows depends on the machine: on a large GPU much later than on a laptop.",
      show: { as: "bars", of: "passes" },
      cite: "DDTree, section 5.3; Graft, section 1",
    },
    {
      say: "Drafting costs, too. This block drafter looks once, {draftTime} a round; {steppedDrafter} steps once for every depth, {steppedDraftTime}.",
      show: { as: "stages", runs: ["ddtree-graft", "graft"] },
      cite: "DDTree, section 2",
    },
    {
      say: "What comes back is accepted tokens: how well the drafter knows the target, and how well the tree is chosen. Compared over the {sharedTokens} that all these runs wrote alike.",
      show: { as: "bars", of: "tokensPerRound" },
      cite: "DDTree, section 1",
    },
    {
      say: "Each further node brings less: the first one of this tree adds {firstNodeMass} to the expected length, the last one {lastNodeMass}. Yet the target must read each of them.",
      run: "recorded",
      pick: "mostAcceptedOfMarginals",
      show: { as: "columns", of: "nodeMasses" },
      cite: "DDTree, section 5.3 and Figure 3",
    },
    {
      say: "Tokens per second are the judge, and they belong to a machine: the best budget differs from one to the next, and a tree too large for it is slower than no tree.",
      show: { as: "bars", of: "speeds" },
      cite: "DDTree, section 5.3",
    },
  ],
  attempt: { run: "ddtree-graft", pick: "mostAccepted" },
  question: "A tree brings one accepted token a round on average, and a round takes 2.2 plain steps. Is it faster?",
  answer: "No: (1 + 1) \u00f7 2.2 = .91 of plain decoding\u2019s speed. It would have to accept more, or to be smaller.",
};

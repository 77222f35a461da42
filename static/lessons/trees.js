export const trees = {
  id: "trees",
  title: "Why trees",
  run: "recorded",
  pick: "mostGain",
  steps: [
    {
      say: "A chain bets everything on one continuation. Here the drafter\u2019s first choices after {root} are {chainTokens}, and the target takes {chainAccepted} of them.",
      show: { as: "tree", light: "chain" },
      cite: "DDTree, section 1; DynaTree, section 1",
    },
    {
      say: "What the target wrote instead was {forkToken}. The drafter had thought of that, too: its number {forkRank} for this place, with probability {forkP}.",
      show: { as: "marginals", mark: "fork" },
      cite: "DDTree, section 1",
    },
    {
      say: "A tree keeps several guesses for one place: {forkSiblings} stand side by side here.",
      show: { as: "tree", light: "forkSiblings" },
      cite: "DynaTree, section 1",
    },
    {
      say: "One pass checks every branch. The walk goes from the root to the child that the target chose, for as long as there is one: {pathTokens}, then the target\u2019s own {bonus}.",
      show: { as: "tree", light: "outcome" },
      cite: "DDTree, section 4.1 (step 4) and Figure 2",
    },
    {
      say: "The other {wasted} were for nothing. A tree pays where they cost little in a pass that is made anyway, and a longer path saves a whole pass.",
      show: { as: "tree", light: "wasted" },
      cite: "DDTree, section 1",
    },
    {
      say: "Over the whole run the tree wrote {tau} tokens a round, the bonus included. Its best chain alone would have written {chainTau} in the same rounds.",
      show: { as: "columns", of: "chainAgainstTree" },
      cite: "DDTree, sections 5.2 and 5.4",
    },
  ],
  attempt: { run: "recorded", pick: "mostGain" },
  question: "Why not spend all nodes on one very long chain?",
  answer: "All of a chain up to a token must be right for that token to count, so each further one is less likely to be of use. Soon a second guess near the root is worth more than one more token at the far end.",
};

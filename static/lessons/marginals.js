export const marginals = {
  id: "marginals",
  title: "Marginals: Proposition 1",
  run: "recorded",
  pick: "mostAcceptedOfMarginals",
  steps: [
    {
      say: "A block drafter looks once and gives each of the next {positions} places its own distribution q. These are its best guesses after {root}, place by place.",
      show: { as: "marginals" },
      cite: "DDTree, section 3",
    },
    {
      say: "These are marginals: no place knows what was chosen at the place before. So {repeatedToken} stands below {repeatedParents} here, with the same probability {repeatedP} every time.",
      pick: "mostRepeated",
      show: { as: "tree", light: "repeated" },
      cite: "DDTree, section 3, Equation 2",
    },
    {
      say: "A path is then as likely as the product of its tokens. The likeliest of two tokens or more is {heavyTokens}: {product}.",
      show: { as: "tree", light: "heavy" },
      cite: "DDTree, section 4.2, Equation 7",
    },
    {
      say: "Proposition 1: the expected number of accepted tokens is the sum of all nodes\u2019 path probabilities, here {expected}. Summed by depth they tell how likely the path gets that deep.",
      show: { as: "bars", of: "depthMasses" },
      cite: "DDTree, section 4.2, Proposition 1; proof in Appendix A",
    },
    {
      say: "So the best tree of B nodes is simply the B likeliest paths. No child is likelier than its parent, so they always hang together. Lit: the best tree of {half} nodes.",
      show: { as: "tree", light: "firstHalf" },
      cite: "DDTree, section 4.2, Proposition 2",
    },
    {
      say: "It is the best tree for what the drafter believes, and the drafter is not the target: it expected {meanExpected} accepted tokens a round, and {meanAccepted} came true.",
      show: { as: "columns", of: "expectedAgainstAccepted" },
      cite: "DDTree, section 4.2, Remark 1",
    },
  ],
  attempt: { run: "recorded", pick: "mostAcceptedOfMarginals" },
  question: "A node\u2019s path has probability .04, and its best child would have .5 after it. Its next sibling\u2019s path has .03. There is room for one node: which?",
  answer: "The sibling. It adds .03 to the expected length, the child .04 \u00d7 .5 = .02. How deep a node lies does not matter, only the probability of its path.",
};

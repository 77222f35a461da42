const seen = (pops) => ({ as: "heap", pops });

export const heap = {
  id: "heap",
  title: "The heap: Algorithm 1",
  run: "recorded",
  pick: "mostAcceptedOfMarginals",
  steps: [
    {
      say: "The B likeliest paths can be found without listing all: keep a heap of candidates, the likeliest on top. It begins with one, the best token of the first place.",
      show: seen(0),
      cite: "DDTree, section 4.3, Algorithm 1 (line 2)",
    },
    {
      say: "The top is popped and becomes a node: {lastPopped}. Two candidates go in: its next sibling, the second best for the same place, and its first child, the best for the next place.",
      show: seen(1),
      cite: "DDTree, section 4.3, Algorithm 1 (lines 5 to 12)",
    },
    {
      say: "And again. Now the likeliest of the {waiting} left is on top; popped was {lastPopped} at {lastPoppedDepth}, with {lastPoppedP} for its path.",
      show: seen(2),
      cite: "DDTree, section 4.3, Algorithm 1",
    },
    {
      say: "A pop adds two candidates at most, so the heap stays small: {waiting} after {pops} pops. What is in the tree by now is the best tree of {pops} nodes.",
      show: seen("half"),
      cite: "DDTree, section 4.3, Remark 2; section 4.2, Proposition 2",
    },
    {
      say: "After {pops} pops the budget is spent. The least likely path inside has {leastInside}, the likeliest left outside {bestOutside}: no exchange could help.",
      show: seen("all"),
      cite: "DDTree, section 4.3, Proposition 3",
    },
  ],
  attempt: { run: "recorded", pick: "mostAcceptedOfMarginals" },
  question: "Why is it enough to put in the next sibling and the first child?",
  answer: "Every path is reached from the first candidate by such steps, and no step makes a path likelier. So before a path\u2019s turn comes, the one it is reached from has been popped, and the path is in the heap (Appendix A, proof of Proposition 3).",
};

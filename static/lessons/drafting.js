export const drafting = {
  id: "drafting",
  title: "Draft and verify",
  run: "chain",
  pick: "missed",
  beside: ["plain"],
  steps: [
    {
      say: "After {root} a small drafter guesses what comes next: {drafted}, one behind the other. It is cheap, and it may be wrong.",
      show: { as: "tree", light: "drafted" },
      cite: "Leviathan et al. 2023, Algorithm 1; DynaTree, section 2.1",
    },
    {
      say: "The target reads all of them in one pass. So it says after each of them, at once, what it would have written there itself.",
      show: { as: "agreement" },
      cite: "DDTree, section 1; DynaTree, section 3.5",
    },
    {
      say: "As long as the two agree, the drafted tokens are taken. Here that is {accepted} of {drafted}.",
      show: { as: "tree", light: "path" },
      cite: "DynaTree, section 3.5 (longest valid path)",
    },
    {
      say: "Then they part: the drafter guessed {guess}, the target chose {bonus}. The {discarded} behind the wrong guess are thrown away with it: they continue a text that is not there.",
      show: { as: "tree", light: "discarded" },
      cite: "DynaTree, section 1",
    },
    {
      say: "The target\u2019s own {bonus} is kept: the pass that refused the guess has chosen it already. This bonus is why a round writes a token even where every guess is wrong.",
      show: { as: "tree", light: "bonus" },
      cite: "DDTree, section 3; DynaTree, section 3.5",
    },
    {
      say: "The text is the target\u2019s own: this run and the plain one agree in {sameAsPlain}. It took {rounds} instead of {plainRounds}.",
      pick: "last",
      show: { as: "text" },
      cite: "DynaTree, section 3.6",
    },
  ],
  attempt: { run: "chain", pick: "missed" },
  question: "Could a bad drafter spoil the text?",
  answer: "No. Nothing is written that the target did not choose after the very same text. A bad drafter only costs time.",
};

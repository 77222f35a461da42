export const plain = {
  id: "plain",
  title: "Plain decoding",
  run: "plain",
  pick: "mostOpen",
  steps: [
    {
      say: "A language model writes one token at a time. Here {target} was asked \u201c{prompt}\u201d, and {firstToken} is its first token.",
      show: { as: "text", until: "prefill" },
      cite: "DDTree, section 1",
    },
    {
      say: "For the next token it reads the whole text and gives every token of its vocabulary a probability. Here, after {root}, its best is {choice} with {choiceP}.",
      show: { as: "bars", of: "choices" },
      cite: "DynaTree, section 3.1",
    },
    {
      say: "Greedy decoding takes the likeliest one, {choice}, puts it behind the text, and begins again with a text that is one token longer.",
      show: { as: "text" },
      cite: "DynaTree, section 3.1",
    },
    {
      say: "Every token costs a pass through all of the model. These {tokens} took {plainRounds} passes after the prompt\u2019s own, {plainStep} each on the machine that recorded them.",
      show: { as: "stages", runs: ["plain"] },
      cite: "DynaTree, section 1",
    },
    {
      say: "No pass can begin before the one ahead of it has chosen its token. A machine that could reckon many tokens side by side has nothing to reckon: that is what drafting is for.",
      pick: "last",
      show: { as: "text" },
      cite: "DynaTree, section 1; Graft, section 1",
    },
  ],
  attempt: { run: "plain", pick: "mostOpen" },
  question: "Reading a prompt of a hundred tokens is one pass. Why is writing a hundred tokens a hundred passes?",
  answer: "The tokens of a prompt are all known, so their passes can run side by side. A token that is still to be written must be chosen before anything behind it can be reckoned.",
};

"""Example prompts by kind of task: drafting is easy where the text repeats itself, hard where it does not."""

EXAMPLES = [
    ("Explain: why the sky is blue", "Why is the sky blue?"),
    (
        "Code: a binary search in Python",
        "Write a Python function that finds a number in a sorted list by binary search.",
    ),
    (
        "Reason: a word problem",
        "A shop sells pens at 3 for 2 dollars. How much do 18 pens cost? Show each step.",
    ),
    (
        "Summarise: a short passage",
        "Summarise in two sentences: The canopy is the uppermost layer of a forest. It holds most of the forest's "
        "leaves and so most of its photosynthesis. Many animals live their whole lives in the canopy and never come "
        "down to the forest floor.",
    ),
    (
        "Copy and edit: change one word",
        "Repeat this text, with every 'river' changed to 'road': The river leaves the hills, the river crosses the "
        "plain, and in the evening the river reaches the sea.",
    ),
    ("List: ten animals", "List ten animals that live in the forest, one per line, numbered."),
    ("Write: the opening of a story", "Write the opening paragraph of a story about a lighthouse keeper."),
]

"""Example prompts by kind of task: drafting is easy where the text repeats itself, hard where it does not.

The kinds are those by which the field reports speedups. All sentences and documents are our own.
"""

FERRY = (
    "The ferry to Hallow Island leaves from the north pier at seven in the morning, at noon and at five in the "
    "afternoon. In winter, from November to March, only the noon ferry runs. A single ticket costs four crowns, a "
    "return ticket six; children under six travel free. Bicycles are carried on the morning and afternoon ferries "
    "for one crown each, but not at noon, when the deck is kept clear for post and freight. In a storm the harbour "
    "master decides by ten in the morning whether the ferry sails, and a red flag is raised on the pier if not."
)
BEES = (
    "For ten years the town of Ellerby mowed its road verges six times each summer. In spring the council began to "
    "mow half of them only once, in September, and asked the school to count what grew there. The first summer the "
    "pupils found eleven kinds of flower where there had been four, and three times as many bees. Not everyone was "
    "pleased: two residents wrote that the long grass looked untidy and hid the road signs. The council now cuts a "
    "narrow strip along the kerb and leaves the rest. Mowing costs have fallen by a third."
)

EXAMPLES = [
    ("Conversation: why the sky is blue", "Why is the sky blue?"),
    (
        "Conversation: plans for a rainy day",
        "My two nieces, six and nine years old, are visiting and it will rain all day. What could we do indoors?",
    ),
    (
        "Translation: German to English",
        "Translate into English: Der alte Leuchtturm steht am Ende der Bucht. Jeden Abend steigt der Wärter die Treppe "
        "hinauf und zündet das Licht an, damit die Schiffe den Weg nach Hause finden.",
    ),
    ("Summary: what a town did for bees", "Summarise in two sentences:\n\n" + BEES),
    ("Question: a fact and its reason", "Why do we see the Moon change its shape over a month?"),
    ("Maths: a word problem", "A shop sells pens at 3 for 2 dollars. How much do 18 pens cost? Show each step."),
    (
        "Retrieval: answer from a document",
        "Answer only from this text, and quote the sentence you used.\n\n"
        + FERRY
        + "\n\nQuestion: I have a bicycle and want to go over in December. Can I take it with me?",
    ),
    (
        "Retrieval: copy with one change",
        "Repeat this text word for word, with every 'ferry' changed to 'boat':\n\n" + FERRY,
    ),
    (
        "Code: a binary search in Python",
        "Write a Python function that finds a number in a sorted list by binary search.",
    ),
    (
        "Code: extend a table",
        "Add the months April to June in the same way:\n\nDAYS = {\n    'January': 31,\n    'February': 28,\n"
        "    'March': 31,\n}",
    ),
]
"""Title, which names the kind first, and prompt; the page begins with the first one."""

"""How the shipped drafters were made: the target's own text, its features, and one recipe per drafter."""

"""Prompt lookup decoding (Saxena, 2023): the chain that followed the text's last words when they stood there before."""

from dataclasses import dataclass

from decoding.settings import option
from decoding.strategies.linear import Linear, LinearSettings


@dataclass(frozen=True)
class PLDSettings(LinearSettings):
    """The reference proposes 10 tokens after an n-gram of at most 3 (see `drafters.prompt_lookup`)."""

    budget: int = option(10, "tokens in the chain", low=1, high=64)


class PLD(Linear):
    """`linear` with the defaults of PLD."""

    name = "pld"
    title = "Prompt lookup decoding"
    paper = "Prompt lookup decoding (Saxena 2023)"
    needs = frozenset({"stepwise"})
    usual_drafters = ("prompt-lookup",)
    settings_class = PLDSettings

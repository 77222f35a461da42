"""Every verifier, by name."""

from decoding.errors import Incompatible, UnknownName
from decoding.sampling import Sampling
from decoding.verifiers.base import Verifier
from decoding.verifiers.eagle import Eagle
from decoding.verifiers.greedy import Greedy
from decoding.verifiers.multi_round import MultiRound
from decoding.verifiers.sample_match import SampleMatch
from decoding.verifiers.traversal import Traversal
from decoding.verifiers.without_replacement import WithoutReplacement

VERIFIERS: dict[str, type[Verifier]] = {
    "greedy": Greedy,
    "sample-match": SampleMatch,
    "eagle": Eagle,
    "multi-round": MultiRound,
    "without-replacement": WithoutReplacement,
    "traversal": Traversal,
}


def make_verifier(name: str | None, sampling: Sampling) -> Verifier:
    """The named verifier, or the one that fits: greedy at temperature 0, sample-match above.

    Raises UnknownName, and Incompatible for a verifier that does not serve this temperature.
    """
    if name is None:
        name = Greedy.name if sampling.greedy else SampleMatch.name
    if name not in VERIFIERS:
        raise UnknownName("verifier", name, VERIFIERS)
    verifier = VERIFIERS[name]
    if verifier.greedy != sampling.greedy:
        serves = "temperature 0" if verifier.greedy else "temperatures above 0"
        fitting = [other for other, kind in VERIFIERS.items() if kind.greedy == sampling.greedy]
        raise Incompatible(
            f"The verifier {name!r} serves {serves}, and the temperature is {sampling.temperature:g}.",
            f"Use {' or '.join(repr(other) for other in fitting)}, or change the temperature.",
        )
    return verifier(sampling)

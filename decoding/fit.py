"""What fits what: target, drafter, strategy and verifier, judged before anything loads."""

from dataclasses import dataclass
from typing import Literal

from decoding.errors import Incompatible
from decoding.settings import Settings
from decoding.strategies import STRATEGIES
from decoding.strategies.base import Strategy
from decoding.verifiers import VERIFIERS
from decoding.verifiers.base import Verifier


@dataclass(frozen=True)
class DrafterInfo:
    """What can be said of a drafter without loading it."""

    id: str
    title: str
    kind: Literal["one-pass", "stepwise"]
    gives_logprobs: bool
    help: str
    vocab_size: int | None = None
    """None where it takes on the target's."""
    hidden_size: int | None = None
    """The target's hidden size that it was trained on; None where it does not matter."""
    made_for: tuple[str, ...] = ()
    """Ids of the targets that it was published for; empty where that is not known or any will do."""


@dataclass(frozen=True)
class TargetInfo:
    """What can be said of a target without loading it; None where its config has not been read."""

    id: str
    title: str
    help: str
    vocab_size: int | None
    hidden_size: int | None
    is_preset: bool = False


def misfit(target: TargetInfo, drafter: DrafterInfo | None, strategy: type[Strategy[Settings]]) -> str | None:
    """Why these do not fit together, in one sentence that names the culprit; None where they do."""
    if not strategy.needs:
        return None if drafter is None else f"{strategy.title} uses no drafter: choose none."
    wanted = " or ".join(sorted(strategy.needs))
    if drafter is None:
        return f"{strategy.title} needs a {wanted} drafter."
    if drafter.kind not in strategy.needs:
        return f"{strategy.title} needs a {wanted} drafter; {drafter.title} is a {drafter.kind} drafter."
    if drafter.id == strategy.retrieval:
        return f"{strategy.title} takes {drafter.title} beside its drafter: choose another drafter."
    if strategy.needs_logprobs and not drafter.gives_logprobs:
        return f"{strategy.title} needs log-probabilities; {drafter.title} gives none."
    if drafter.made_for and target.is_preset and target.id not in drafter.made_for:
        return f"{drafter.title} was made for {', '.join(drafter.made_for)}, not for {target.title}."
    if None not in (drafter.vocab_size, target.vocab_size) and drafter.vocab_size != target.vocab_size:
        return (
            f"{drafter.title} has a vocabulary of {drafter.vocab_size:,} tokens, {target.title} one of "
            f"{target.vocab_size:,}: they must be the same."
        )
    if None not in (drafter.hidden_size, target.hidden_size) and drafter.hidden_size != target.hidden_size:
        return (
            f"{drafter.title} reads hidden states of size {drafter.hidden_size}, {target.title} gives "
            f"{target.hidden_size}: it was trained for another target."
        )
    return None


def require_fit(target: TargetInfo, drafter: DrafterInfo | None, strategy: type[Strategy[Settings]]) -> None:
    """Raises Incompatible where `misfit` finds a reason."""
    if reason := misfit(target, drafter, strategy):
        raise Incompatible(reason, "See what fits with: python -m decoding list")


def require_verifier_fit(strategy: Strategy[Settings], verifier: type[Verifier]) -> None:
    """Raises Incompatible where the verifier is not lossless for the strategy's candidates as its settings have them.

    The message names both and how the candidates are chosen; the hint names the verifiers that fit this strategy, and
    the strategies that fit this verifier.
    """
    drawn = strategy.drawn
    if not strategy.max_nodes or drawn in verifier.needs_candidates:
        return
    verifiers = [
        name for name, kind in VERIFIERS.items() if kind.greedy == verifier.greedy and drawn in kind.needs_candidates
    ]
    drawing = [name for name, kind in STRATEGIES.items() if kind.candidates & verifier.needs_candidates]
    raise Incompatible(
        f"The verifier {verifier.name!r} is lossless only for {verifier.lossless_for}; with these settings the "
        f"candidates of {strategy.name!r} are {drawn}.",
        f"Use the verifier {' or '.join(map(repr, verifiers))}, or the strategy {' or '.join(map(repr, drawing))} "
        f"with candidates {' or '.join(sorted(verifier.needs_candidates))}.",
    )

"""One exception tree. Every error carries a message (what is wrong) and a hint (the way out)."""

from collections.abc import Iterable


class CanopyError(Exception):
    """Base of every error that is meant to be read by a person.

    `exit_code` is what the command line returns when the error reaches it.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class BadRequest(CanopyError):
    """The request cannot be served as it stands: a bad value, an empty or too long prompt."""

    exit_code = 2


class UnknownName(BadRequest):
    """A name that stands in no table; the message lists those that do."""

    def __init__(self, kind: str, name: str, options: Iterable[str]) -> None:
        super().__init__(f"There is no {kind} named {name!r}.", f"Choose one of: {', '.join(options)}.")


class Incompatible(BadRequest):
    """Target, drafter, strategy and verifier do not fit together."""


class UnsupportedModel(BadRequest):
    """A model whose cache or weights this project cannot handle exactly."""


class ModelUnavailable(CanopyError):
    """A model could not be fetched, read or placed on the device."""


class NonFiniteLogits(CanopyError):
    """A model produced NaN or infinite logits, so no token can be chosen."""


class OutOfMemory(CanopyError):
    """The device has no room for the cache or the forward pass."""


class TraceError(CanopyError):
    """A trace file that is not valid; the message names the line and the field."""

    exit_code = 2

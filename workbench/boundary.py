"""Exceptions become one visible message here, and nowhere else."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import gradio as gr

from decoding.errors import CanopyError
from decoding.exhaustion import is_out_of_memory
from workbench.private_log import without_values

log = logging.getLogger("canopy")
Params = ParamSpec("Params")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Failure:
    """What went wrong and the way out, for a person to read."""

    message: str
    hint: str

    def event(self) -> dict[str, Any]:
        """As an event of a run."""
        return {"kind": "error", "message": self.message, "hint": self.hint}


def explain(error: BaseException) -> Failure:
    """Our own errors speak for themselves; any other is logged and shown without its inside."""
    if isinstance(error, CanopyError):
        return Failure(_writable(error.message), _writable(error.hint))
    log.error("unexpected failure\n%s", without_values(error))
    if is_out_of_memory(error):
        return Failure("The device ran out of memory.", "Take a smaller budget, a shorter text or a smaller model.")
    return Failure(
        f"Something inside Canopy failed ({type(error).__name__}).",
        "Try again; if it stays, the log of the server says where it happened.",
    )


def _writable(text: str) -> str:
    """Without halves of surrogate pairs, which a message may quote and no answer can hold."""
    return text.encode("utf-8", "replace").decode()


@contextmanager
def as_api_error() -> Iterator[None]:
    """Inside, an error reaches a client of the API as its message and hint, without a traceback."""
    try:
        yield
    except (gr.Error, GeneratorExit):
        raise
    except Exception as error:
        failure = explain(error)
        raise gr.Error(f"{failure.message} {failure.hint}".strip(), print_exception=False) from None


def answered(handler: Callable[[Any], Any], payload: Any) -> Any:
    """What a function served to the browser answers: its result, or `{"error": …, "hint": …}`.

    An exception would reach the browser as a bare "Internal Server Error".
    """
    try:
        return handler(payload)
    except Exception as error:
        failure = explain(error)
        return {"error": failure.message, "hint": failure.hint}


def visible(handler: Callable[Params, Result]) -> Callable[Params, Result]:
    """A handler of the page whose errors are shown as messages."""

    @wraps(handler)
    def guarded(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        with as_api_error():
            return handler(*args, **kwargs)

    return guarded

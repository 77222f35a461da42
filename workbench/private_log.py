"""Logs that say where something failed, and never with what: messages of exceptions quote prompts and tokens."""

import logging
import sys
import traceback
from types import ModuleType
from typing import Any

import gradio

log = logging.getLogger("canopy")
PRINTERS: tuple[ModuleType, ...] = (gradio.queueing, gradio.routes, gradio.route_utils, gradio.utils)
"""Modules of Gradio that print the exceptions of handlers."""


def without_values(error: BaseException) -> str:
    """The exception and what led to it: types, files, lines and functions."""
    told: list[str] = []
    link: BaseException | None = error
    while link is not None and len(told) < 8:
        told.append("".join(traceback.format_tb(link.__traceback__)) + type(link).__name__)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return "\nafter\n".join(told)


class _PrivateTraceback:
    """Python's `traceback`, but what is printed goes to our log without values."""

    def print_exc(self, *_: Any, **__: Any) -> None:
        if (error := sys.exception()) is not None:
            log.error("unexpected failure in Gradio\n%s", without_values(error))

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)


def _only_places(record: logging.LogRecord) -> bool:
    if record.exc_info and record.exc_info[1] is not None:
        record.msg = f"{record.getMessage()}\n{without_values(record.exc_info[1])}"
        record.args, record.exc_info, record.exc_text = (), None, None
    return True


def keep_gradio_private() -> None:
    """Gradio prints whole exceptions to standard error; those of a call with a wrong count quote all its values. Its
    server logs those that nobody caught."""
    logging.getLogger("uvicorn.error").addFilter(_only_places)
    for module in PRINTERS:
        module.traceback = _PrivateTraceback()  # type: ignore[attr-defined]

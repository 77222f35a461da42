"""Runs over HTTP, beside Gradio: bodies are read in pieces and bounded, which its own endpoints cannot do, and the
question that a watching page asks twice a second takes a third of their time.

    POST   /canopy/runs                        the trace as body: checked, kept, its id given back
    POST   /canopy/runs/of/TICKET              keeps a run that this server has just made
    GET    /canopy/runs/of/TICKET/events/N     its events from number N on, as a message of `views.messages`
    POST   /canopy/runs/of/TICKET/stop         ends one whose page has gone
    GET    /canopy/runs/ID                     the trace
    DELETE /canopy/runs/ID                     takes it away

Who knows a run's ticket may read and stop it: nobody can guess one. A visitor is a secret that the browser has made up.
As a header of our own it keeps other sites' forms out, too.
"""

import gzip
import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict

import anyio
from anyio.to_thread import run_sync
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from decoding.errors import BadRequest, CanopyError
from workbench.boundary import explain
from workbench.kept_runs import MAX_FILE_BYTES
from workbench.run_request import checked_ticket
from workbench.services import Services
from workbench.views.messages import run_message

VISITOR = re.compile(r"[0-9a-f]{32}")
RUN_ID = re.compile(r"[0-9a-f]{32}")
NUMBER = re.compile(r"[0-9]{1,9}")
MAX_UPLOADS = 4
"""Uploads being read or checked at one time."""
UPLOAD_SECONDS = 120
FRESH = {"Cache-Control": "no-store"}
SAFE = {
    "Content-Type": "application/x-ndjson; charset=utf-8",
    "Content-Disposition": 'attachment; filename="canopy-run.jsonl"',
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    **FRESH,
}
"""A trace is a file to save, never a page."""
Handler = Callable[[Request], Awaitable[Response]]


class Busy(CanopyError):
    """Too many imports at one time."""


class Gone(CanopyError):
    """No run has this id (any more)."""


def run_routes(services: Services) -> list[Route]:
    """The routes over the services."""
    kept = services.kept
    places = _Places(MAX_UPLOADS)

    async def add(request: Request) -> Response:
        visitor = _visitor(request)
        with places:
            with anyio.fail_after(UPLOAD_SECONDS):
                body = await _body(request)
            return JSONResponse(asdict(await run_sync(kept.keep, visitor, body)))

    async def add_own(request: Request) -> Response:
        visitor, ticket = _visitor(request), checked_ticket(request.path_params["ticket"])
        trace = services.trace(ticket).encode()
        return JSONResponse(asdict(await run_sync(kept.keep, visitor, trace)))

    async def events(request: Request) -> Response:
        ticket, first = checked_ticket(request.path_params["ticket"]), _number(request.path_params["first"])
        message = run_message(ticket, first, services.missed(ticket, first))
        return Response(message, media_type="application/json", headers=FRESH)

    async def stop(request: Request) -> Response:
        services.stop(checked_ticket(request.path_params["ticket"]))
        return JSONResponse({})

    async def read(request: Request) -> Response:
        packed = kept.find(_run_id(request))
        if packed is None:
            raise Gone("The run in this link is no longer kept.", "Import its file, or run the prompt again.")
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, headers=SAFE | {"Content-Encoding": "gzip"})
        return Response(await run_sync(gzip.decompress, packed), headers=SAFE)

    async def drop(request: Request) -> Response:
        if not kept.drop(_visitor(request), _run_id(request)):
            raise Gone("There is no such run of yours.")
        return JSONResponse({})

    def route(path: str, handler: Handler, method: str) -> Route:
        return Route("/canopy/runs" + path, _explained(handler), methods=[method])

    return [
        route("", add, "POST"),
        route("/of/{ticket}", add_own, "POST"),
        route("/of/{ticket}/events/{first}", events, "GET"),
        route("/of/{ticket}/stop", stop, "POST"),
        route("/{id}", read, "GET"),
        route("/{id}", drop, "DELETE"),
    ]


class _Places:
    """So many uploads at one time, and no more: each may hold a whole trace in memory."""

    def __init__(self, free: int) -> None:
        self._free = free

    def __enter__(self) -> None:
        if not self._free:
            raise Busy("Others are importing just now.", "Try again in a moment.")
        self._free -= 1

    def __exit__(self, *_: object) -> None:
        self._free += 1


async def _body(request: Request) -> bytes:
    """The body, refused as soon as it is longer than a trace may be."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_FILE_BYTES:
            raise BadRequest(f"The file is larger than {MAX_FILE_BYTES // 2**20} MB.", "Import a shorter run.")
    return bytes(body)


def _visitor(request: Request) -> str:
    visitor = request.headers.get("x-canopy-visitor", "")
    if not VISITOR.fullmatch(visitor):
        raise BadRequest("This request does not say whose run it is.", "Load the page again.")
    return visitor


def _number(text: str) -> int:
    if not NUMBER.fullmatch(text):
        raise BadRequest("An event has a number from 0 on.", "Load the page again.")
    return int(text)


def _run_id(request: Request) -> str:
    run_id = str(request.path_params["id"])
    if not RUN_ID.fullmatch(run_id):
        raise Gone("This is not the id of a run.", "Check that the link is whole.")
    return run_id


def _explained(handler: Handler) -> Handler:
    """Errors go to the browser as message and hint."""

    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=400)
        except TimeoutError:
            failure, status = explain(BadRequest("The upload took too long.", "Try again.")), 408
        except Exception as error:
            failure = explain(error)
            known = {Gone: 404, Busy: 503}.get(type(error), 400)
            status = known if isinstance(error, CanopyError) else 500
        return JSONResponse({"message": failure.message, "hint": failure.hint}, status_code=status)

    return guarded

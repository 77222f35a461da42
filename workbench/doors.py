"""What of Gradio's server answers: only what the page and its clients use, with bodies of bounded size.

Gradio also serves uploads, files, proxies, recordings and more. Nothing here needs them, so they are not there.
"""

import re

import anyio
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 2**20
MAX_SENT_BYTES = 16 * MAX_BODY_BYTES
"""So much of a longer body is heard out and dropped, so that the refusal arrives; behind that, the line is cut."""
BODY_SECONDS = 30
OPEN = re.compile(
    r"/(healthz|readyz|config/?|theme\.css|favicon\.ico|robots\.txt|manifest\.json|pwa_icon(/\w+)?)?"
    r"|/(canopy|static|assets|svelte)/.+"
    r"|/canopy/runs"
    r"|/gradio_api/(info|app_id|reset|cancel|component_server|startup-events|theme\.css)/?"
    r"|/gradio_api/(queue/(join|data)|heartbeat/\w+|call/[\w/]+|run/\w+)/?"
)
OWN_BODIES = "/canopy/runs"
"""Its handlers bound what they read."""


class Doors:
    """Answers 404 for what is not `OPEN`, 413 for a long body and 408 for one that does not come."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        path = scope["path"].removeprefix(scope.get("root_path", "").rstrip("/")) or "/"
        here = scope["type"] == "http" and OPEN.fullmatch(path) and ".." not in path
        nowhere = _refuse(404, "There is nothing here.", "Open the page itself.")
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS") or path.startswith(OWN_BODIES):
            return await (self.app if here else nowhere)(scope, receive, send)
        body, sent = b"", 0
        with anyio.move_on_after(BODY_SECONDS) as waiting:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                piece = message.get("body", b"")
                sent += len(piece)
                body = body + piece if sent <= MAX_BODY_BYTES else b""
                if sent > MAX_SENT_BYTES or not message.get("more_body", False):
                    break
        if waiting.cancelled_caught:
            return await _refuse(408, "The request took too long.", "Try again.")(scope, receive, send)
        if sent > MAX_BODY_BYTES:
            return await _refuse(413, "The request is too long.", "Send less.")(scope, receive, send)
        if not here:
            return await nowhere(scope, receive, send)
        if not _is_text(body):
            return await _refuse(400, "The request is not JSON.", "See the README.")(scope, receive, send)
        return await self.app(scope, _again(body, receive), send)


def _is_text(body: bytes) -> bool:
    """Gradio fails on others while it writes its own refusal."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _again(body: bytes, receive: Receive) -> Receive:
    """The body that has been read, then what else comes."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return first.pop() if first else await receive()

    return replayed


def _refuse(status: int, message: str, hint: str) -> JSONResponse:
    return JSONResponse({"message": message, "hint": hint}, status_code=status)

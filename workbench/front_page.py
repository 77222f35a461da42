"""The page's own document, which is the same for all who come by one address.

Gradio writes it anew for every visitor: some twenty milliseconds, with the interpreter that also decodes.
"""

import gzip
import re
from typing import NamedTuple

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workbench.packed import send_kept

ADDRESS = ("host", "x-forwarded-host", "x-forwarded-proto", "x-gradio-server")
"""Headers from which Gradio reckons the page's own address, which the document holds."""
MOST_ADDRESSES = 16
"""Kept at one time: a stranger can make addresses up."""


class Document(NamedTuple):
    """A whole answer without its length; `packed` is its body, gzipped."""

    start: Message
    body: bytes
    packed: bytes


class FrontPage:
    """Answers GET of the page itself, written once per address, with `links` behind its <base>.

    What the query says is for the browser's side only, so Gradio does not get to see it.
    """

    def __init__(self, app: ASGIApp, links: str) -> None:
        self.app, self.links = app, links.encode()
        self._kept: dict[object, Document] = {}
        self._one_at_a_time = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        root = scope.get("root_path", "").rstrip("/")
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"].rstrip("/") in ("", root):
            await self._answer(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        document = await self._document(scope, receive, headers)
        await send_kept(send, headers, document.start, document.body, document.packed)

    async def _document(self, scope: Scope, receive: Receive, headers: Headers) -> Document:
        address = (scope["scheme"], scope["path"], *(tuple(headers.getlist(name)) for name in ADDRESS))
        async with self._one_at_a_time:
            if address not in self._kept:
                document = await self._written(scope, receive)
                if document.start["status"] != 200:
                    return document
                if len(self._kept) >= MOST_ADDRESSES:
                    self._kept.clear()
                self._kept[address] = document
            return self._kept[address]

    async def _written(self, scope: Scope, receive: Receive) -> Document:
        start: Message = {}
        body = b""

        async def gather(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
            else:
                body += message.get("body", b"")

        await self.app({**scope, "query_string": b""}, receive, gather)
        body = re.sub(rb"<base\b[^>]*>", lambda base: base.group() + b"\n" + self.links, body, count=1)
        headers = [pair for pair in start["headers"] if pair[0].lower() != b"content-length"]
        start["headers"] = [*headers, (b"vary", b"accept-encoding")]
        return Document(start, body, gzip.compress(body, mtime=0))

"""Static files out of memory, packed once.

A page is some hundred and thirty files. Through Gradio each takes about four milliseconds of the interpreter that also
decodes: a class that opens the page together would stop the run that it came to see.
"""

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from workbench.packed import send_kept

PACKED = (".js", ".css", ".html", ".json", ".jsonl", ".svg", ".txt", ".md")
"""Endings of files that are worth packing."""
KINDS = {".js": "text/javascript", ".jsonl": "text/plain"}
"""What Python's own table does not know, or Gradio changes in it."""
ALWAYS_ASK = "no-cache"
"""So that an update is seen at once."""
NEVER_ASK = "public, max-age=31536000, immutable"
"""For names that hold a digest of what is in the file."""


class Folder(NamedTuple):
    """Files that are served; `caching` is their Cache-Control."""

    path: Path
    caching: str


class _File(NamedTuple):
    version: tuple[int, int]
    body: bytes
    packed: bytes
    headers: list[tuple[bytes, bytes]]
    tag: bytes


class ReadyFiles:
    """Answers GET of the files that lie in `folders` (by the beginning of their address) when the server starts.

    One that has changed since is read again. All else, also a file that has come since, is the business of `app`.
    """

    def __init__(self, app: ASGIApp, folders: Mapping[str, Folder]) -> None:
        self.app = app
        self._places = {
            prefix + path.relative_to(folder.path).as_posix(): (path, folder.caching)
            for prefix, folder in folders.items()
            for path in folder.path.rglob("*")
            if path.is_file()
        }
        self._read: dict[str, _File] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        file = self._file(scope) if scope["type"] == "http" and scope["method"] == "GET" else None
        if file is None:
            return await self.app(scope, receive, send)
        asked = Headers(scope=scope)
        if file.tag in asked.get("if-none-match", "").encode("latin-1"):
            await send({"type": "http.response.start", "status": 304, "headers": file.headers})
            return await send({"type": "http.response.body"})
        start = {"type": "http.response.start", "status": 200, "headers": file.headers}
        return await send_kept(send, asked, start, file.body, file.packed)

    def _file(self, scope: Scope) -> _File | None:
        address = scope["path"].removeprefix(scope.get("root_path", "").rstrip("/"))
        if address not in self._places:
            return None
        path, caching = self._places[address]
        try:
            about = path.stat()
            version = about.st_mtime_ns, about.st_size
            if address not in self._read or self._read[address].version != version:
                self._read[address] = _read(path, version, caching)
        except OSError:
            return None
        return self._read[address]


def _read(path: Path, version: tuple[int, int], caching: str) -> _File:
    body = path.read_bytes()
    packs = path.suffix in PACKED
    tag = b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"'
    kind = KINDS.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    kind += "; charset=utf-8" if kind.startswith("text/") else ""
    headers = [(b"content-type", kind.encode()), (b"etag", tag), (b"cache-control", caching.encode())]
    headers += [(b"vary", b"accept-encoding")] if packs else []
    return _File(version, body, gzip.compress(body, mtime=0) if packs else b"", headers, tag)

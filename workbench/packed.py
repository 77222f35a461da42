"""Answers that are kept plain and gzipped, so that nothing is packed while somebody waits."""

from starlette.datastructures import Headers
from starlette.types import Message, Send


async def send_kept(send: Send, asked: Headers, start: Message, body: bytes, packed: bytes) -> None:
    """Sends `start`, and of both forms of the body the one that `asked` takes; `packed` is empty where it has one."""
    packs = packed and "gzip" in asked.get("accept-encoding", "")
    sent = packed if packs else body
    extra = [(b"content-length", str(len(sent)).encode())] + ([(b"content-encoding", b"gzip")] if packs else [])
    await send({**start, "headers": [*start["headers"], *extra]})
    await send({"type": "http.response.body", "body": sent})

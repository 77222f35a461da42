"""A Hub on localhost that holds folders: what huggingface_hub asks for, and nothing else. It can vanish."""

import hashlib
import json
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.decoding.tiny import serving

AT_ONCE = struct.pack("ii", 1, 0)
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Outage:
    """When the Hub vanishes, and what was asked of it."""

    def __init__(self, name: str, after: int, for_good: bool, reset: bool = False) -> None:
        self.name = name
        self.after = after
        """Bytes of the file `name` that still arrive."""
        self.for_good = for_good
        """Whether it stays away until it is `over`, or only that one connection breaks."""
        self.reset = reset
        """Whether connections are reset, or closed as if all had been said."""
        self.away = False
        self.cuts = 0
        self.ranges: list[str] = []

    def over(self) -> None:
        """The Hub is there again, and stays."""
        self.name, self.away = "", False

    def cut(self, name: str) -> bool:
        """Whether this answer is to break off."""
        if name != self.name:
            return False
        self.away = self.for_good
        self.cuts += 1
        if not self.for_good:
            self.name = ""
        return True


@contextmanager
def fake_hub(repositories: Mapping[str, Path], outage: Outage | None = None) -> Iterator[str]:
    """Serves each folder as the repository of that name; gives the address for HF_ENDPOINT."""
    fault = outage or Outage("", 0, False)

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(with_body=False)

        def do_GET(self) -> None:
            self.answer(with_body=True)

        def answer(self, with_body: bool) -> None:
            if fault.away:
                return self.vanish()
            path = self.path.partition("?")[0]
            for name, folder in repositories.items():
                if path.startswith(f"/api/models/{name}"):
                    files = [{"rfilename": f.name, "size": f.stat().st_size} for f in sorted(folder.iterdir())]
                    tree = [{"type": "file", "path": f["rfilename"], "size": f["size"], "oid": COMMIT} for f in files]
                    said = tree if "/tree/" in path else {"id": name, "sha": COMMIT, "siblings": files}
                    return self.send(json.dumps(said).encode(), {"Content-Type": "application/json"}, with_body)
                file = folder / path.rpartition("/")[2]
                if path.startswith(f"/{name}/resolve/") and file.is_file():
                    return self.send_file(file, with_body)
                if path.startswith(f"/{name}/resolve/"):
                    return self.refuse("EntryNotFound")
            return self.refuse("RepoNotFound")

        def send_file(self, file: Path, with_body: bool) -> None:
            body = file.read_bytes()
            headers = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Repo-Commit": COMMIT}
            first = 0
            if wanted := self.headers.get("Range"):
                fault.ranges.append(wanted)
                first = int(wanted.removeprefix("bytes=").rstrip("-"))
                headers["Content-Range"] = f"bytes {first}-{len(body) - 1}/{len(body)}"
            keep = fault.after if with_body and fault.cut(file.name) else None
            self.send(body[first:], headers, with_body, keep)

        def send(self, body: bytes, headers: dict[str, str], with_body: bool, keep: int | None = None) -> None:
            self.send_response(206 if "Content-Range" in headers else 200)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body[:keep])
            if keep is not None:
                self.vanish()

        def vanish(self) -> None:
            self.close_connection = True
            self.wfile.flush()
            if fault.reset:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                self.connection.close()
            else:
                self.connection.shutdown(socket.SHUT_RDWR)

        def refuse(self, code: str) -> None:
            self.send_response(404)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with serving(Hub) as address:
        yield address
